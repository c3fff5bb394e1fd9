"""speedtorch.nn.Embedding against torch.nn.Embedding."""

import copy
import io
import multiprocessing
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

import speedtorch
from speedtorch import errors, nn, optim


def batches(rows, count=5):
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(0, rows, (6, 3), generator=generator) for _ in range(count)]


class Derived(nn.Embedding):
    pass


def train_in_child(modules, index, answers):
    for module in modules:
        module(index).sum().backward()
        module.step()
    answers.put([(module.weight.detach().numpy(), module.weight.data_ptr() == module.table.tensor.data_ptr()) for module in modules])


class EmbeddingTest(unittest.TestCase):
    def twins(self, **options):
        ours = nn.Embedding(40, 5, fill=speedtorch.Normal(seed=1), **options)
        theirs = torch.nn.Embedding(40, 5, sparse=True)
        theirs.weight.data.copy_(ours.weight.data)
        return ours, theirs

    def test_trains_itself_as_torchs_does_with_sparse_adam(self):
        for placement in ("libtorch", "hugepage", "mapped"):
            with self.subTest(placement):
                ours, theirs = self.twins(placement=placement, optimizer="SparseAdam", lr=0.05)
                self.assertEqual(list(ours.parameters()), [])
                optimizer = torch.optim.SparseAdam(theirs.parameters(), lr=0.05)
                for index in batches(40):
                    ours(index).square().sum().backward()
                    ours.step()
                    optimizer.zero_grad()
                    theirs(index).square().sum().backward()
                    optimizer.step()
                torch.testing.assert_close(ours.weight.detach(), theirs.weight.detach(), rtol=1e-5, atol=1e-6)
                self.assertEqual(ours.weight.data_ptr(), ours.table.tensor.data_ptr())
                self.assertIsNone(ours.weight.grad)

    def test_is_a_parameter_for_any_optimizer(self):
        ours, theirs = self.twins(sparse=False)
        theirs.sparse = False
        for module in (ours, theirs):
            optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
            module(batches(40)[0]).square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(ours.weight.detach(), theirs.weight.detach())
        theirs.load_state_dict(ours.state_dict())

    def test_goes_on_from_its_state_dict_and_as_a_copy(self):
        index = batches(40)

        def train(module):
            for one in index:
                module(one).square().sum().backward()
                module.step()

        first, _ = self.twins(optimizer=optim.Adagrad, lr=0.1)
        train(first)
        second = nn.Embedding(40, 5, optimizer=optim.Adagrad, lr=0.1)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        third = copy.deepcopy(first)
        self.assertEqual(third.weight.data_ptr(), third.table.tensor.data_ptr())
        self.assertNotEqual(third.weight.data_ptr(), first.weight.data_ptr())
        for module in (first, second, third):
            train(module)
        self.assertTrue(torch.equal(first.weight, second.weight))
        self.assertTrue(torch.equal(first.weight, third.weight))

    def test_lives_in_a_file_and_stays_there(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npy"
            module = torch.nn.Sequential(nn.Embedding(40, 5, placement="mapped", file=file, optimizer="SGD", lr=1.0))
            module.to(torch.float64)
            self.assertEqual(module[0].weight.dtype, torch.float32)
            before = np.load(file)
            module(torch.tensor([3, 3])).sum().backward()
            module[0].step()
            module[0].table.flush()
            after = np.load(file)
            np.testing.assert_array_equal(after[3], before[3] - 2)
            np.testing.assert_array_equal(np.delete(after, 3, 0), np.delete(before, 3, 0))

    def test_compiles_whole_with_dynamic_shapes(self):
        for sparse in (True, False):
            ours, theirs = self.twins(sparse=sparse)
            compiled = torch.compile(torch.nn.Sequential(ours, torch.nn.Tanh()), fullgraph=True, dynamic=True, backend="aot_eager")
            for rows in (2, 6, 4):
                index = batches(40)[0][:rows]
                ours.weight.grad = theirs.weight.grad = None
                compiled(index).sum().backward()
                theirs(index).tanh().sum().backward()
                self.assertEqual(ours.weight.grad.is_sparse, sparse)
                grad = ours.weight.grad.to_dense() if sparse else ours.weight.grad
                torch.testing.assert_close(grad, theirs.weight.grad.to_dense())

    def test_says_what_it_is(self):
        ours, _ = self.twins(optimizer="Adam")
        self.assertEqual(repr(ours), "Embedding(40, 5, dtype=torch.float32, placement='hugepage', optimizer=Adam)")
        self.assertEqual((ours.num_embeddings, ours.embedding_dim), (40, 5))
        with self.assertRaisesRegex(TypeError, "lr: unknown arguments; options of an optimizer need the argument `optimizer`"):
            nn.Embedding(4, 5, lr=0.1)
        for options in ({}, {"optimizer": "SGD"}):
            with self.assertRaisesRegex(TypeError, "this Embedding has no padding_idx; torch.nn.Embedding has"):
                nn.Embedding(4, 5, padding_idx=0, **options)
        with self.assertRaisesRegex(TypeError, "has no optimizer"):
            nn.Embedding(4, 5).step()

    def test_a_refused_optimizer_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npy"
            for optimizer, options, error in (("adam", {}, errors.OptimizerError), ("chain", {}, errors.OptimizerError),
                                              (torch.nn.Linear, {}, TypeError), ("SGD", {"lr": -1.0}, ValueError),
                                              ("SGD", {"rate": 1.0}, TypeError), ("SGD", {"contiguous": True}, errors.OptionError)):
                with self.assertRaises(error):
                    nn.Embedding(4, 5, placement="mapped", file=file, optimizer=optimizer, **options)
                self.assertFalse(file.exists())

    def test_a_deep_copy_of_a_file_is_a_copy(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npy"
            module = nn.Embedding(4, 2, fill=1.0, placement="mapped", file=file)
            average = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
            with torch.no_grad():
                module.weight.fill_(3.0)
                average.update_parameters(module)
                module.weight.fill_(7.0)
                average.update_parameters(module)
            self.assertTrue((module.weight == 7).all() and (np.load(file) == 7).all())
            self.assertTrue((average.module.weight == 5).all())
            self.assertEqual(average.module.table.placement, "mapped")

    def test_the_weight_cannot_leave_its_table(self):
        index = torch.tensor([1, 2])

        def of_contiguous(module):
            optim.SGD(module.parameters(), lr=1.0, contiguous=True)

        def assigned(module):
            module.weight.data = torch.zeros(4, 2)

        def shared(module):
            module.weight.share_memory_()

        for move, options in ((of_contiguous, {}), (assigned, {}), (shared, {}), (assigned, {"optimizer": "SGD"})):
            with self.subTest(move.__name__):
                module = nn.Embedding(4, 2, fill=1.0, sparse=False, **options)
                move(module)
                for use in (lambda: module(index), module.state_dict, lambda: copy.deepcopy(module)):
                    with self.assertRaisesRegex(errors.BufferError, "has left its table"):
                        use()
                if options:
                    with self.assertRaises(errors.BufferError):
                        module.step()
        for options in ({}, {"optimizer": "SGD"}):
            module = nn.Embedding(4, 2, fill=1.0, **options)
            with self.assertRaisesRegex(TypeError, "lies in its table"):
                module.weight = torch.nn.Parameter(torch.zeros(4, 2))
            with self.assertRaisesRegex(RuntimeError, "lies in its table"):
                module.load_state_dict({**module.state_dict(), "weight": torch.zeros(4, 2)}, assign=True)
            self.assertTrue((module.weight == 1).all())
            for whole in (module, torch.nn.Sequential(module)):
                with self.assertRaises(errors.PlacementError):
                    whole.share_memory()

    def test_is_sent_to_a_process(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npy"
            modules = [kind(6, 2, fill=1.0, optimizer="Adam", lr=0.1, **options)
                       for kind, options in ((nn.Embedding, {}), (Derived, {}), (nn.Embedding, {"placement": "mapped", "file": file}))]
            index = torch.tensor([1, 2])
            for module in modules:
                module(index).sum().backward()
                module.step()
            before = modules[0].weight.detach().clone()
            context = multiprocessing.get_context("spawn")
            answers = context.Queue()
            child = context.Process(target=train_in_child, args=(modules, index, answers))
            child.start()
            trained = answers.get(timeout=120)
            child.join()
            for module in modules[:2]:
                self.assertTrue(torch.equal(module.weight, before))
                module(index).sum().backward()
                module.step()
            for there, in_its_table in trained:
                np.testing.assert_array_equal(there, modules[0].weight.detach())
                self.assertTrue(in_its_table)
            modules[2](index)
            np.testing.assert_array_equal(modules[2].weight.detach(), trained[0][0])  # one file

    def test_takes_the_weight_of_a_functional_call(self):
        module, weight = nn.Embedding(4, 2, sparse=False), torch.nn.Parameter(torch.arange(8.0).view(4, 2))
        rows = torch.func.functional_call(module, {"weight": weight}, (torch.tensor([3, 1]),))
        self.assertTrue(torch.equal(rows, weight[[3, 1]]))

    def test_is_frozen_and_cleared_with_its_own_optimizer(self):
        module = nn.Embedding(4, 2, fill=1.0, optimizer="SGD", lr=1.0)
        index = torch.tensor([1, 2])
        module(index).sum().backward()
        module.zero_grad()
        module.step()
        self.assertTrue((module.weight == 1).all())
        module(index).sum().backward()
        self.assertIs(module.requires_grad_(False), module)
        self.assertFalse(module(index).requires_grad)
        module.step()
        self.assertTrue((module.weight == 1).all())
        module.requires_grad_()
        module(index).sum().backward()
        module.step()
        self.assertTrue((module.weight[1:3] == 0).all())

    def test_its_state_dict_is_of_tensors_for_every_optimizer(self):
        index = batches(40)
        options = {"SGD": {"momentum": 0.9, "lr": 0.1}, "Adam": {"amsgrad": True, "betas": (0.8, 0.95)}, "ASGD": {"lr": 0.1}}

        def train(module):
            for one in index:
                module(one).square().sum().backward()
                module.step()

        for name in optim.__all__:
            with self.subTest(name):
                first, _ = self.twins(optimizer=name, **options.get(name, {}))
                fresh = copy.deepcopy(first.state_dict())
                train(first)
                first.optimizer.param_groups[0]["lr"] *= 0.1
                saved = {key: value.cpu().clone() for key, value in first.state_dict().items()}
                second = nn.Embedding(40, 5, placement="mapped", optimizer=name)
                torch.save(saved, buffer := io.BytesIO())
                buffer.seek(0)
                second.load_state_dict(torch.load(buffer, weights_only=True))
                self.assertEqual(second.optimizer.param_groups, [{**group, "params": [second.weight]} for group in first.optimizer.param_groups])
                kinds = [{key: type(value) for key, value in module.optimizer.state[module.weight].items()} for module in (first, second)]
                self.assertEqual(*kinds)
                for module in (first, second):
                    train(module)
                self.assertTrue(torch.equal(first.weight, second.weight))
                self.assertTrue(all(torch.equal(second.state_dict()[key], value) for key, value in first.state_dict().items()))
                # What was loaded is a copy, and a state dict from before the first step forgets the states.
                self.assertFalse(any(torch.equal(saved[key], value) for key, value in first.state_dict().items() if "exp_avg" in key))
                second.load_state_dict(fresh)
                self.assertEqual(second.state_dict().keys(), fresh.keys())
                self.assertTrue(all(torch.equal(second.state_dict()[key], value) for key, value in fresh.items()))

    def test_a_state_dict_that_does_not_fit_is_refused_as_by_torch(self):
        module = nn.Embedding(4, 2, fill=1.0, optimizer="Adam")
        module(torch.tensor([1])).sum().backward()
        module.step()
        good = {key: value.clone() for key, value in module.state_dict().items()}
        with self.assertRaisesRegex(RuntimeError, "size mismatch for weight.*\n.*optimizer.state.exp_avg: size mismatch"):
            module.load_state_dict({**good, "weight": torch.zeros(5, 2), "optimizer.state.exp_avg": torch.zeros(5, 2)}, strict=False)
        with self.assertRaisesRegex(RuntimeError, "optimizer.lr: a tensor is needed, not a float"):
            module.load_state_dict({**good, "optimizer.lr": 0.1})
        with self.assertRaisesRegex(RuntimeError, 'Missing.*"optimizer.lr", "optimizer.betas"'):
            module.load_state_dict({"weight": good["weight"]})
        with self.assertRaisesRegex(RuntimeError, 'Unexpected.*"optimizer.lr"'):
            nn.Embedding(4, 2).load_state_dict(good)
        self.assertEqual(module.load_state_dict({"weight": torch.full((4, 2), 2.0)}, strict=False).missing_keys[0], "optimizer.lr")
        self.assertTrue((module.weight == 2).all())
        whole = torch.nn.Sequential(module)
        whole.load_state_dict({f"0.{key}": value.double() for key, value in good.items()})
        self.assertTrue(torch.equal(module.weight, good["weight"]))
        self.assertEqual(module.optimizer.state[module.weight]["exp_avg"].dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()
