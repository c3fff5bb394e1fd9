"""The optimizers of speedtorch/optim against Python torch's, run here: 30 steps of parameters in two groups.

As torch is, to 1e-6; with the nearest square roots in its place (torch_oracles.py), bit for bit."""

import os
import tempfile
import unittest
from pathlib import Path

from sparse_rows_program import Program, Refused
from torch_oracles import CASES, ROOTLESS, fuses, nearest_roots, same, torch, torchs

if torch:
    import numpy as np

PROGRAM = os.environ["STBENCH_OPTIMIZER_STEPS"]
STEPS = 30
SHAPES = [(9, 7), (33,), (2, 3, 5), (1,)]  # the last two are a second group with half the lr


class Torchs:
    """The same two groups in Python torch."""

    def __init__(self, name, options, values):
        self.params = [torch.nn.Parameter(torch.from_numpy(value.copy())) for value in values]
        words = torchs(options)
        make = getattr(torch.optim, name)
        whole = make([torch.nn.Parameter(torch.zeros(1))], **words)
        self.rate = whole.param_groups[0]["lr"] / 2
        groups = [{"params": self.params[:2]}, {"params": self.params[2:], "lr": self.rate}]
        self.optimizer = make(groups, **words) if name == "SparseAdam" else make(groups, foreach=False, **words)

    def step(self, grads):
        for param, grad in zip(self.params, grads):
            param.grad = None if grad is None else torch.from_numpy(grad)
        self.optimizer.step()


class OptimizerTest(unittest.TestCase):
    def setUp(self):
        if torch is None:
            self.skipTest("no Python torch here (scripts/lib/wheels/torch.txt)")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.enterContext(Program(PROGRAM, threads=None))
        self.rng = np.random.default_rng(3)
        self.fuses = fuses(self.program.ask("isa"))
        self.files = 0

    def file(self, array):
        self.files += 1
        path = self.folder / f"{self.files}.npy"
        np.save(path, array)
        return path

    def values(self, dtype):
        return [np.asarray(self.rng.standard_normal(shape), dtype) for shape in SHAPES]

    def gradients(self, dtype, steps=STEPS):
        """The second parameter has no gradient in every third step, so it has fewer steps."""
        given = [self.values(dtype) for _ in range(steps)]
        for grads in given[::3]:
            grads[1] = None
        return given

    def ours(self, name, options, values, rate, program=None):
        ask = (program or self.program).ask
        words = [f"{key}={float(value)!r}" for key, value in options.items()]
        for group, last in ((values[:2], words), (values[2:], [*(w for w in words if w[:3] != "lr="), f"lr={rate!r}"])):
            ask("group", *last)
            for value in group:
                ask("parameter", self.file(value))
        ask("optimizer", name)

    def step(self, grads, program=None):
        (program or self.program).ask("step", *("-" if grad is None else self.file(grad) for grad in grads))

    def compare(self, oracle, what, exact):
        self.program.ask("write", self.folder)
        for k, param in enumerate(oracle.params):
            read = lambda name: np.fromfile(self.folder / name, param.detach().numpy().dtype).reshape(param.shape)  # noqa: E731, B023
            same(self, read(f"{k}"), param.detach(), f"{what}: parameter {k}", exact)
            for name, state in oracle.optimizer.state[param].items():
                if name not in ("step", "eta", "mu"):
                    same(self, read(f"{k}.{name}"), state, f"{what}: {name} of parameter {k}", exact)

    def follows(self, name, options, dtype):
        values, given = self.values(dtype), self.gradients(dtype)
        oracle = Torchs(name, options, values)
        self.ours(name, options, values, oracle.rate)
        for grads in given:
            self.step(grads)
            oracle.step(grads)
        self.compare(oracle, name, exact=name in ROOTLESS)
        with nearest_roots():
            oracle = Torchs(name, options, values)
            for grads in given:
                oracle.step(grads)
            self.compare(oracle, f"{name}, nearest roots", exact=True)

    def test_each_optimizer_steps_as_torchs_in_float32(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                self.follows(name, options, np.float32)

    def test_each_optimizer_steps_as_torchs_in_float64(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                self.follows(name, options, np.float64)

    def test_sparse_adam_takes_sparse_gradients_as_torchs(self):
        for dtype in (np.float32, np.float64):
            start = self.rng.standard_normal((40, 11)).astype(dtype)
            given = []
            for _ in range(STEPS):
                # Torch adds equal rows in no fixed order; for two rows the order does not matter.
                index = self.rng.permutation(np.tile(np.arange(40), 2))[:50]
                given.append((index, self.rng.standard_normal((50, 11)).astype(dtype)))
            self.program.ask("group", "lr=0.02", "maximize=1")
            self.program.ask("parameter", self.file(start))
            self.program.ask("optimizer", "SparseAdam")
            for index, grad in given:
                self.program.ask("sparse", self.file(index), self.file(grad))

            def run():
                oracle = Torchs.__new__(Torchs)
                oracle.params = [torch.nn.Parameter(torch.from_numpy(start.copy()))]
                oracle.optimizer = torch.optim.SparseAdam(oracle.params, lr=0.02, maximize=True)
                for index, grad in given:
                    places = torch.from_numpy(index)[None]
                    sparse = torch.sparse_coo_tensor(places, torch.from_numpy(grad), start.shape, check_invariants=True)
                    oracle.params[0].grad = sparse
                    oracle.optimizer.step()
                return oracle

            self.compare(run(), "SparseAdam", exact=False)
            with nearest_roots():
                self.compare(run(), "SparseAdam, nearest roots", exact=True)

    def test_sparse_adam_steps_every_row_for_dense_gradients(self):
        start = self.rng.standard_normal((12, 5)).astype(np.float32)
        self.program.ask("group")
        self.program.ask("parameter", self.file(start))
        self.program.ask("optimizer", "SparseAdam")
        param = torch.nn.Parameter(torch.from_numpy(start.copy()))
        optimizer = torch.optim.SparseAdam([param])
        with nearest_roots():
            for _ in range(5):
                grad = self.rng.standard_normal((12, 5)).astype(np.float32)
                self.step([grad])
                param.grad = torch.from_numpy(grad).to_sparse(1)
                optimizer.step()
        self.program.ask("write", self.folder)
        same(self, np.fromfile(self.folder / "0", np.float32).reshape(12, 5), param.detach(), "SparseAdam", exact=True)

    def test_a_loaded_run_goes_on_bit_for_bit(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                values, given = self.values(np.float32), self.gradients(np.float32, 9)
                self.ours(name, options, values, 0.01)
                for grads in given[:5]:
                    self.step(grads)
                self.program.ask("save", self.folder / "archive.pt")
                self.program.ask("write", self.folder)
                halfway = [np.fromfile(self.folder / str(k), np.float32).reshape(shape) for k, shape in enumerate(SHAPES)]
                for grads in given[5:]:
                    self.step(grads)
                self.program.ask("write", self.folder)
                wanted = {file.name: file.read_bytes() for file in self.folder.iterdir() if file.suffix not in (".npy", ".pt")}
                # The archive's options replace these.
                self.ours(name, {**options, "lr": 0.7}, halfway, 0.8)
                self.program.ask("load", self.folder / "archive.pt")
                for grads in given[5:]:
                    self.step(grads)
                self.program.ask("write", self.folder)
                for file, content in wanted.items():
                    self.assertEqual((self.folder / file).read_bytes(), content, file)

    def test_a_refused_step_changes_nothing(self):
        start = self.rng.standard_normal((6, 4)).astype(np.float32)
        for name, gradient, message in (
            ("Adamax", np.ones((6, 4)), r"a gradient is Double \[6, 4\], its parameter Float \[6, 4\]"),
            ("Rprop", np.ones((5, 4), np.float32), r"a gradient is Float \[5, 4\]"),
        ):
            self.program.ask("group")
            self.program.ask("parameter", self.file(start))
            self.program.ask("parameter", self.file(start))
            self.program.ask("optimizer", name)
            with self.assertRaisesRegex(Refused, message):
                self.step([np.ones((6, 4), np.float32), gradient])
            self.program.ask("write", self.folder)
            np.testing.assert_array_equal(np.fromfile(self.folder / "0", np.float32), start.ravel())


if __name__ == "__main__":
    unittest.main()
