"""OptimizerFactory against Python torch, run here: a table of rows in a placement, a weight that holds those of the batch."""

import itertools
import os
import tempfile
import unittest
from pathlib import Path

from sparse_rows_program import Program
from torch_oracles import CASES, Dense, Rows, Sparse, fuses, nearest_roots, same, torch

if torch:
    import numpy as np

PROGRAM = os.environ["STBENCH_OPTIMIZER_STEPS"]
ROWS, COLUMNS, STEPS = 40, 6, 30
LIBTORCHS = ("Adam", "AdamW", "Adagrad", "RMSprop", "SGD")
PLACEMENTS = ("libtorch", "pageable", "hugepage", "mapped")


class OptimizerFactoryTest(unittest.TestCase):
    def setUp(self):
        if torch is None:
            self.skipTest("no Python torch here (scripts/lib/wheels/torch.txt)")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.enterContext(Program(PROGRAM, threads=None))
        self.rng = np.random.default_rng(5)
        self.fuses = fuses(self.program.ask("isa"))
        self.files = itertools.count()
        self.placements = itertools.cycle(PLACEMENTS)

    def file(self, array):
        path = self.folder / f"{next(self.files)}.npy"
        np.save(path, array)
        return path

    def start(self, dtype):
        return self.rng.standard_normal((ROWS, COLUMNS)).astype(dtype)

    def batches(self, dtype, steps=STEPS):
        """Random numbers of distinct rows, in any order."""
        for _ in range(steps):
            rows = self.rng.permutation(ROWS)[: self.rng.integers(1, 12)]
            yield rows.astype(self.rng.choice([np.int32, np.int64])), self.rng.standard_normal((len(rows), COLUMNS)).astype(dtype)

    def factory(self, kind, name, options, start, *words):
        numbers = (f"{key}={float(value)!r}" for key, value in options.items())
        return self.program.ask("factory", kind, name, self.file(start), next(self.placements), *numbers, *words).split()

    def swap(self, rows, grad):
        self.program.ask("swap", self.file(rows), self.file(grad))

    def tables(self, names, dtype):
        self.program.ask("tables", self.folder)
        return {name: np.fromfile(self.folder / name, dtype).reshape(ROWS, COLUMNS) for name in ("table", *names)}

    def compare(self, oracle, names, given, what, exact):
        for rows, grad in given:
            oracle.step(rows, grad)
        found = self.tables(names, given[0][1].dtype)
        same(self, found["table"], oracle.table, f"{what}: table", exact)
        for name in names:
            same(self, found[name], oracle.tables[name], f"{what}: {name}", exact)

    def swapped(self, kind, name, options, dtype):
        start, given = self.start(dtype), list(self.batches(dtype))
        names = self.factory(kind, name, options, start)
        for rows, grad in given:
            self.swap(rows, grad)
        return start, given, names

    def test_libtorchs_optimizers_step_as_torch_steps_those_rows(self):
        for name, options in CASES:
            if name not in LIBTORCHS or "maximize" in options:
                continue
            for dtype in (np.float32, np.float64):
                with self.subTest(name, **options, dtype=dtype):
                    start, given, names = self.swapped("torch", name, options, dtype)
                    oracle = Rows(name, options, start)
                    self.assertEqual(set(names), set(oracle.tables))
                    self.compare(oracle, names, given, name, exact=False)

    def test_our_optimizers_step_as_torch_steps_those_rows(self):
        for name, options in CASES:
            for dtype in (np.float32, np.float64):
                with self.subTest(name, **options, dtype=dtype):
                    start, given, names = self.swapped("speedtorch", name, options, dtype)
                    with nearest_roots():
                        self.compare(Rows(name, options, start), names, given, name, exact=True)

    def test_sparse_adam_steps_as_torchs_of_the_whole_table(self):
        start, given, names = self.swapped("speedtorch", "SparseAdam", {"lr": 0.02}, np.float32)
        with nearest_roots():
            self.compare(Sparse(start, 0.02), names, given, "SparseAdam", exact=True)

    def test_adam_is_sparse_adam_of_the_whole_table(self):
        for kind in ("torch", "speedtorch"):
            start, given, names = self.swapped(kind, "Adam", {"lr": 0.02}, np.float32)
            self.compare(Sparse(start, 0.02), names, given, kind, exact=False)

    def test_sgd_and_adagrad_are_the_whole_tables_dense_step(self):
        for kind in ("torch", "speedtorch"):
            for name, options in (("SGD", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.3})):
                start, given, names = self.swapped(kind, name, options, np.float32)
                if kind == "torch":
                    self.compare(Dense(name, options, start), names, given, f"{kind} {name}", exact=True)
                else:
                    with nearest_roots():
                        self.compare(Dense(name, options, start), names, given, f"{kind} {name}", exact=True)

    def test_row_counts_equal_one_optimizer_per_row(self):
        for name in ("Adam", "SparseAdam", "Adagrad", "Adamax", "ASGD"):
            options = {"lr": 0.1, **({"lr_decay": 0.3} if name == "Adagrad" else {})}
            start = self.start(np.float32)
            self.assertEqual(self.factory("speedtorch", name, options, start, "count=1")[-1], "row_steps")
            each = [
                Sparse(start[k : k + 1], 0.1) if name == "SparseAdam" else Rows(name, options, start[k : k + 1])
                for k in range(ROWS)
            ]
            counts = np.zeros(ROWS, np.int64)
            with nearest_roots():
                for rows, grad in self.batches(np.float32):
                    self.swap(rows, grad)
                    counts[rows] += 1
                    for row, own in zip(rows, grad):
                        each[row].step(np.zeros(1, np.int64), own[None])
            found = self.tables([], np.float32)["table"]
            same(self, found, np.concatenate([one.table.numpy() for one in each]), name, exact=True)
            np.testing.assert_array_equal(np.fromfile(self.folder / "row_steps", np.int64), counts)

    def test_a_resumed_run_goes_on_bit_for_bit(self):
        kinds = [("torch", *case) for case in CASES if case[0] in LIBTORCHS and "maximize" not in case[1]]
        for kind, name, options in [*kinds, *(("speedtorch", *case) for case in CASES)]:
            for count in ((), ("count=1",)) if kind == "speedtorch" else ((),):
                with self.subTest(kind, name=name, **options, count=count):
                    start, given = self.start(np.float32), list(self.batches(np.float32, 10))
                    names = self.factory(kind, name, options, start, *count)
                    kept = self.folder / f"kept-{next(self.files)}"
                    for rows, grad in given[:6]:
                        self.swap(rows, grad)
                    self.program.ask("keep", kept)
                    halfway = self.tables([], np.float32)["table"]
                    self.assertEqual({file.stem for file in kept.iterdir()}, {*names, "steps", "optimizer"})
                    for rows, grad in given[6:]:
                        self.swap(rows, grad)
                    self.program.ask("tables", self.folder)
                    wanted = {each: (self.folder / each).read_bytes() for each in ("table", *names)}
                    self.factory(kind, name, options, halfway, *count)
                    self.program.ask("resume", kept)
                    for rows, grad in given[6:]:
                        self.swap(rows, grad)
                    self.program.ask("tables", self.folder)
                    for each, content in wanted.items():
                        self.assertEqual((self.folder / each).read_bytes(), content, each)

    def test_saved_tables_are_numpy_files(self):
        start, _, names = self.swapped("speedtorch", "Adamax", {}, np.float64)
        self.program.ask("keep", self.folder / "kept")
        found = self.tables(names, np.float64)
        for name in names:
            np.testing.assert_array_equal(np.load(self.folder / "kept" / f"{name}.npy"), found[name])
        self.assertEqual(np.load(self.folder / "kept/steps.npy").tolist(), [STEPS])


if __name__ == "__main__":
    unittest.main()
