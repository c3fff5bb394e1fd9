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
from torch_oracles import CASES, ROOTLESS, Dense, Rows, Sparse, fuses, nearest_roots, same, torch

if torch:
    import numpy as np

PROGRAM = os.environ["STBENCH_SPARSE_ROWS_STEPS"]
ROWS, COLUMNS, STEPS = 60, 37, 6

def batches(rng, dtype, index_dtype, count=STEPS, size=50, rows=ROWS):
    """Indices with duplicates, and gradients of which some change sign between steps."""
    for _ in range(count):
        yield (rng.integers(0, rows, size).astype(index_dtype), rng.standard_normal((size, COLUMNS)).astype(dtype))


class Ours:
    names = itertools.count()  # file names must be new: the program reads each file once

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


@unittest.skipIf(torch is None, "no Python torch here (scripts/lib/wheels/torch.txt)")
class SparseRowsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = self.enterContext(Program(PROGRAM))
        self.rng = np.random.default_rng(7)
        self.fuses = fuses(self.program.ask("isa"))

    def table(self, dtype=np.float32, rows=ROWS):
        return self.rng.standard_normal((rows, COLUMNS)).astype(dtype)

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
        same(self, found["table"], oracle.table, f"{what}: table", exact)
        for name in names:
            same(self, found[name], oracle.tables[name], f"{what}: {name}", exact)

    def test_every_optimizer_steps_as_torch_steps_those_rows(self):
        for name, options in CASES:
            with self.subTest(name, **options):
                start = self.table()
                ours = Ours(self.program, self.folder, start)
                names = self.program.optimizer(name, **options)
                self.assertEqual(set(names), set(Rows(name, options, start).tables))
                given = batches(self.rng, np.float32, np.int64)
                self.follows(lambda: Rows(name, options, start), ours, names, given, name, name in ROOTLESS)

    def test_every_optimizer_steps_float64_rows_as_torch(self):
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
        # Torch adds equal rows in the order of an unstable sort; for two rows the order does not matter.
        given = [
            (self.rng.permutation(np.tile(np.arange(ROWS), 2))[:70], self.rng.standard_normal((70, COLUMNS), np.float32))
            for _ in range(8)
        ]
        self.follows(lambda: Sparse(start, 0.02), ours, names, given, "SparseAdam")

    def test_sparse_adam_of_many_copies_stays_near_torchs(self):
        start = self.table(rows=300)
        ours = Ours(self.program, self.folder, start)
        names = self.program.optimizer("SparseAdam", lr=0.02)
        given = list(batches(self.rng, np.float32, np.int32, 8, 5000, 300))
        for index, grad in given:
            ours.step(index, grad)
        self.compare(Sparse(start, 0.02), ours, names, given, "SparseAdam", exact=False)

    def test_unique_rows_of_sgd_and_adagrad_are_the_whole_tables_dense_step(self):
        for name in ("SGD", "Adagrad"):
            start = self.table()
            ours = Ours(self.program, self.folder, start)
            names = self.program.optimizer(name, lr=0.1)
            given = [
                (self.rng.permutation(ROWS)[:20], self.rng.standard_normal((20, COLUMNS)).astype(np.float32))
                for _ in range(30)
            ]
            self.follows(lambda: Dense(name, {"lr": 0.1}, start), ours, names, given, name, name in ROOTLESS)

    def test_row_counts_equal_one_optimizer_per_row(self):
        for name in ("Adam", "SparseAdam", "Adagrad", "Adamax", "ASGD"):
            options = {"lr": 0.1, **({"lr_decay": 0.3} if name == "Adagrad" else {})}
            start = self.table()
            ours = Ours(self.program, self.folder, start)
            self.program.optimizer(name, "count=1", **options)
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
            same(self, found, np.concatenate([one.table.numpy() for one in each]), name, exact=True)

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
