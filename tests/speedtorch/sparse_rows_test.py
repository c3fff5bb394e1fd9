"""SparseRows against Python torch's own optimizers, run here: to 1e-6, and bit for bit but for the square root.

The wheel's square root is that of Intel's vector library, which one time in some hundred is not the nearest number; the
processor's instruction, which we use, always is. So each optimizer is compared twice: as it is, and with NumPy's square
root, the processor's too, in torch's place, when everything must be equal bit for bit."""

import itertools
import os
import tempfile
import unittest
from pathlib import Path

from sparse_rows_program import Program, Refused
from torch_optimizers import CASES, ROOTLESS, nearest_roots, torchs

try:
    import numpy as np
    import torch
except ImportError:
    torch = None

PROGRAM = os.environ["STBENCH_SPARSE_ROWS_STEPS"]
ROWS, COLUMNS, STEPS = 60, 37, 6

class Rows:
    """The seed's scheme, which is right where each row is named once: the rows and their states are taken out, stepped by
    torch's dense optimizer, and put back."""

    def __init__(self, name, options, table):
        self.make = lambda param: getattr(torch.optim, name)([param], foreach=False, **torchs(options))
        self.table = torch.from_numpy(table.copy())
        whole = torch.nn.Parameter(self.table.clone())
        optimizer = self.make(whole)
        whole.grad = torch.zeros_like(whole)
        began = optimizer.state[whole]  # Adagrad sets its state at once
        self.tables, self.shared = {}, {}
        if not began:
            optimizer.step()
            began = optimizer.state[whole]
        for key, value in began.items():
            if torch.is_tensor(value) and value.shape == whole.shape:
                self.tables[key] = self.first(name, key, value, options)
        self.first_step = True

    @staticmethod
    def first(name, key, value, options):
        if name == "Adagrad":
            return value.clone()
        lr = options.get("lr", 0.01)
        return torch.full_like(value, lr if key == "step_size" else 0)

    def step(self, index, grad):
        rows, place = np.unique(index, return_inverse=True)
        summed = np.zeros((len(rows), *grad.shape[1:]), grad.dtype)
        np.add.at(summed, place, grad)  # one after the other, in order
        rows = torch.from_numpy(rows.astype(np.int64))
        param = torch.nn.Parameter(self.table[rows])
        param.grad = torch.from_numpy(summed)
        optimizer = self.make(param)
        if not self.first_step or "sum" in self.tables:
            optimizer.state[param].update(self.shared)
            optimizer.state[param].update({key: table[rows] for key, table in self.tables.items()})
        optimizer.step()
        self.table[rows] = param.data
        for key, value in optimizer.state[param].items():
            if key in self.tables:
                self.tables[key][rows] = value
            else:
                self.shared[key] = value
        self.first_step = False


class Sparse:
    """Torch's SparseAdam of a whole table."""

    def __init__(self, table, lr):
        self.param = torch.nn.Parameter(torch.from_numpy(table.copy()))
        self.optimizer = torch.optim.SparseAdam([self.param], lr=lr)
        self.table = self.param.data

    def step(self, index, grad):
        places = torch.from_numpy(index.astype(np.int64))[None]
        self.param.grad = torch.sparse_coo_tensor(
            places, torch.from_numpy(grad), self.param.shape, check_invariants=True
        )
        self.optimizer.step()
        self.tables = self.optimizer.state[self.param]


def batches(rng, dtype, index_dtype, count=STEPS, size=50, rows=ROWS):
    """Indices with copies, and gradients some of which change their sign from step to step."""
    for _ in range(count):
        yield (rng.integers(0, rows, size).astype(index_dtype), rng.standard_normal((size, COLUMNS)).astype(dtype))


class Ours:
    names = itertools.count()  # the program reads a file once

    def __init__(self, program, folder, table):
        self.program, self.folder, self.table = program, Path(folder), table
        np.save(self.folder / "table.npy", table)
        program.ask("table", self.folder / "table.npy")

    def step(self, index, grad):
        index_file, grad_file = (self.folder / f"{next(self.names)}.npy" for _ in range(2))
        np.save(index_file, index)
        np.save(grad_file, grad)
        self.program.ask("step", index_file, grad_file)

    def tables(self, names):
        self.program.ask("save", self.folder)
        return {
            name: np.fromfile(self.folder / name, self.table.dtype).reshape(self.table.shape) for name in ("table", *names)
        }


@unittest.skipIf(torch is None, "no Python torch here (scripts/lib/requirements.txt)")
class SparseRowsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = self.enterContext(Program(PROGRAM))
        self.rng = np.random.default_rng(7)
        # Without an instruction for it neither side fuses in the same places.
        self.fuses = self.program.ask("isa") in ("avx512", "avx2") and torch.backends.cpu.get_cpu_capability() in (
            "AVX2",
            "AVX512",
        )

    def table(self, dtype=np.float32, rows=ROWS):
        return self.rng.standard_normal((rows, COLUMNS)).astype(dtype)

    def same(self, found, wanted, what, exact):
        wanted = np.asarray(wanted)
        if exact and self.fuses:
            differ = int((found != wanted).sum())
            self.assertEqual(differ, 0, f"{what}: {differ} of {found.size} differ")
        else:
            worst = np.abs(found.astype(np.float64) - wanted).max()
            self.assertLessEqual(worst, 1e-6 * max(1, np.abs(wanted).max()), what)

    def follows(self, make_oracle, ours, names, given, what, rootless=False):
        """Ours steps once, the oracle as torch is and, for the same bits, with the nearest roots."""
        given = list(given)
        for index, grad in given:
            ours.step(index, grad)
        self.compare(make_oracle(), ours, names, given, what, exact=rootless)
        with nearest_roots():
            self.compare(make_oracle(), ours, names, given, f"{what}, nearest roots", exact=True)

    def compare(self, oracle, ours, names, given, what, exact):
        for index, grad in given:
            oracle.step(index, grad)
        found = ours.tables(names)
        self.same(found["table"], oracle.table, f"{what}: table", exact)
        for name in names:
            self.same(found[name], oracle.tables[name], f"{what}: {name}", exact)

    def test_every_optimizer_steps_as_torch_steps_those_rows(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                start = self.table()
                ours = Ours(self.program, self.folder, start)
                names = self.program.optimizer(name, **options)
                self.assertEqual(set(names), set(Rows(name, options, start).tables))
                given = batches(self.rng, np.float32, np.int64)
                self.follows(lambda: Rows(name, options, start), ours, names, given, name, name in ROOTLESS)

    def test_float64_too(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                start = self.table(np.float64)
                ours = Ours(self.program, self.folder, start)
                names = self.program.optimizer(name, **options)
                given = batches(self.rng, np.float64, np.int32)
                self.follows(lambda: Rows(name, options, start), ours, names, given, name, name in ROOTLESS)

    def test_sparse_adam_steps_as_torchs(self):
        start = self.table()
        ours = Ours(self.program, self.folder, start)
        names = self.program.optimizer("SparseAdam", lr=0.02)
        # Torch adds up copies in whatever order its sort, not a stable one, leaves them: of two, it is no matter.
        given = [
            (self.rng.permutation(np.tile(np.arange(ROWS), 2))[:70], self.rng.standard_normal((70, COLUMNS), np.float32))
            for _ in range(8)
        ]
        self.follows(lambda: Sparse(start, 0.02), ours, names, given, "SparseAdam")

    def test_sparse_adam_of_many_copies_is_near_torchs(self):
        start = self.table(rows=300)
        ours = Ours(self.program, self.folder, start)
        names = self.program.optimizer("SparseAdam", lr=0.02)
        given = list(batches(self.rng, np.float32, np.int32, 8, 5000, 300))
        for index, grad in given:
            ours.step(index, grad)
        self.compare(Sparse(start, 0.02), ours, names, given, "SparseAdam", exact=False)

    def test_unique_rows_of_sgd_and_adagrad_are_the_whole_tables_dense_step(self):
        class Dense:
            def __init__(self, name, table):
                self.param = torch.nn.Parameter(torch.from_numpy(table.copy()))
                self.optimizer = getattr(torch.optim, name)([self.param], lr=0.1, foreach=False)
                self.table = self.param.data

            def step(self, index, grad):
                self.param.grad = torch.zeros_like(self.param)
                self.param.grad[torch.from_numpy(index)] = torch.from_numpy(grad)
                self.optimizer.step()
                self.tables = self.optimizer.state[self.param]

        for name in ("SGD", "Adagrad"):
            start = self.table()
            ours = Ours(self.program, self.folder, start)
            names = self.program.optimizer(name, lr=0.1)
            given = [
                (self.rng.permutation(ROWS)[:20], self.rng.standard_normal((20, COLUMNS)).astype(np.float32))
                for _ in range(30)
            ]
            self.follows(lambda: Dense(name, start), ours, names, given, name, name in ROOTLESS)

    def test_counts_by_row_are_each_rows_own_optimizer(self):
        for name in ("Adam", "SparseAdam", "Adagrad", "Adamax", "ASGD"):
            options = {"lr": 0.1, **({"lr_decay": 0.3} if name == "Adagrad" else {})}
            start = self.table()
            ours = Ours(self.program, self.folder, start)
            self.program.optimizer(name, "count=row", **options)
            each = [
                Sparse(start[k : k + 1], 0.1) if name == "SparseAdam" else Rows(name, options, start[k : k + 1])
                for k in range(ROWS)
            ]
            with nearest_roots():
                for index, grad in batches(self.rng, np.float32, np.int64, 12, 20):
                    rows, place = np.unique(index, return_inverse=True)
                    summed = np.zeros((len(rows), COLUMNS), np.float32)
                    np.add.at(summed, place, grad)
                    for row, own in zip(rows, summed):
                        each[row].step(np.zeros(1, np.int64), own[None])
                    ours.step(index, grad)
            found = ours.tables([])["table"]
            self.same(found, np.concatenate([one.table.numpy() for one in each]), name, exact=True)

    def test_a_bad_index_writes_nothing(self):
        start = self.table()
        ours = Ours(self.program, self.folder, start)
        names = self.program.optimizer("Adam", lr=0.1)
        index, grad = next(batches(self.rng, np.float32, np.int64))
        ours.step(index, grad)
        before = ours.tables(names)
        bad = index.copy()
        bad[31] = ROWS
        with self.assertRaisesRegex(Refused, r"index 60 at position 31 names no row: the table's rows are 0 to 59"):
            ours.step(bad, grad)
        for name, table in ours.tables(names).items():
            np.testing.assert_array_equal(table, before[name])


if __name__ == "__main__":
    unittest.main()
