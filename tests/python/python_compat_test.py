"""speedtorch.compat: the ancestors' published loops with only the import line changed, compared with what the originals
compute, in NumPy's or plain torch's arithmetic."""

import contextlib
import copy
import io
import os
import resource
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import speedtorch
import torch
from speedtorch import compat
from speedtorch.compat import SpeedTorch, infinitybatch
from speedtorch.compat.contiguous_params import ContiguousParams
from speedtorch.compat.infinitybatch import tools
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
CLASSES, DIM = 40, 6


class Case(unittest.TestCase):
    def setUp(self):
        compat._told.clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore", compat.DifferenceWarning)

    def assert_close(self, a, b, within):
        a, b = (np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value) for value in (a, b))
        self.assertEqual(a.shape, b.shape)
        self.assertLessEqual(np.abs(a - b).max(initial=0), within)


class SkipGram(nn.Module):
    """The README's model: two embeddings, of positives and of negatives, and a score for each pair."""

    def __init__(self, rows=1, sparse=False):
        super().__init__()
        self.u_embeddings, self.v_embeddings = (nn.Embedding(rows, DIM, sparse=sparse) for _ in range(2))

    def forward(self, u, v, negatives):
        u, v, negatives = self.u_embeddings(u), self.v_embeddings(v), self.v_embeddings(negatives)
        right = F.logsigmoid((u * v).sum(-1)).sum()
        return -(right + F.logsigmoid(-(negatives @ u.transpose(1, 2))).sum()) / len(u)


def batches(number, repeats=False, batch=4, positives=1, negatives=3):
    """Index arrays of u, v and the negatives; without `repeats` each table's rows of a batch are distinct."""
    random = np.random.RandomState(7)
    for _ in range(number):
        u, v = (
            random.randint(0, 5, 16) if repeats else random.permutation(CLASSES)[:16]
            for _ in range(2)
        )  # fmt: skip
        yield u[: batch * positives].reshape(batch, positives), v[:batch].reshape(batch, 1), v[batch : batch * (1 + negatives)].reshape(batch, -1)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.5),
    "SGD momentum": lambda p: torch.optim.SGD(p, 0.5, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.3),
    "Adam": lambda p: torch.optim.Adam(p, 0.05),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, 0.05, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, 0.05),
    "Adadelta": lambda p: torch.optim.Adadelta(p, 1.0),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Rprop": lambda p: torch.optim.Rprop(p, 0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, 0.1, t0=3),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, 0.01),
    "SparseAdam": lambda p: torch.optim.SparseAdam(list(p), 0.05),
}
FACTORIES = {
    "cuda": (SpeedTorch.ModelFactory, SpeedTorch.OptimizerFactory, {}),
    "pinned": (SpeedTorch.ModelFactory, SpeedTorch.OptimizerFactory, {"CPUPinn": True}),
    "torch": (SpeedTorch.PytorchModelFactory, SpeedTorch.PytorchOptimizerFactory, {"deviceType": "cpu", "pinType": True}),
    "old": (SpeedTorch.CPUPytorchModelFactory, SpeedTorch.GPUPytorchOptimizerFactory, {}),
    "file": (SpeedTorch.ModelFactoryMM, SpeedTorch.OptimizerFactoryMM, {}),
}


def start(model):
    """The table's first values."""
    values = np.random.RandomState(3).uniform(-0.5, 0.5, (2, CLASSES, DIM)).astype("float32")
    return values if model is None else [torch.tensor(v) for v in values]


def train_swapped(make, family, data, sparse=False):
    """The README's loop. Returns both tables and the losses."""
    model_factory, optimizer_factory, options = FACTORIES[family]
    model = SkipGram(sparse=sparse)
    optimizer = make(model.parameters())
    u_switcher = model_factory(model.u_embeddings, total_classes=CLASSES, embed_dimension=DIM, **options)
    v_switcher = model_factory(model.v_embeddings, CLASSES, DIM, **options)
    for switcher, values in zip((u_switcher, v_switcher), start(model)):
        switcher.zerosInit()
        switcher.getCupyVar().copy_(values)
    u_states = optimizer_factory(optimizer, CLASSES, DIM, model, "u_embeddings", **options)
    v_states = optimizer_factory(optimizer, total_classes=CLASSES, embed_dimension=DIM, model=model, variable_name="v_embeddings", **options)
    u_states.optInit()
    v_states.optInit()
    u_input = u_switcher.variableTransformer(4, 1)
    v_input, n_input = v_switcher.variableTransformer(4, 1, 3)
    losses = []
    for u, v, negatives in data:
        u_switcher.beforeForwardPass(u)
        v_switcher.beforeForwardPass(v, negatives)
        u_states.beforeForwardPass(u)
        v_states.beforeForwardPass(v, negatives)
        optimizer.zero_grad()
        loss = model(*(torch.as_tensor(x) for x in (u_input, v_input, n_input)))
        loss.backward()
        optimizer.step()
        u_switcher.afterOptimizerStep(u)
        v_switcher.afterOptimizerStep(v, negatives)
        u_states.afterOptimizerStep(u)
        v_states.afterOptimizerStep(v, negatives)
        losses.append(loss.item())
    return u_switcher.getNumpyVersion(), v_switcher.getNumpyVersion(), losses


def train_rows(make, data):
    """What that computes: only the rows of a batch are stepped, each with its own states, and steps are counted for all. Here by
    a new optimizer in each step, on the distinct rows, given the states of a whole-table dictionary."""
    tables = [torch.tensor(v) for v in start(None)]
    kept, counts, losses = [{}, {}], [{}, {}], []
    for step, (u, v, negatives) in enumerate(data):
        named = [u.reshape(-1), np.concatenate([v.reshape(-1), negatives.reshape(-1)])]
        distinct = [torch.as_tensor(np.unique(n)) for n in named]
        model = SkipGram(CLASSES)
        for embedding, table in zip((model.u_embeddings, model.v_embeddings), tables):
            embedding.weight.data.copy_(table)
        loss = model(*map(torch.as_tensor, (u, v, negatives)))
        of_tables = torch.autograd.grad(loss, [model.u_embeddings.weight, model.v_embeddings.weight])
        parameters = [nn.Parameter(table[rows]) for table, rows in zip(tables, distinct)]
        optimizer = make(parameters)
        sparse = isinstance(optimizer, torch.optim.SparseAdam)
        for parameter, rows, gradient in zip(parameters, distinct, of_tables):
            parameter.grad = gradient[rows].to_sparse(1) if sparse else gradient[rows].clone()
        if step:
            for parameter, rows, states, count in zip(parameters, distinct, kept, counts):
                optimizer.state[parameter] = {**{k: s[rows] for k, s in states.items()}, **copy.deepcopy(count)}
        optimizer.step()
        for i, (parameter, rows) in enumerate(zip(parameters, distinct)):
            tables[i][rows] = parameter.detach()
            for name, value in optimizer.state[parameter].items():
                if isinstance(value, torch.Tensor) and value.dim():
                    beginning = {"sum": 0.3, "step_size": 0.01}.get(name, 0.0)
                    kept[i].setdefault(name, torch.full((CLASSES, DIM), beginning))[rows] = value
                else:
                    counts[i][name] = value
        losses.append(loss.item())
    return tables[0].numpy(), tables[1].numpy(), losses


class Factories(Case):
    def test_readme_loop_of_each_optimizer(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                found = train_swapped(make, "cuda", batches(8), sparse=name == "SparseAdam")
                for a, b in zip(found, train_rows(make, batches(8))):
                    self.assert_close(a, b, 2e-6)

    def test_readme_loop_of_each_family(self):
        expected = train_rows(OPTIMIZERS["Adamax"], batches(8))
        for family in FACTORIES:
            with self.subTest(family=family):
                for a, b in zip(train_swapped(OPTIMIZERS["Adamax"], family, batches(8)), expected):
                    self.assert_close(a, b, 2e-6)
        self.assertEqual(len([name for name in os.listdir() if name.endswith(".memmap.cpy.npy")]), 6)

    def test_dense_optimizers_on_the_whole_table(self):
        """SGD and Adagrad equal a step of the whole table, and Adam equals SparseAdam (which adds its epsilon elsewhere), as
        SpeedTorch's did."""
        for name, whole, within in (("SGD", "SGD", 1e-6), ("Adagrad", "Adagrad", 1e-6), ("Adam", "SparseAdam", 1e-4)):
            model = SkipGram(CLASSES, sparse=whole == "SparseAdam")
            for embedding, table in zip((model.u_embeddings, model.v_embeddings), start(model)):
                embedding.weight.data.copy_(table)
            optimizer = OPTIMIZERS[whole](model.parameters())
            for indices in batches(30):
                optimizer.zero_grad()
                model(*map(torch.as_tensor, indices)).backward()
                optimizer.step()
            found = train_swapped(OPTIMIZERS[name], "cuda", batches(30))
            self.assert_close(found[0], model.u_embeddings.weight, within)
            self.assert_close(found[1], model.v_embeddings.weight, within)

    def test_rows_named_twice_are_trained_as_in_the_whole_table(self):
        warnings.simplefilter("always", compat.DifferenceWarning)
        for name in ("SGD", "Adagrad", "Adam", "SparseAdam"):
            compat._told.clear()
            with self.subTest(optimizer=name), self.assertWarnsRegex(compat.DifferenceWarning, "their gradients are summed"):
                found = train_swapped(OPTIMIZERS[name], "cuda", batches(12, repeats=True), sparse=name == "SparseAdam")
            for a, b in zip(found, train_rows(OPTIMIZERS[name], batches(12, repeats=True))):
                self.assert_close(a, b, 5e-6)

    def test_repeated_rows_of_a_frozen_weight_and_of_another_one(self):
        embedding = nn.Embedding(1, DIM)
        embedding.weight.requires_grad_(False)
        switcher = SpeedTorch.ModelFactory(embedding, CLASSES, DIM)
        switcher.zerosInit()
        switcher.beforeForwardPass([3, 3])  # nothing to train
        for _ in range(2):
            embedding.weight = nn.Parameter(torch.zeros(1, DIM))
            switcher.beforeForwardPass([3, 4, 3])
            (embedding.weight * torch.tensor([[1.0], [2.0], [3.0]])).sum().backward()
            self.assertEqual(embedding.weight.grad[:, 0].tolist(), [4, 2, 4])

    def test_inits(self):
        torch.manual_seed(1)
        for family in ("cuda", "torch", "file"):
            kind, _, options = FACTORIES[family]
            switcher = kind(nn.Embedding(1, 4), 20_000, 4, **options)
            with self.assertRaisesRegex(RuntimeError, "there is no table yet; call zerosInit"):
                switcher.getNumpyVersion()
            switcher.zerosInit()
            self.assertFalse(switcher.getNumpyVersion().any())
            switcher.uniformDistributionInit(-0.5, 1.5)
            values = switcher.getNumpyVersion()
            self.assertEqual((values.dtype, values.shape), (np.float32, (20_000, 4)))
            self.assertTrue(-0.5 <= values.min() < -0.49 and 1.49 < values.max() < 1.5)
            self.assertTrue(values[-1].any())
            switcher.normalDistributionInit(2, 0.5)
            values = switcher.getNumpyVersion()
            self.assertAlmostEqual(values.mean(), 2, delta=0.02)
            self.assertAlmostEqual(values.std(), 0.5, delta=0.02)
            switcher.customInit(nn.init.constant_, 7.0)
            self.assertTrue((switcher.getNumpyVersion() == 7).all())

    def test_variable_transformer_and_positions(self):
        switcher = SpeedTorch.ModelFactory(nn.Embedding(1, DIM), CLASSES, DIM)
        np.testing.assert_array_equal(switcher.variableTransformer(3, 2), [[0, 1], [2, 3], [4, 5]])
        positives, negatives = switcher.variableTransformer(2, 1, 3)
        np.testing.assert_array_equal(positives, [[0], [1]])
        np.testing.assert_array_equal(negatives, [[2, 3, 4], [5, 6, 7]])
        switcher.zerosInit()
        switcher.beforeForwardPass(np.array([[4], [9]]), np.array([[1, 2, 3], [5, 6, 7]]))
        for mine, expected in zip(switcher.positions, (positives, negatives)):
            np.testing.assert_array_equal(mine, expected)

    def test_rows_of_any_index_go_to_the_weight_and_back(self):
        embedding = nn.Embedding(3, DIM)
        switcher = SpeedTorch.PytorchModelFactory(embedding, CLASSES, DIM, datatype="float32", deviceType="cpu")
        switcher.customInit(lambda table: table.copy_(torch.arange(CLASSES * DIM).view(CLASSES, DIM)))
        expected = np.arange(CLASSES * DIM, dtype="float32").reshape(CLASSES, DIM)
        weight = embedding.weight
        for index in ([3, 1], np.array([[5], [-1]], "int32"), torch.tensor([7, 39]), np.array([], "int64")):
            embedding.weight.grad = torch.ones_like(embedding.weight)
            switcher.beforeForwardPass(index)
            flat = np.asarray(index).reshape(-1)
            self.assert_close(embedding.weight, expected[flat], 0)
            self.assertIs(embedding.weight, weight)
            self.assertIsNone(weight.grad)
            with torch.no_grad():
                weight.mul_(2)
            expected[flat] *= 2
            switcher.afterOptimizerStep() if len(flat) == 2 else switcher.afterOptimizerStep(index)
            self.assert_close(switcher.getNumpyVersion(), expected, 0)
        for wrong, text in (([3, 40], "index 40 at position 1 is outside of 40 rows"), ([-41], "index -41 at position 0"), ([0.5], "float")):
            with self.assertRaisesRegex(IndexError, text):
                switcher.beforeForwardPass(wrong)
        switcher.beforeForwardPass([1, 2])
        with self.assertRaisesRegex(ValueError, "names other rows"):
            switcher.afterOptimizerStep([2, 1])
        warnings.simplefilter("always", compat.DifferenceWarning)
        switcher.beforeForwardPass([3, 4])  # a forward pass without training
        with torch.no_grad():
            weight.add_(1)
        with self.assertWarnsRegex(compat.DifferenceWarning, "not written back"):
            switcher.beforeForwardPass([5])
        with self.assertRaisesRegex(ValueError, "the weight has 1 rows and afterOptimizerStep\\(\\) names 2"):
            switcher._open = None
            switcher.afterOptimizerStep([1, 2])
        with self.assertRaisesRegex(TypeError, "without a weight"):
            SpeedTorch.ModelFactory(torch.ones(3), 2, 2)

    def test_saving(self):
        switcher = SpeedTorch.ModelFactory(nn.Embedding(1, DIM), CLASSES, DIM)
        switcher.normalDistributionInit(0, 1)
        values = switcher.getNumpyVersion()
        switcher.saveCupy("table")  # numpy.save's rule
        np.testing.assert_array_equal(np.load("table.npy"), values)
        np.save("doubles.npy", values.astype("float64") * 2)
        np.save("small.npy", values[:3])
        again = SpeedTorch.ModelFactory(nn.Embedding(1, DIM), CLASSES, DIM, CPUPinn=True)
        again.loadCupy("table.npy")
        np.testing.assert_array_equal(again.getNumpyVersion(), values)
        warnings.simplefilter("always", compat.DifferenceWarning)
        with self.assertWarnsRegex(compat.DifferenceWarning, "converted to the declared torch.float32"):
            again.loadCupy("doubles.npy")
        np.testing.assert_array_equal(again.getNumpyVersion(), values * 2)
        with self.assertRaisesRegex(ValueError, r"small.npy has the shape \(3, 6\); this ModelFactory has \(40, 6\)"):
            again.loadCupy("small.npy")
        of_torch = SpeedTorch.PytorchModelFactory(nn.Embedding(1, DIM), CLASSES, DIM)
        of_torch.zerosInit()
        of_torch.loadCupy("table.npy")
        of_torch.saveTorch("table.any")
        self.assert_close(torch.load("table.any"), values, 0)
        of_torch.zerosInit()
        of_torch.loadTorch("table.any")
        np.testing.assert_array_equal(of_torch.getNumpyVersion(), values)

    def saved(self):
        """A table and an optimizer's tables, each with the methods that save and load them."""
        embedding = nn.Embedding(4, DIM)
        weights = SpeedTorch.ModelFactory(embedding, CLASSES, DIM)
        weights.normalDistributionInit(0, 1)
        states = SpeedTorch.OptimizerFactory(OPTIMIZERS["Adam"](embedding.parameters()), CLASSES, DIM, embedding, "weight")
        states.optInit()
        for table in states.tables.values():
            table.fill(speedtorch.Uniform(0, 1))
        return (weights, weights.saveTorch, weights.loadTorch), (states, states.save, states.load)

    def test_flipped_bit_of_a_number_is_an_error_and_loads_nothing(self):
        for owner, save, load in self.saved():
            with self.subTest(load.__qualname__):
                save("whole")
                expected = copy.deepcopy(owner.getNumpyVersion())
                numbers = expected if isinstance(expected, np.ndarray) else expected["exp_avg_sq"]
                whole = Path("whole").read_bytes()
                first = whole.index(numbers.tobytes())
                for at in range(first, first + numbers.nbytes, 97):
                    Path("damaged").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
                    with self.assertRaisesRegex(speedtorch.errors.FileError, "damaged cannot .*entry '.*/data/[0-9]' is damaged"):
                        load("damaged")
                np.testing.assert_equal(owner.getNumpyVersion(), expected)
                load("whole")

    def test_content_of_another_kind_is_an_error_and_loads_nothing(self):
        (weights, _, load_table), (states, save, load_states) = self.saved()
        save("states")
        good = torch.load("states")
        for load, content, text in (
            (load_table, [torch.zeros(CLASSES, DIM)], "other holds a list, not a tensor"),
            (load_states, torch.ones(3), "other holds a Tensor, not a dict"),
            (load_states, {}, "other has no entry 'optimizer'"),
            (load_states, good | {"shared": 3}, "the entry 'shared' of other is a int"),
            (load_states, good | {"tables": good["tables"] | {"exp_avg": [1]}}, "the entry 'exp_avg' of other is a list"),
            (load_states, good | {"tables": {"exp_avg": torch.zeros(CLASSES, DIM)}}, "other has .*; this factory has"),
        ):
            expected = weights.getNumpyVersion(), states.getNumpyVersion()
            torch.save(content, "other")
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                load("other")
            np.testing.assert_equal((weights.getNumpyVersion(), states.getNumpyVersion()), expected)

    def test_files_of_the_format_of_speedtorchs_days_are_read(self):
        weights, _, load = self.saved()[0]
        torch.save(torch.ones(CLASSES, DIM), "old.pt", _use_new_zipfile_serialization=False)
        load("old.pt")
        self.assertTrue((weights.getNumpyVersion() == 1).all())
        with open("old.pt", "r+b") as file:
            file.truncate(100)
        with self.assertRaisesRegex(speedtorch.errors.FileError, "old.pt cannot be read"):
            load("old.pt")

    def test_files_appear_whole_and_keep_mode_and_link(self):
        counts = SpeedTorch.COM(CLASSES)
        counts.comInit()
        counts.addPairs([1, 2], [3, 4])
        for save in (*(save for _, save, _ in self.saved()), counts.saveCupy):
            with self.subTest(save.__qualname__):
                Path("file.npy").write_bytes(b"old")
                os.chmod("file.npy", 0o604)
                os.symlink("file.npy", "link.npy")
                save("link.npy")
                self.assertTrue(os.path.islink("link.npy"))
                self.assertEqual(os.stat("file.npy").st_mode & 0o777, 0o604)
                whole = Path("file.npy").read_bytes()
                self.assertGreater(len(whole), 900)
                os.unlink("link.npy")
                limit = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (600, limit[1]))
                try:
                    with self.assertRaisesRegex(OSError, "File too large"):
                        save("file.npy")
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
                self.assertEqual(Path("file.npy").read_bytes(), whole)
                self.assertEqual(os.listdir(), ["file.npy"])

    def test_optimizer_tables_are_saved_and_resumed(self):
        for name in ("Adam", "Rprop"):

            def run(steps, before=None, make=OPTIMIZERS[name]):
                torch.manual_seed(1)
                embedding = nn.Embedding(4, DIM)
                model = nn.ModuleDict({"e": embedding})
                optimizer = make(model.parameters())
                weights = SpeedTorch.ModelFactory(embedding, CLASSES, DIM)
                states = SpeedTorch.OptimizerFactory(optimizer, CLASSES, DIM, model, "e")
                weights.zerosInit()
                states.optInit()
                if before:
                    weights.loadCupy("weights.npy")
                    states.load("states.pt")
                for u, _, _ in list(batches(10))[steps]:
                    weights.beforeForwardPass(u)
                    states.beforeForwardPass(u)
                    (embedding.weight - torch.as_tensor(u / 40.0)).square().sum().backward()
                    optimizer.step()
                    weights.afterOptimizerStep()
                    states.afterOptimizerStep()
                weights.saveCupy("weights.npy")
                states.save("states.pt")
                return weights.getNumpyVersion(), states.getNumpyVersion()

            expected, of_states = run(slice(0, 10))
            run(slice(0, 4))
            found, found_states = run(slice(4, 10), before=True)
            np.testing.assert_array_equal(found, expected)
            for key in of_states:
                np.testing.assert_array_equal(found_states[key], of_states[key])
        other = SpeedTorch.OptimizerFactory(OPTIMIZERS["Adam"]((e := nn.Embedding(1, DIM)).parameters()), CLASSES, DIM, e, "weight")
        with self.assertRaisesRegex(ValueError, "states.pt has .*Rprop"):
            other.load("states.pt")

    def test_what_an_optimizer_factory_refuses(self):
        model = SkipGram()
        optimizer = torch.optim.Adam(model.u_embeddings.parameters())
        for arguments, text in (
            ((optimizer, CLASSES, DIM, model, "w_embeddings"), "no variable 'w_embeddings'; it has u_embeddings.weight, v_embeddings.weight"),
            ((optimizer, CLASSES, DIM, model, "v_embeddings"), "does not have the parameter 'v_embeddings'"),
            ((speedtorch.optim.Adam(SkipGram().parameters(), contiguous=True), CLASSES, DIM, model, "u_embeddings"), "a contiguous optimizer"),
            ((torch.optim.LBFGS(model.parameters()), CLASSES, DIM, model, "u_embeddings"), "LBFGS is not supported"),
            ((torch.optim.Adafactor(model.parameters()), CLASSES, DIM, model, "u_embeddings"), "Adafactor is not supported: its state"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, text):
                SpeedTorch.OptimizerFactory(*arguments)
        states = SpeedTorch.OptimizerFactory(optimizer, CLASSES, DIM, model, "u_embeddings")
        with self.assertRaisesRegex(RuntimeError, "call optInit"):
            states.beforeForwardPass([1])
        self.assertEqual(len(optimizer.state), 0)
        states.optInit()
        with self.assertRaisesRegex(RuntimeError, "without a beforeForwardPass"):
            states.afterOptimizerStep()

    def test_optimizer_that_holds_a_part_of_the_model(self):
        """SpeedTorch took the position in the model for that in the optimizer: states went to another parameter."""
        model = SkipGram()
        optimizer = torch.optim.Adam([model.v_embeddings.weight, model.u_embeddings.weight], 0.1)
        states = SpeedTorch.OptimizerFactory(optimizer, CLASSES, DIM, model, "v_embeddings")
        states.optInit()
        states.beforeForwardPass([3])
        for parameter, value in ((model.u_embeddings.weight, 1.0), (model.v_embeddings.weight, 2.0)):
            parameter.grad = torch.full_like(parameter, value)
        optimizer.step()
        states.afterOptimizerStep([3])
        np.testing.assert_allclose(states.getNumpyVersion()["exp_avg"][3], 0.2, rtol=1e-6)
        self.assertEqual(np.count_nonzero(states.getNumpyVersion()["exp_avg"]), DIM)

    def test_our_own_optimizers_too(self):
        for name in ("Adam", "Adagrad", "Adamax"):
            ours = getattr(speedtorch.optim, name)
            make = lambda p: ours(p, 0.05)  # noqa: E731, B023
            theirs = lambda p: getattr(torch.optim, name)(p, 0.05)  # noqa: E731, B023
            found, expected = train_swapped(make, "cuda", batches(8)), train_swapped(theirs, "cuda", batches(8))
            for a, b in zip(found, expected):
                self.assert_close(a, b, 2e-6)


class Gadget(Case):
    def test_indexes_as_numpy_does(self):
        for array in (np.arange(60.0).reshape(10, 2, 3), np.arange(40, dtype="int32").reshape(10, 4), np.arange(10, dtype="float16")):
            np.save("data.npy", array)
            for pinned in (False, True):
                gadget = SpeedTorch.DataGadget("data.npy", CPUPinn=pinned)
                gadget.gadgetInit()
                indexes = [[3, 1, 3], np.array([[9], [-1]]), slice(2, 9, 3), np.arange(10) % 3 == 0, torch.tensor([5]), 4, -2]
                if array.ndim > 1:
                    indexes += [(slice(1, 3), slice(0, 2)), (np.array([1, 5]), np.array([0, 1])), (Ellipsis, 1), [True] * 3 + [False] * 7]
                for index in indexes:
                    native = tuple(index) if isinstance(index, tuple) else index.numpy() if isinstance(index, torch.Tensor) else index
                    got = gadget.getData(index)
                    self.assertIsInstance(got, torch.Tensor)
                    np.testing.assert_array_equal(got.cpu().numpy(), array[native])
                    self.assertEqual(got.cpu().numpy().dtype, array.dtype)
                    changed = array.copy()
                    changed[native] = (array[native] + 5).astype(array.dtype)
                    gadget.insertData(got + 5, index)
                    np.testing.assert_array_equal(gadget.getNumpyVersion(), changed)
                    gadget.insertData(got, index)
                    np.testing.assert_array_equal(gadget.getNumpyVersion(), array)
                with self.assertRaisesRegex(IndexError, "index 10 at position 1"):
                    gadget.getData([1, 10])

    def test_published_transfer(self):
        """The gadget of the speed benchmark: rows to an embedding's weight, and from it back."""
        np.save("data.npy", np.random.RandomState(1).uniform(size=(1000, 8)))
        gadget = SpeedTorch.DataGadget("data.npy")
        u_embeddings = nn.Embedding(100, 8)
        indexes = np.random.RandomState(2).randint(0, 1000, 100)
        u_embeddings.weight.data = gadget.getData(indexes)
        np.testing.assert_array_equal(u_embeddings.weight.detach().cpu(), np.load("data.npy")[indexes])
        u_embeddings.weight.data += torch.arange(100).view(100, 1).to(u_embeddings.weight.device)
        gadget.insertData(u_embeddings.weight.data, indexes)
        expected = np.load("data.npy")
        for i, row in enumerate(indexes):  # the last of several wins
            expected[row] = np.load("data.npy")[row] + i
        np.testing.assert_array_equal(gadget.getNumpyVersion(), expected)

    def test_arrays_files_and_prefetching(self):
        gadget = SpeedTorch.DataGadget(np.arange(12.0).reshape(6, 2))
        gadget.insertData(np.float32(7), [2, 3])
        gadget.saveCupy("saved.npy")
        again = SpeedTorch.DataGadget("saved.npy")
        np.testing.assert_array_equal(again.getNumpyVersion()[2:4], [[7, 7], [7, 7]])
        np.save("other.npy", np.ones((3, 2)))
        again.loadCupy("other.npy")
        self.assertEqual(again.getNumpyVersion().shape, (3, 2))
        gadget.prefetch([0, 1])
        gadget.prefetch(slice(4, 6))
        np.testing.assert_array_equal(gadget.take().cpu(), [[0, 1], [2, 3]])
        np.testing.assert_array_equal(gadget.take().cpu(), [[8, 9], [10, 11]])
        with self.assertRaisesRegex(RuntimeError, "take\\(\\) without a prefetch"):
            gadget.take()
        mapped = SpeedTorch.DataGadgetMM("saved.npy")
        mapped.insertData(np.ones((1, 2)), [5])
        del mapped
        np.testing.assert_array_equal(np.load("saved.npy")[5], [1, 1])

    def test_what_numpy_reads_and_indexes(self):
        values = np.arange(12.0).reshape(6, 2)
        np.save("fortran.npy", np.asfortranarray(values))
        gadget = SpeedTorch.DataGadget("fortran.npy")
        np.testing.assert_array_equal(gadget.getNumpyVersion(), values)
        for index in (slice(None, None, -1), slice(4, 1, -2), slice(1, 4, -1), slice(-2, None, -3)):
            np.testing.assert_array_equal(gadget.getData(index).cpu(), values[index])
        values[::-2] = [[1, 2], [3, 4], [5, 6]]
        gadget.insertData(np.array([[1.0, 2], [3, 4], [5, 6]]), slice(None, None, -2))
        np.testing.assert_array_equal(gadget.getNumpyVersion(), values)
        with self.assertRaisesRegex(OSError, "absent.npy"):
            SpeedTorch.DataGadget("absent.npy").gadgetInit()

    def test_counts_of_unsigned_numbers(self):
        for dtype in ("uint8", "uint16", "uint32", "uint64", "int64"):
            with self.subTest(dtype=dtype), warnings.catch_warnings():
                warnings.simplefilter("error", compat.DifferenceWarning)  # no file is converted
                com = SpeedTorch.COM(2, dtype)
                com._home = lambda: {"placement": "libtorch"}  # noqa: B023
                com.comInit()
                com.addPairs([0] * 200, [1] * 200)
                com.saveCupy("counts")
                saved = np.load("counts.npy")
                self.assertEqual(saved.dtype, np.dtype(dtype))
                np.testing.assert_array_equal(saved, [[0, 200], [0, 0]])
                com.comInit()
                com.loadCupy("counts.npy")
                np.testing.assert_array_equal(com.getNumpyVersion(), saved)
                self.assertEqual(com.getNumpyVersion().dtype, saved.dtype)

    def test_counts(self):
        first, second = np.random.RandomState(3).randint(0, 9, (2, 500))
        expected = np.zeros((9, 9), "uint32")
        np.add.at(expected, (first, second), 1)
        for com in (SpeedTorch.COM(9), SpeedTorch.COM(9, CPUPinn=True), SpeedTorch.PytorchCOM(9), SpeedTorch.COMMM(9)):
            com.comInit()
            com.addPairs(first, second)
            np.testing.assert_array_equal(com.getNumpyVersion(), expected)
            com.saveCupy("com.npy")
            com.comInit()
            com.loadCupy("com.npy")
            np.testing.assert_array_equal(com.getNumpyVersion(), expected)
        self.assertEqual(SpeedTorch.COM(3).datatype, "uint32")
        with self.assertRaisesRegex(ValueError, "500 first classes and 2 second ones"):
            com.addPairs(first, [1, 2])


class Contiguous(Case):
    def test_what_is_no_tensor_is_refused_by_name(self):
        model = nn.Linear(2, 2)
        for kind in (ContiguousParams, speedtorch.ContiguousParams):
            with self.assertRaisesRegex(TypeError, "parameter 0 is a tuple; give tensors, as model.parameters"):
                kind(model.named_parameters())
            alone = nn.Parameter(torch.ones(3))
            self.assertIs(kind(alone).original()[0], alone)

    def readme_loop(self, parameters, model, optimizer, data, check):
        for x in data:
            loss = model(x).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.1)
            optimizer.step()
            optimizer.zero_grad()
            check()

    def test_readme_loop_trains_as_the_parameters_themselves(self):
        for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adamax):
            torch.manual_seed(2)
            data = torch.randn(20, 1, 8)
            reference = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
            model = copy.deepcopy(reference)
            optimizer = make(reference.parameters(), lr=1e-2)
            self.readme_loop(list(reference.parameters()), reference, optimizer, data, lambda: None)
            parameters = ContiguousParams(model.parameters())
            optimizer = make(parameters.contiguous(), lr=1e-2)
            self.readme_loop(parameters.contiguous(), model, optimizer, data, parameters.assert_buffer_is_valid)
            for a, b in zip(reference.parameters(), model.parameters()):
                self.assert_close(a, b, 1e-6)

    def test_each_way_to_zero_gradients(self):
        """With gradients that become None the original stopped to train without a word."""
        ways = {
            "optimizer": lambda model, optimizer: optimizer.zero_grad(),
            "optimizer, zeros": lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
            "module": lambda model, optimizer: model.zero_grad(),
            "module, zeros": lambda model, optimizer: model.zero_grad(set_to_none=False),
        }
        for name, zero in ways.items():
            with self.subTest(way=name):
                torch.manual_seed(3)
                reference = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10)])
                model = copy.deepcopy(reference)
                parameters = ContiguousParams(model.parameters())
                for each, of_optimizer in ((reference, reference.parameters()), (model, parameters.contiguous())):
                    optimizer = torch.optim.SGD(of_optimizer, lr=1e-3, momentum=0.5)
                    for x in torch.randn(15, 1, 8, generator=torch.Generator().manual_seed(1)):
                        before = each[0].weight.detach().clone()
                        each(x).sum().backward()
                        optimizer.step()
                        zero(each, optimizer)
                        self.assertFalse(torch.equal(before, each[0].weight))
                for a, b in zip(reference.parameters(), model.parameters()):
                    self.assert_close(a, b, 1e-6)

    def test_invalidation_is_detected(self):
        model = nn.Linear(8, 8)
        parameters = ContiguousParams(model.parameters())
        optimizer = torch.optim.SGD(parameters.contiguous(), 0.1)
        self.assertTrue(parameters.buffer_is_valid())
        model.weight.data = model.weight + 4
        self.assertFalse(parameters.buffer_is_valid())
        with self.assertRaisesRegex(ValueError, "parameter 0 has its data elsewhere"):
            parameters.assert_buffer_is_valid()
        model(torch.ones(1, 8)).sum().backward()
        with self.assertRaises(BufferError):
            optimizer.step()
        parameters.make_params_contiguous()
        self.assertTrue(parameters.buffer_is_valid())

    def test_frozen_mixed_and_transposed(self):
        model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3).double(), "c": nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)})
        model["a"].bias.requires_grad_(False)
        frozen = model["a"].bias.detach().clone()
        parameters = ContiguousParams([*model.parameters(), model["a"].weight])
        self.assertEqual([each.dtype for each in parameters.contiguous()], [torch.float32, torch.float64])
        self.assertEqual(len(list(parameters.original())), 6)
        self.assertTrue(model["c"].weight.is_contiguous(memory_format=torch.channels_last))
        reference = copy.deepcopy(model)
        for each, of in ((model, parameters.contiguous()), (reference, [p for p in reference.parameters() if p.requires_grad])):
            optimizer = torch.optim.AdamW(of, weight_decay=0.5)
            for _ in range(3):
                out = each["a"](torch.ones(1, 3)).sum() + each["b"](torch.ones(1, 3).double()).sum() + each["c"](torch.ones(1, 2, 4, 4)).sum()
                out.backward()
                optimizer.step()
                optimizer.zero_grad()
        for (name, a), b in zip(model.named_parameters(), reference.parameters()):
            self.assert_close(a, b, 1e-6)
        self.assertTrue(torch.equal(model["a"].bias, frozen))
        self.assertEqual(ContiguousParams([]).contiguous(), [])


class MyModel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return F.log_softmax(self.layers(x), dim=1)


def loader(samples=70, batch=32):
    generator = torch.Generator().manual_seed(6)
    inputs = torch.randn(samples, 6, generator=generator)
    return DataLoader(TensorDataset(inputs, inputs[:, :3].argmax(1)), batch)


class Infinity(Case):
    def setUp(self):
        super().setUp()
        output = contextlib.redirect_stdout(io.StringIO())
        self.printed = output.__enter__()
        self.addCleanup(output.__exit__, None, None, None)

    def expected(self, epochs, criterion, make):
        model = MyModel()
        optimizer = make(model.parameters())
        for _ in range(epochs):
            for inputs, targets in loader():
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
        return model

    def manager(self, **options):
        """As each README example begins, its slip of the pen included."""
        ib = infinitybatch.InfinityBatch(**options)
        ib.model = MyModel().to("cpu")
        ib.criterion = torch.nn.CrossEntropyLoss()
        ib.optimier = torch.optim.Adam(ib.model.parameters())
        ib.dataloader = loader()
        return ib

    def test_readme_loops(self):
        warnings.simplefilter("always", compat.DifferenceWarning)
        with self.assertWarnsRegex(compat.DifferenceWarning, "ib.optimier sets ib.optimizer"):
            simple = self.manager()
        simple(3)
        by_epoch = self.manager()
        for _ in range(3):
            by_epoch.epoch()
        ib = self.manager()
        with self.assertWarnsRegex(compat.DifferenceWarning, "inputs of the batch that ib.dataloader gave last"):
            for _ in range(3):
                for inputs, targets in ib.dataloader:
                    outputs = ib.batch_()
                    loss = ib.criterion(outputs, targets)
                    loss.backward()
                    ib.step()
                    ib.zero_grad()
        expected = self.expected(3, nn.CrossEntropyLoss(), torch.optim.Adam)
        for manager in (simple, by_epoch, ib):
            for a, b in zip(manager.model.parameters(), expected.parameters()):
                self.assert_close(a, b, 1e-5)

    def test_mnist_example(self):
        """mnist_test_example.py on synthetic classes: NLLLoss, Adadelta, StepLR, modes changed by its test()."""

        def test(model, data):
            model.eval()
            with torch.no_grad():
                right = sum(model(inputs).argmax(1).eq(targets).sum().item() for inputs, targets in data)
            return right / len(data.dataset)

        ib = infinitybatch.InfinityBatch(largest=16)
        ib.model = MyModel()
        ib.optimizer = torch.optim.Adadelta(ib.model.parameters(), lr=1.0)
        ib.criterion = torch.nn.NLLLoss()
        ib.dataloader = loader(300, 64)
        scheduler = StepLR(ib.optimizer, step_size=1, gamma=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("error", infinitybatch.InfinityBatchWarning)
            for _ in range(14):
                ib.model.train()
                ib.epoch()
                accuracy = test(ib.model, loader(300, 64))
                scheduler.step()
        self.assertGreater(accuracy, 0.7)  # a third without training
        reference = MyModel()
        optimizer = torch.optim.Adadelta(reference.parameters(), lr=1.0)
        scheduler = StepLR(optimizer, step_size=1, gamma=0.9)
        for _ in range(14):
            for inputs, targets in loader(300, 64):
                optimizer.zero_grad()
                F.nll_loss(reference(inputs), targets).backward()
                optimizer.step()
            scheduler.step()
        for a, b in zip(ib.model.parameters(), reference.parameters()):
            self.assert_close(a, b, 1e-4)

    def test_containers_are_bounded_and_have_no_graphs(self):
        ib = self.manager(verbose=False)
        ib.train(2)
        self.assertEqual([[size for _, size in epoch] for epoch in ib.losses], [[32, 32, 6]] * 2)
        outputs = ib.outputs[1][2]
        self.assertEqual((tuple(outputs.shape), outputs.requires_grad), ((6, 3), False))
        self.assertEqual([len(batch) for batch in ib.inputs[0]], [32, 32, 6])
        self.assertEqual([len(batch) for batch in ib.targets[0]], [32, 32, 6])
        ib.train(30)
        kept = [batch for epoch in ib.outputs for batch in epoch if batch is not None]
        self.assertEqual(len(kept), infinitybatch.KEPT_BATCHES)
        self.assertEqual(self.printed.getvalue(), "")
        ib.clearcontainers_()
        self.assertEqual((ib.inputs, ib.losses), ([], []))
        ib.verbose_mode = True
        ib.train(1)
        self.assertIn("Training for 1 epochs.\n-- epoch 33: 3 batches, 70 samples, loss", self.printed.getvalue())

    def test_names_of_devices_and_warnings(self):
        ib = infinitybatch.InfinityBatch()
        ib.changemodeldevice("cpu")
        ib.updateforwarddevice()
        with self.assertRaisesRegex(infinitybatch.InfinityBatchError, "batch_\\(\\) without inputs"):
            ib.batch_()
        ib = self.manager()
        ib.epoch()
        ib.changemodeldevice("cpu")
        self.assertEqual(ib.forward_device, torch.device("cpu"))
        if not torch.cuda.is_available():
            with self.assertWarnsRegex(infinitybatch.InfinityBatchWarning, "forward and backward devices are the same"):
                ib.checkdevices_()
        with self.assertWarnsRegex(infinitybatch.InfinityBatchWarning, "the optimizer was set before"):
            ib.optimizer = torch.optim.SGD(ib.model.parameters(), 1)

    def test_batch_norm_takes_each_micro_batchs_statistics(self):
        ib = infinitybatch.InfinityBatch(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), criterion=nn.CrossEntropyLoss())
        ib.optimizer, ib.dataloader = torch.optim.SGD(ib.model.parameters(), 0.1), loader()
        with self.assertWarns(speedtorch.micro_batches.BatchNormWarning):
            ib.epoch()

    def test_tools(self):
        history = tools.CudaHistory()
        self.assertEqual(str(history), "CudaHistory is empty.")
        history.append("a label of more than twenty characters")
        (label, snapshot), *_ = history
        self.assertEqual((len(history), label), (1, "a label of more than"))
        self.assertEqual(snapshot.free_cache, snapshot.reserved - snapshot.allocated)
        self.assertRegex(str(history), r"\| Name +\| Total +\| Reserved +\| Allocated +\|\n.*\n\| a label of more than \| +\d+ \|")

        class Mine(tools.CudaHistory):
            pass

        Mine().append("x")
        tools.determinize(4)
        a, x = MyModel(), (torch.rand(3), np.random.rand())
        tools.determinize(4)
        self.assertTrue(torch.equal(x[0], torch.rand(3)) or torch.manual_seed(0))
        tools.determinize(None, be_deterministic=False)
        self.assertFalse(torch.backends.cudnn.deterministic)
        tools.determinize()
        b = copy.deepcopy(a)
        self.assertTrue(tools.is_equal_network(a, b))
        b.layers[0].bias.data[1] += 1e-3
        self.assertFalse(tools.is_equal_network(a, b))
        self.assertFalse(tools.is_equal_network(a, a.layers))
        words = [speedtorch.nn.Embedding(3, 2, fill=1.0, optimizer="Adam", lr=0.1) for _ in range(2)]
        self.assertTrue(tools.is_equal_network(*words))  # whose states hold dicts and numbers
        for embedding, rows in zip(words, ([0], [1])):
            embedding(torch.tensor(rows)).sum().backward()
            embedding.optimizer.step()
            embedding.table.fill(1.0)
        self.assertFalse(tools.is_equal_network(*words))
        one = torch.ones(2, 2, requires_grad=True)
        self.assertTrue(tools.is_equal_with_error(one, one + 1e-8))
        self.assertFalse(tools.is_equal_with_error(one, one + 1e-6))
        self.assertFalse(tools.is_equal_with_error(one, torch.ones(2)))
        self.assertFalse(tools.is_equal_with_error(one, one * float("nan")))
        self.assertTrue(tools.is_equal_with_error(torch.tensor(1.0), torch.tensor(1.0)))
        self.assertTrue(tools.compare_with_error_(1, 1 + 1e-8))


class Imports(unittest.TestCase):
    def test_each_published_name_is_there(self):
        for family in ("", "Pytorch", "GPUPytorch", "CPUPytorch"):
            for kind in ("ModelFactory", "OptimizerFactory", "COM"):
                self.assertTrue(callable(getattr(SpeedTorch, family + kind)), family + kind)
        for name in ("DataGadget", "DataGadgetMM", "ModelFactoryMM", "OptimizerFactoryMM", "COMMM"):
            self.assertTrue(callable(getattr(SpeedTorch, name)))
        for name in ("CudaMemorySnapShot", "CudaHistory", "determinize", "is_equal_network", "is_equal_with_error", "compare_with_error_"):
            self.assertTrue(callable(getattr(tools, name)))


if __name__ == "__main__":
    unittest.main()
