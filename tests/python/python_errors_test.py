"""Errors of the native functions: their types, their texts, and what they leave unwritten."""

import builtins
import errno
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

import speedtorch
from speedtorch import Normal, Table, Uniform, errors, optim

ops = torch.ops.speedtorch


class ErrorsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_each_is_an_error_and_one_of_pythons_own(self):
        for name in errors.__all__:
            if name != "Error":
                bases = getattr(errors, name).__mro__
                self.assertIn(errors.Error, bases)
                self.assertTrue(any(base.__module__ == "builtins" and base not in (Exception, BaseException, object)
                                    for base in bases), name)
        weight = torch.zeros(3, 2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, r"switch gradients off \(torch.no_grad\(\)") as caught:
            speedtorch.scatter_rows(weight, torch.tensor([1]), torch.ones(1, 2))
        self.assertIs(type(caught.exception), errors.AutogradError)

    def test_files_are_pythons_errors_with_number_and_path(self):
        table = Table.from_array(np.ones((2, 3), np.float32))
        missing, taken = self.folder / "no/folder/k.npy", self.folder / "taken.npy"
        taken.write_bytes(b"")
        for kind, code, path, work in (
            (FileNotFoundError, errno.ENOENT, missing, lambda: table.save(missing)),
            (FileNotFoundError, errno.ENOENT, missing, lambda: table.save(missing.with_suffix(".pt"))),
            (FileNotFoundError, errno.ENOENT, missing, lambda: Table.from_file(missing)),
            (FileNotFoundError, errno.ENOENT, missing, lambda: Table.from_file(missing.with_suffix(".pt"))),
            (FileExistsError, errno.EEXIST, taken, lambda: Table.empty((2, 2), placement="mapped", file=taken)),
            (IsADirectoryError, errno.EISDIR, self.folder, lambda: Table.from_file(self.folder)),
        ):
            with self.assertRaises(kind) as caught:
                work()
            error = caught.exception
            self.assertIsInstance(error, errors.FileError)
            self.assertIsInstance(error, getattr(errors, kind.__name__))
            self.assertEqual((error.errno, Path(error.filename).with_suffix("")), (code, path.with_suffix("")))
            self.assertIn(f"'{Path(error.filename).name}'", str(error))
        self.assertIsNot(errors.FileNotFoundError, builtins.FileNotFoundError)

    def test_a_wrong_argument_is_named(self):
        table = Table.filled((4, 2))
        weight, index = torch.zeros(4, 2), torch.tensor([1])
        for message, work in (
            ("the index is a list; a torch.Tensor is needed", lambda: speedtorch.gather_rows(weight, [1])),
            ("the table is a numpy.ndarray; a torch.Tensor", lambda: speedtorch.gather_rows(weight.numpy(), index)),
            ("values is a float; a torch.Tensor", lambda: speedtorch.scatter_rows(weight, index, 1.0)),
            ("out is a tuple; a torch.Tensor", lambda: speedtorch.gather_rows(weight, index, out=())),
            ("out is a list; a torch.Tensor", lambda: table.gather(index, [1.0])),
            ("seed is 0.5; an int or None", lambda: Table.filled((2, 2), Normal(seed=0.5))),
        ):
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                work()
        for seed in (-3, 1 << 64):
            for fill in (Uniform, Normal):
                with self.assertRaisesRegex(errors.OptionError, rf"seed is {seed}; a seed is an integer from 0 to"):
                    fill(seed=seed)
        same = [Table.filled((50, 2), Uniform(seed=seed)).numpy() for seed in ((1 << 64) - 1, np.uint64((1 << 64) - 1))]
        np.testing.assert_array_equal(*same)

    def test_nothing_of_the_package_writes_to_a_read_only_file(self):
        file = self.folder / "kept.npy"
        before = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.save(file, before)
        kept = Table.from_file(file, placement="mapped").tensor
        rows, index = torch.ones(2, 3), torch.tensor([0, 2])
        weight, sparse = torch.nn.Parameter(kept), torch.nn.Parameter(kept)
        weight.grad = torch.ones(4, 3)
        sparse.grad = torch.sparse_coo_tensor(index[None], rows, (4, 3))
        for work in (
            lambda: speedtorch.scatter_rows(kept, index, rows),
            lambda: speedtorch.scatter_rows(kept[1:], index, rows, "accumulate"),
            lambda: speedtorch.gather_rows(torch.ones(4, 3), index, out=kept[:2]),
            lambda: speedtorch.FileRows(file).gather(index, kept[2:]),
            optim.SGD([weight], lr=1.0).step,
            optim.SGD([sparse], lr=1.0).step,
        ):
            with self.assertRaisesRegex(errors.FileError, "in a file that is open read_only and cannot be written"):
                work()
        self.assertTrue(torch.equal(speedtorch.gather_rows(kept, index), torch.from_numpy(before)[index]))
        np.testing.assert_array_equal(np.load(file), before)
        writable = Table.from_file(file, placement="mapped", writable=True).tensor
        speedtorch.scatter_rows(writable, index, rows)
        self.assertTrue((kept[index] == 1).all())


if __name__ == "__main__":
    unittest.main()
