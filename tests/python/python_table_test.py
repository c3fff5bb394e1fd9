"""speedtorch.Table in every placement that this machine has, against NumPy and torch."""

import copy
import gc
import hashlib
import importlib.util
import multiprocessing
import pickle
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

import speedtorch
from speedtorch import FileRows, Normal, Table, Uniform, errors
from speedtorch.table import PLACEMENTS

HOST = [placement for placement in PLACEMENTS if placement not in ("pinned", "device")]


def sum_in_child(table, answers):
    answers.put(float(table.gather([1, 2]).sum()))


class RowsOfTable(torch.utils.data.Dataset):
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, row):
        return self.table.gather([row])[0]


class TableTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.array = np.random.default_rng(5).standard_normal((300, 7)).astype(np.float32)

    def test_rows_are_gathered_and_scattered_in_every_placement(self):
        self.assertEqual(HOST, ["libtorch", "pageable", "hugepage", "mapped"])
        mask = self.array[:, 0] > 0
        for placement in HOST:
            with self.subTest(placement):
                table = Table.from_array(self.array, placement=placement)
                self.assertEqual(table.placement, placement)
                self.assertEqual((tuple(table.shape), table.dtype, len(table)), ((300, 7), torch.float32, 300))
                for index in (torch.tensor([[5, 2], [5, 0]]), [3, 3], slice(4, 30, 3), slice(20, 2, -2), mask, np.array([9]), []):
                    expected = self.array[index.numpy() if isinstance(index, torch.Tensor) else np.asarray(index, int)
                                          if isinstance(index, list) else index]
                    np.testing.assert_array_equal(table.gather(index), expected)
                out = torch.empty(2, 7)
                self.assertIs(table.gather([1, 8], out), out)
                np.testing.assert_array_equal(out, self.array[[1, 8]])
                table.scatter([4, 6, 4], torch.arange(21, dtype=torch.float32).view(3, 7))
                expected = self.array.copy()
                expected[[6, 4]] = np.arange(7, 21).reshape(2, 7)
                np.testing.assert_array_equal(table.numpy(), expected)

    def test_views_share_and_keep_the_memory(self):
        for placement in HOST:
            with self.subTest(placement):
                table = Table.from_array(self.array, placement=placement)
                views = [table.tensor.numpy(), table.numpy(), np.asarray(table), np.from_dlpack(table), torch.from_dlpack(table).numpy()]
                table.scatter([7], torch.full((1, 7), 4.0))
                del table
                gc.collect()
                spoil = [torch.full((300, 7), 99.0) for _ in range(20)]
                for view in views:
                    self.assertTrue((view[7] == 4).all() and (view[8] == self.array[8]).all())
                del spoil

    def test_fills_are_defined(self):
        shape = (1000, 8)
        same = [Table.filled(shape, Uniform(-2, 3, seed=4), placement=placement).numpy().copy() for placement in HOST]
        for other in same[1:]:
            np.testing.assert_array_equal(other, same[0])
        self.assertTrue((same[0] >= -2).all() and (same[0] < 3).all() and 0.4 < same[0].mean() < 0.6)
        normal = Table.filled(shape, Normal(1, 0.5, seed=2), torch.float64).numpy()
        self.assertTrue(0.9 < normal.mean() < 1.1 and 0.45 < normal.std() < 0.55)
        self.assertTrue((Table.filled((3, 2), 7, torch.int64).numpy() == 7).all())
        self.assertTrue((Table.filled((3, 2)).numpy() == 0).all())
        by = Table.filled((4, 4), torch.nn.init.eye_)
        np.testing.assert_array_equal(by.numpy(), np.eye(4))
        np.testing.assert_array_equal(by.fill(np.ones((4, 4), np.float32)).numpy(), np.ones((4, 4)))
        with self.assertRaises(ValueError):
            Table.filled((3, 2), Normal(), torch.int32)

        def fails(_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            Table.filled((3, 2), fails, placement="mapped", file=self.folder / "none.npy")
        self.assertFalse((self.folder / "none.npy").exists())

    def test_fills_that_fill_nothing_are_refused(self):
        for placement in HOST:
            table = Table.filled((4, 2), 3, placement=placement)
            for fill in (Normal, Uniform, float, lambda t: torch.rand(4, 2), lambda t: t.clone(), lambda t: np.ones((4, 2), np.float32)):
                with self.assertRaises(TypeError):
                    table.fill(fill)
            self.assertTrue((table.numpy() == 3).all())
            for fill in (lambda t: t.fill_(5), lambda t: t[1:].fill_(5)[0], lambda t: np.copyto(t.numpy(), 5), lambda t: t.numpy()[:1]):
                table.fill(fill)
            self.assertTrue((table.numpy()[1:] == 5).all())
        file = self.folder / "class.npy"
        with self.assertRaisesRegex(TypeError, "class Normal; give an instance"):
            Table.filled((4, 2), Normal, placement="mapped", file=file)
        self.assertFalse(file.exists())
        for kind in (Uniform, Normal):
            for seed in (-3, 1 << 64):
                with self.assertRaisesRegex(errors.OptionError, f"seed is {seed}"):
                    kind(seed=seed)
        Table.filled((2, 2), Uniform(seed=(1 << 64) - 1))

    def test_files_are_numpys_and_torchs(self):
        table = Table.from_array(self.array)
        table.save(self.folder / "a.npy")
        table.save(self.folder / "a.pt")
        np.testing.assert_array_equal(np.load(self.folder / "a.npy"), self.array)
        np.testing.assert_array_equal(torch.load(self.folder / "a.pt"), self.array)
        for name in ("a.npy", "a.pt"):
            np.testing.assert_array_equal(Table.from_file(self.folder / name).numpy(), self.array)
        np.save(self.folder / "b.npy", self.array * 2)
        table.load(self.folder / "b.npy")
        np.testing.assert_array_equal(table.numpy(), self.array * 2)
        with self.assertRaises(OSError):
            Table.from_file(self.folder / "missing.npy")
        (self.folder / "bad.npy").write_bytes(b"no array")
        with self.assertRaises(ValueError):
            Table.from_file(self.folder / "bad.npy")

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "safetensors is not installed")
    def test_tensors_of_safetensors_files_are_tables(self):
        from safetensors.torch import save_file
        numbers = torch.randn(40, 6)
        kinds = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.bool]
        tensors = {f"layer//../{kind}.pt": numbers.to(kind) for kind in kinds}
        path = self.folder / "model.safetensors"
        save_file(tensors, path)
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        for name, tensor in tensors.items():
            source, as_bytes = f"{path}:{name}", tensor.view(torch.uint8)
            for placement in HOST:
                table = Table.from_file(source, placement=placement)
                self.assertEqual((table.dtype, tuple(table.shape)), (tensor.dtype, (40, 6)))
                self.assertTrue(torch.equal(table.tensor.view(torch.uint8), as_bytes))
                self.assertTrue(torch.equal(table.gather([39, 0]).view(torch.uint8), as_bytes[[39, 0]]))
            again = pickle.loads(pickle.dumps(Table.from_file(source, placement="mapped")))
            self.assertEqual((again.placement, again.file), ("mapped", source))
            self.assertTrue(torch.equal(again.tensor.view(torch.uint8), as_bytes))
            for copy_cached in (True, False):
                read = FileRows(source, copy_cached=copy_cached).gather([[7], [39]])
                self.assertTrue(torch.equal(read.view(torch.uint8), as_bytes[torch.tensor([[7], [39]])]))
        first = next(iter(tensors))
        copied = Table.from_file(f"{path}:{first}", placement="mapped", file=self.folder / "copy.npy")
        np.testing.assert_array_equal(np.load(self.folder / "copy.npy"), tensors[first].numpy())
        copied.scatter([0], torch.zeros(1, 6))
        mapped = Table.from_file(f"{path}:{first}", placement="mapped")
        with self.assertRaises(errors.FileError):
            mapped.scatter([0], torch.zeros(1, 6))
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), before)
        Table.from_file(f"{path}:{first}", placement="mapped", writable=True).scatter([3], torch.zeros(1, 6))
        self.assertFalse(Table.from_file(f"{path}:{first}").gather([3]).any())
        with self.assertRaisesRegex(errors.SafetensorsError, "'model.safetensors:x': the safetensors file has no tensor 'x'; it has 'layer"):
            Table.from_file(f"{path}:x")
        with self.assertRaisesRegex(ValueError, "has 7 tensors; name one as FILE:NAME"):
            FileRows(path)

    def test_a_mapped_file_is_written_in_place(self):
        file = self.folder / "t.npy"
        table = Table.from_array(self.array, placement="mapped", file=file)
        table.scatter([0], torch.zeros(1, 7))
        table.flush()
        self.assertTrue((np.load(file)[0] == 0).all())
        self.assertEqual(table.resident_fraction(), 1)
        with self.assertRaisesRegex(errors.FileError, "t.npy"):
            Table.empty((3, 3), placement="mapped", file=file)
        read_only = Table.from_file(file, placement="mapped")
        with self.assertRaises(OSError):
            read_only.scatter([0], torch.ones(1, 7))
        with self.assertRaises(ValueError):
            read_only.numpy()[0] = 1
        Table.from_file(file, placement="mapped", writable=True).scatter([0], torch.ones(1, 7))
        self.assertTrue((read_only.numpy()[0] == 1).all())

    def test_rows_are_read_from_a_file(self):
        file = self.folder / "cold.npy"
        np.save(file, self.array.reshape(300, 7, 1))
        for options in ({}, {"engine": "advice", "copy_cached": False}):
            rows = FileRows(file, **options)
            self.assertEqual((tuple(rows.shape), rows.dtype, len(rows)), ((300, 7, 1), torch.float32, 300))
            self.assertIn(rows.engine, ("io_uring", "advice"))
            index = np.array([[299, 7], [7, 0]])
            np.testing.assert_array_equal(rows.gather(index), self.array[index][..., None])
            out = torch.empty(3, 7, 1)
            self.assertIs(rows.gather(slice(4, 7), out), out)
            np.testing.assert_array_equal(out[..., 0], self.array[4:7])
            with self.assertRaises(IndexError):
                rows.gather([300])
        self.assertEqual(repr(rows), "FileRows(shape=(300, 7, 1), dtype=torch.float32, engine='advice')")
        with self.assertRaisesRegex(ValueError, "engine is 'fast'"):
            FileRows(file, engine="fast")

    def test_is_pickled_by_its_file_or_with_its_rows(self):
        file = self.folder / "p.npy"
        named = Table.from_array(self.array, placement="mapped", file=file)
        again = pickle.loads(pickle.dumps(named))
        named.scatter([2], torch.full((1, 7), 5.0))
        self.assertTrue((again.numpy()[2] == 5).all())
        self.assertLess(len(pickle.dumps(named)), 500)
        for placement in HOST:
            table = Table.from_array(self.array, placement=placement)
            other = copy.deepcopy(table)
            table.scatter([2], torch.full((1, 7), 5.0))
            self.assertEqual(other.placement, placement)
            np.testing.assert_array_equal(other.numpy(), self.array)
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        child = context.Process(target=sum_in_child, args=(named, answers))
        child.start()
        self.assertAlmostEqual(answers.get(timeout=120), float(named.numpy()[[1, 2]].sum()), places=4)
        child.join()

    def test_goes_to_a_spawned_process_without_a_name(self):
        tables = [Table.from_array(self.array[:3], placement=placement) for placement in HOST]
        tables.append(Table.filled((2, 3), 1.5, torch.bfloat16))
        loader = torch.utils.data.DataLoader(torch.utils.data.ConcatDataset([RowsOfTable(table) for table in tables]),
                                             num_workers=1, multiprocessing_context="spawn", batch_size=None)
        rows = list(loader)
        np.testing.assert_array_equal(torch.stack(rows[:12]), np.tile(self.array[:3], (4, 1)))
        self.assertTrue(torch.equal(torch.stack(rows[12:]), torch.full((2, 3), 1.5, dtype=torch.bfloat16)))
        for shape in ((0, 3), (3, 0)):
            empty = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(Table.empty(shape, torch.bool)))
            self.assertEqual((tuple(empty.shape), empty.dtype), (shape, torch.bool))

    def test_deep_copies_share_nothing(self):
        file = self.folder / "original.npy"
        Table.from_array(self.array, placement="mapped", file=file)
        for writable in (True, False):
            table = Table.from_file(file, placement="mapped", writable=writable)
            both = copy.deepcopy([table, table])
            self.assertIs(both[0], both[1])
            self.assertEqual((both[0].placement, both[0].file), ("mapped", None))
            both[0].fill(0)
            np.testing.assert_array_equal(table.numpy(), self.array)
            np.testing.assert_array_equal(np.load(file), self.array)

    def test_says_what_it_is(self):
        table = Table.empty((10, 3), torch.float16, placement="mapped", file=self.folder / "x.npy")
        self.assertEqual(repr(table), "Table(shape=(10, 3), dtype=torch.float16, placement='mapped', file='x.npy')")
        self.assertEqual(table.nbytes, 60)
        pages = Table.filled((100_000, 16), 1, placement="pageable").pages_got
        self.assertEqual(pages, "4KiB")

    def test_refuses_what_cannot_be(self):
        with self.assertRaisesRegex(ValueError, "placement is 'huge'; choose libtorch, pageable, hugepage, mapped, pinned, device"):
            Table.empty((3, 3), placement="huge")
        with self.assertRaises(MemoryError):
            Table.empty((1 << 40, 1 << 10))
        with self.assertRaisesRegex(IndexError, "index -1 at position 0"):
            Table.from_array(self.array).gather([-1])
        with self.assertRaisesRegex(ValueError, "it needs one element per row"):
            Table.from_array(self.array).gather(np.ones(3, bool))
        if not torch.cuda.is_available():
            with self.assertRaises(errors.PlacementError):
                Table.empty((3, 3), placement="device")

    def test_refuses_arguments_that_have_no_effect(self):
        np.save(self.folder / "a.npy", self.array)
        torch.save(torch.from_numpy(self.array), self.folder / "a.pt")
        for placement in HOST:
            for make in (lambda **on: Table.empty((3, 3), **on), lambda **on: Table.filled((3, 3), **on),
                         lambda **on: Table.from_array(self.array, **on), lambda **on: Table.from_file(self.folder / "a.npy", **on)):
                with self.assertRaisesRegex(errors.PlacementError, f"device is cuda:7, and a {placement} table has none"):
                    make(placement=placement, device="cuda:7")
        table = Table.from_array(self.array)
        with self.assertRaisesRegex(errors.OptionError, "device=cuda .*give one of both"):
            table.gather([1], torch.empty(1, 7), device="cuda")
        for name, options in (("a.npy", {"placement": "hugepage"}), ("a.npy", {"placement": "mapped", "file": self.folder / "b.npy"}),
                              ("a.pt", {"placement": "mapped"})):
            with self.assertRaisesRegex(errors.OptionError, "this table is a copy"):
                Table.from_file(self.folder / name, writable=True, **options)
        self.assertFalse((self.folder / "b.npy").exists())

    def test_scatters_arrays_and_lists(self):
        table = Table.from_array(self.array[:, :2].copy())
        table.scatter([1], np.array([[1, 2]], np.float32))
        table.scatter([2, 3], [[3, 4], [5, 6]])
        np.testing.assert_array_equal(table.numpy()[1:4], [[1, 2], [3, 4], [5, 6]])
        with self.assertRaises(errors.ShapeError):
            table.scatter([1], np.array([[1, 2]]))
        with self.assertRaises(errors.ShapeError):
            table.scatter([1], 3)
        with self.assertRaisesRegex(TypeError, "dtype is 'float32'; give a torch.dtype"):
            Table.empty((2, 2), "float32")
        with self.assertRaisesRegex(TypeError, "NumPy has no torch.bfloat16"):
            Table.empty((2, 2), torch.bfloat16).numpy()


if __name__ == "__main__":
    unittest.main()
