"""speedtorch.RowCache on files of NumPy."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from speedtorch import RowCache, errors

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/row-cache"


def load():
    loader = importlib.machinery.SourceFileLoader("row_cache_goals", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("row_cache_goals", loader))
    sys.modules["row_cache_goals"] = module
    loader.exec_module(module)
    return module


class RowCacheTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "rows.npy"
        self.array = np.random.default_rng(3).normal(size=(2000, 5, 2)).astype(np.float32)
        np.save(self.file, self.array)

    def test_rows_are_those_of_the_file(self):
        cache = RowCache(self.file, 40_000)
        self.assertEqual((tuple(cache.shape), cache.dtype, len(cache), cache.writes), ((2000, 5, 2), torch.float32, 2000, "none"))
        for _ in range(3):
            index = np.array([[1999, 7], [7, 0]])
            np.testing.assert_array_equal(cache.gather(index), self.array[index])
            out = torch.empty(300, 5, 2)
            self.assertIs(cache.gather(slice(4, 304), out), out)
            np.testing.assert_array_equal(out, self.array[4:304])
        seen = cache.statistics
        self.assertEqual(seen.hits + seen.misses, 3 * 304)
        self.assertGreater(seen.hits, 304)
        self.assertEqual(seen.hit_rate, seen.hits / 912)
        self.assertLessEqual(seen.bytes, 40_000)
        self.assertGreater(seen.slots, 700)
        self.assertRegex(repr(cache), r"RowCache\(shape=\(2000, 5, 2\), dtype=torch.float32, writes='none', bytes=\d+, hit_rate=0\.")
        with self.assertRaises(IndexError):
            cache.gather([2000])

    def test_a_prefetch_reads_the_next_batch(self):
        cache = RowCache(self.file, 40_000)
        cache.prefetch([5, 6, 7])
        np.testing.assert_array_equal(cache.gather([7, 5]), self.array[[7, 5]])
        self.assertEqual((cache.statistics.prefetched, cache.statistics.reads), (2, 3))

    def test_threads_share_it(self):
        cache, right = RowCache(self.file, 20_000), []

        def work(seed):
            random = np.random.default_rng(seed)
            for _ in range(20):
                index = random.integers(0, 2000, 100)
                right.append(np.array_equal(cache.gather(index), self.array[index]))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(right, [True] * 80)

    def test_writes_reach_the_file(self):
        for writes in ("through", "back"):
            cache = RowCache(self.file, 40_000, writes=writes)
            cache.scatter([3, 1999, 3], [[[1, 1]] * 5, [[2, 2]] * 5, [[3, 3]] * 5])
            self.assertEqual(cache.gather([3, 1999])[:, 0, 0].tolist(), [3, 2])
            cache.flush()
            self.assertEqual(np.load(self.file)[[3, 1999], 4, 1].tolist(), [3, 2])
            with self.assertRaisesRegex(errors.FileError, "another RowCache writes"):
                RowCache(self.file, 40_000, writes=writes)
            with self.assertRaises(ValueError):
                cache.scatter([3], torch.ones(1, 5, 2, dtype=torch.int32))
            with self.assertRaises(ValueError):
                cache.scatter([3], torch.ones(2, 5, 2))
            del cache
        with self.assertRaisesRegex(errors.OptionError, "does not write"):
            RowCache(self.file, 40_000).scatter([3], torch.ones(1, 5, 2))

    def test_a_tensor_of_a_safetensors_file_has_a_cache_too(self):
        values = torch.arange(300 * 6).view(300, 6).to(torch.bfloat16)
        data = values.view(torch.uint8).numpy().tobytes()
        header = json.dumps({"first": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
                             "rows": {"dtype": "BF16", "shape": [300, 6], "data_offsets": [8, 8 + len(data)]}}).encode()
        file = self.file.with_name("model.safetensors")
        file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8) + data)
        cache = RowCache(f"{file}:rows", 10_000, writes="back")
        self.assertEqual((tuple(cache.shape), cache.dtype), ((300, 6), torch.bfloat16))
        for _ in range(2):
            self.assertTrue(torch.equal(cache.gather([299, 0]), values[[299, 0]]))
        self.assertEqual(cache.statistics.hits, 2)
        cache.scatter([299], values[:1])
        self.assertTrue(file.with_name(".model.safetensors.journal").exists())
        cache.flush()
        self.assertEqual(file.read_bytes()[-12:], data[:12])

    def test_bad_options_are_named(self):
        with self.assertRaisesRegex(ValueError, "writes is 'later'; choose none, through, back"):
            RowCache(self.file, 40_000, writes="later")
        with self.assertRaisesRegex(ValueError, "100 bytes is too small"):
            RowCache(self.file, 100)
        with self.assertRaisesRegex(errors.FileError, "absent.npy"):
            RowCache(self.file.with_name("absent.npy"), 40_000)


class GoalsTest(unittest.TestCase):
    """scripts/row-cache on a small table, without its cgroups."""

    def setUp(self):
        self.goals = load()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_each_side_gathers_the_rows_of_the_table(self):
        with mock.patch.multiple(self.goals, ROWS=1 << 12, BATCH=500), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            file = self.folder / "table.npy"
            self.goals.make_table(file)
            numbers = np.load(file)
            self.assertEqual(numbers.shape, (1 << 12, 32))
            self.assertTrue((numbers == np.arange(1 << 12)[:, None]).all())
            batches = self.goals.zipf(torch, 3, 1 << 12, 1)
            self.assertEqual(tuple(batches.shape), (3, 500))
            self.assertGreater(500 - len(batches[0].unique()), 50)
            for kind in ("cache", "file_rows", "mmap"):
                gather, seen = self.goals.reader_of(kind, file)
                for index in batches:
                    out = torch.zeros(500, 32, dtype=torch.int64)
                    gather(index, out)
                    self.assertTrue((out == index[:, None]).all(), kind)
                self.assertEqual(seen().get("hits", -1) > 0, kind == "cache")

    def test_lance_takes_the_rows_of_the_table(self):
        python = self.goals.python_with_lance(None)
        if python is None:
            self.skipTest("no Python has Lance; scripts/setup --peers makes one")
        done = subprocess.run([python, "-c", f"""
import importlib.machinery, importlib.util, torch
from pathlib import Path
loader = importlib.machinery.SourceFileLoader("row_cache", {str(SCRIPT)!r})
goals = importlib.util.module_from_spec(importlib.util.spec_from_loader("row_cache", loader))
loader.exec_module(goals)
goals.ROWS = 1 << 12
file = Path({str(self.folder)!r}) / "table.npy"
goals.make_table(file)
goals.make_dataset(file)
index, out = torch.tensor([4095, 0, 7, 7, 3000]), torch.zeros(5, 32, dtype=torch.int64)
goals.lance_reader(file)(index, out)
assert (out == index[:, None]).all(), out
"""], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_cold_pages_are_compared_with_those_of_fio(self):
        file, out = self.folder / "table.npy", io.StringIO()
        with mock.patch.multiple(self.goals, ROWS=1 << 14, BATCH=500, COLD_ROUNDS=2, COLD_BATCHES=2, evict=lambda path: None,
                                 fio_pages_per_s=lambda path, seed: 1000.0 * seed), contextlib.redirect_stdout(out):
            self.goals.make_table(file)
            self.goals.cold(file, 5)
        found = json.loads(out.getvalue())
        self.assertEqual([fio for _, fio in found["pages_per_s"]], [10_000, 11_000])
        ratios = [ours / fio for ours, fio in found["pages_per_s"]]
        self.assertAlmostEqual(found["ratio"], (ratios[0] * ratios[1]) ** 0.5)

    @unittest.skipUnless(shutil.which("fio"), "fio is missing; scripts/setup --peers installs it")
    def test_fio_reads_pages_of_the_file(self):
        file = self.folder / "table.npy"
        with mock.patch.multiple(self.goals, ROWS=1 << 16, COLD_SECONDS=1):
            self.goals.make_table(file)
            self.assertGreater(self.goals.fio_pages_per_s(file, 1), 0)

    def test_goals_without_their_peers_are_left_out_and_named(self):
        err = io.StringIO()
        with mock.patch.object(self.goals.shutil, "which", lambda name: None), contextlib.redirect_stderr(err):
            self.assertEqual(self.goals.measurable(None), {"C1", "C2", "C4"})
        self.assertIn("C3 is not measured", err.getvalue())
        self.assertIn("C5 is not measured", err.getvalue())

    def test_hits_have_a_ratio(self):
        out = io.StringIO()
        with mock.patch.multiple(self.goals, HIT_ROWS=1 << 13, BATCH=500, HIT_ROUNDS=3), contextlib.redirect_stdout(out):
            self.goals.hits(self.folder, 1)
        self.assertGreater(json.loads(out.getvalue())["ratio"], 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_verdicts_follow_from_the_ratios(self):
        file = self.folder / "starts"
        for ratios, status, verdicts in (((9, 2.1, 0.7), 0, ["met", "met: aim met", "met"]), ((7, 2.1, 0.7), 1, ["missed", "met: aim met", "met"])):
            file.write_text(f"{json.dumps(dict(zip(('C1', 'C2', 'C4'), ratios)))}\n" * 5)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(self.goals.main(["--read", str(file)]), status)
            self.assertEqual([line.split("  ")[-1] for line in out.getvalue().splitlines()[1:4]], verdicts)


if __name__ == "__main__":
    unittest.main()
