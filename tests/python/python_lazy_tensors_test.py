"""Tensors that torch has not computed yet (conj(), a negation, zeros without memory), given to each entry of the package: their
numbers are read, and none is written to."""

import itertools
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import speedtorch
from speedtorch import RowCache, SharedTable, ShardedTable, Table, errors, optim

torch.set_num_threads(1)
NUMBER = itertools.count()  # of the next tables()
FLOATS = (torch.float32, torch.float64)


def whole(dtype):
    return torch.arange(30).view(10, 3).to(dtype)


def lazy_rows(dtype):
    """Rows that are not computed yet, and the same rows in memory."""
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(5), dtype=dtype)
    yield torch._neg_view(rows), rows * -1
    yield torch._efficientzerotensor((4, 3), dtype=dtype), torch.zeros(4, 3, dtype=dtype)
    if dtype.is_complex:
        yield torch.conj(rows), torch.complex(rows.real, rows.imag * -1)


def lazy_indices():
    """The same for row numbers."""
    for dtype in (torch.int32, torch.int64):
        rows = torch.tensor([7, 2, 5, 0], dtype=dtype)
        yield torch._neg_view(rows * -1), rows
        yield torch._efficientzerotensor((4,), dtype=dtype), torch.zeros(4, dtype=dtype)


class LazyTensorsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    def tables(self, dtype):
        """A table of each kind."""
        name = f"lazy {os.getpid()} {next(NUMBER)}"
        file = self.folder / f"{name}.npy"
        np.save(file, whole(dtype).numpy())
        shared = Table.from_array(whole(dtype), placement="pageable", shared=True)
        return (
            Table.from_array(whole(dtype)),
            SharedTable.hold(name, shared, writers="row_locks"),
            ShardedTable.from_array(whole(dtype)),
            RowCache(file, 1 << 14, writes="through"),
        )

    def scattered(self, index, values):
        """The rows of each kind of table after a scatter."""
        for table in self.tables(values.dtype):
            table.scatter(index, values)
            yield table.gather(range(10))
        rows = whole(values.dtype)
        speedtorch.scatter_rows(rows, index, values)
        yield rows
        yield Table.from_array(values).tensor
        yield ShardedTable.from_array(values).gather(range(4))

    def gathered(self, index, rows):
        for table in self.tables(rows.dtype):
            yield table.gather(index)
        yield speedtorch.gather_rows(rows, index % 4)
        yield from speedtorch.distinct_rows(index, 10)

    def stepped(self, index, grad):
        """The parameters after two steps, by dense gradients and by sparse ones."""
        sharded = ShardedTable.from_array(whole(grad.dtype))
        optimizer = optim.Adam([torch.nn.Parameter(sharded.shard.tensor)], lr=0.1)
        for _ in range(2):
            sharded.step(optimizer, index, grad)
        yield sharded.shard.tensor
        sparse = torch.sparse_coo_tensor(index.view(1, -1), grad, (10, 3), check_invariants=True)
        for kind in (optim.Adagrad, optim.SGD):
            for given, rows in ((grad, 4), (sparse, 10)):
                for contiguous in (False, True):
                    parameter = torch.nn.Parameter(torch.ones(rows, 3, dtype=grad.dtype))
                    optimizer = kind([parameter], lr=0.1, contiguous=contiguous)
                    for _ in range(2):
                        parameter.grad = given
                        optimizer.step()
                    yield parameter.detach()

    def check(self, entries, lazy, computed):
        for number, (found, expected) in enumerate(itertools.zip_longest(entries(*lazy), entries(*computed))):
            self.assertTrue(torch.equal(found, expected), f"result {number} of {entries.__name__}()")

    def test_numbers_are_read(self):
        index = torch.tensor([7, 2, 5, 0])
        for dtype in (torch.float32, torch.complex64):
            for lazy, rows in lazy_rows(dtype):
                self.check(self.scattered, (index, lazy), (index, rows))
                self.check(self.gathered, (index, lazy), (index, rows))
        for lazy, numbers in lazy_indices():
            self.check(self.scattered, (lazy, rows), (numbers, rows))
            self.check(self.gathered, (lazy, rows), (numbers, rows))

    def test_gradients_are_read(self):
        index = torch.tensor([7, 2, 5, 0])
        for dtype in FLOATS:
            for lazy, rows in lazy_rows(dtype):
                self.check(self.stepped, (index, lazy), (index, rows))
        for lazy, numbers in lazy_indices():
            self.check(self.stepped, (lazy, rows), (numbers, rows))

    def test_none_is_written_to(self):
        index = torch.tensor([7, 2, 5, 0])
        for dtype in (torch.float32, torch.complex64):
            for out, before in lazy_rows(dtype):
                rows, options = whole(dtype), [0.1, 0, 0, 0, 0, 0]
                writers = [lambda table=table: table.gather(index, out=out) for table in self.tables(dtype)]  # noqa: B023
                writers += [
                    lambda: speedtorch.gather_rows(rows, index, out=out),  # noqa: B023
                    lambda: torch.ops.speedtorch.gather_rows(rows, index, out=out),  # noqa: B023
                    lambda: speedtorch.scatter_rows(out, index % 4, rows[:4]),  # noqa: B023
                    lambda: torch.ops.speedtorch.sparse_step_(out, [], index, rows[:4], "SGD", options, 1),  # noqa: B023
                ]
                for number, write in enumerate(writers):
                    with self.subTest(writer=number, dtype=dtype), self.assertRaises(errors.LazyTensorError):
                        write()
                self.assertTrue(torch.equal(out + 0, before))


if __name__ == "__main__":
    unittest.main()
