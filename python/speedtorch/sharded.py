"""Tables whose rows are spread over the processes of a torch.distributed group."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from speedtorch import _native, errors
from speedtorch.table import Path, Table, _absolute, _check_tensor, _device, _NativeRows, row_index, row_values

_CHUNK_BYTES = 1 << 20


def _group_of(group: Any) -> Any:
    if group is not None:
        return group
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise errors.OptionError("there is no process group; call torch.distributed.init_process_group('gloo') or give group=")
    return torch.distributed.group.WORLD


@contextlib.contextmanager
def _together(refuse: Callable[[bytes], None]) -> Iterator[None]:
    """Tells the other ranks if this one refuses its arguments, so that they do not wait for it."""
    try:
        yield
    except Exception as error:
        refuse(f"{type(error).__name__}: {error}".encode(errors="backslashreplace"))
        raise


def _new(group: Any) -> contextlib.AbstractContextManager[None]:
    return _together(lambda why: _native.ShardedTable.refuse_new(group, why))


@dataclass(frozen=True)
class ExchangeCounts:
    """What the last operation of this rank exchanged with other ranks."""

    asked_rows: int
    """rows that this rank asked others for, or sent to them"""
    node_rows: int
    """rows that it read from the memory of other ranks"""
    served_rows: int
    """rows that others asked this rank for, or sent to it"""
    chunks: int
    """the most messages of rows between this rank and another, one way"""
    id_bytes: int
    """bytes of a row number on its way"""


class ShardedTable(_NativeRows):
    """A table over a process group. Make one with `empty`, `from_array` or `load`.

    They take these options, with the same values on each rank, except `placement` and `node`:

    - `group`: of torch.distributed, with a backend for the CPU such as gloo; None is the default group.
    - `sharding`: "blocks", "cyclic" or "hashed".
    - `placement`: of this rank's rows, as in `Table`.
    - `chunk_bytes`: the size in which rows travel from one rank to another.
    - `node_first`: whether a gather reads the rows of other ranks of this node from their memory. Their shards are then shared
      memory, and a rank that writes `shard` by itself first calls torch.distributed.barrier(), because others may still read
      it when a gather returns.
    - `node`: divides a host into nodes, such as its NUMA nodes: only ranks with the same text share memory. It needs
      `node_first`. errors.OptionError without it.

    Each method that moves rows is collective: all ranks call the same methods in the same order, each with its own batch,
    which may be empty. If a rank refuses its batch, no rank does anything: that rank raises what `Table` raises, the others
    errors.RankError. If ranks differ in their arguments or calls, all raise errors.DisagreementError. If a rank is lost, the others
    raise errors.GroupError within the group's time-out, and the group cannot be used again.
    """

    def __init__(self, native: Any):
        self._native = native

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: torch.dtype = torch.float32, *, group: Any = None, sharding: str = "blocks",
              placement: str = "hugepage", chunk_bytes: int = _CHUNK_BYTES, node_first: bool = False,
              node: str = "") -> "ShardedTable":
        """Returns a table of `shape` ([rows, *row]), of the rows of all ranks, with unspecified contents."""
        group = _group_of(group)
        with _new(group):
            sizes = list(torch.Size(shape))
            if not isinstance(dtype, torch.dtype):
                raise TypeError(f"dtype is a {type(dtype).__name__}; a torch.dtype is needed")
            options = _native.ShardedOptions(sharding, placement, chunk_bytes, node_first, node)
        return cls(_native.ShardedTable.empty(group, sizes, dtype, options))

    @classmethod
    def from_array(cls, array: Any, *, group: Any = None, sharding: str = "blocks", placement: str = "hugepage",
                   chunk_bytes: int = _CHUNK_BYTES, node_first: bool = False, node: str = "") -> "ShardedTable":
        """Returns the rows of an array that each rank has; each rank keeps its own."""
        group = _group_of(group)
        with _new(group):
            whole = torch.as_tensor(array)
            options = _native.ShardedOptions(sharding, placement, chunk_bytes, node_first, node)
        return cls(_native.ShardedTable.from_array(group, whole, options))

    @classmethod
    def load(cls, folder: Path, *, group: Any = None, sharding: str = "blocks", placement: str = "hugepage",
             chunk_bytes: int = _CHUNK_BYTES, node_first: bool = False, node: str = "") -> "ShardedTable":
        """Returns the table of a folder that any number of ranks saved, with any sharding. Raises errors.FileError on the rank that
        cannot read it, errors.RankError on the others."""
        group = _group_of(group)
        with _new(group):
            name = os.fsencode(folder)
            options = _native.ShardedOptions(sharding, placement, chunk_bytes, node_first, node)
        return cls(_native.ShardedTable.load(group, name, options))

    @staticmethod
    def load_as_table(folder: Path, *, placement: str = "hugepage", device: torch.device | str = "cpu", file: Path | None = None,
                      shared: bool = False) -> Table:
        """Returns the table of a folder that `save` wrote, as one `Table` in this process, without a group. Options as there.
        Raises errors.FileError, errors.NpyError (a ValueError), and what `Table.empty` raises."""
        path = _absolute(file)
        native = _native.ShardedTable.load_as_table(os.fsencode(folder), placement, _device(device, placement), path or "",
                                                    shared)
        return Table(native, path=path)

    def save(self, folder: Path) -> None:
        """Writes a folder that all ranks reach: one `.npy` file per rank and `manifest.json`. It appears under its name once it is
        whole, and never replaces another. Raises errors.FileError on the rank that cannot write, errors.RankError on the others."""
        with self._batch("save"):
            name = os.fsencode(folder)
        self._native.save(name)

    def gather(self, index: Any, *, out: Tensor | None = None) -> Tensor:
        """Returns the rows of `index`, a tensor, list or array of row numbers, from all ranks: [*index, *row], on the CPU. Each
        distinct row travels once. Gradients are not recorded. Raises errors.IndexError, errors.ShapeError."""
        with self._batch("gather"):
            numbers = row_index(index, len(self))
            if out is not None:
                _check_tensor(out)
        if out is None:
            return self._native.gather(numbers)
        self._native.gather_out(numbers, out)
        return out

    def scatter(self, index: Any, values: Any, duplicates: str = "last") -> None:
        """Writes `values`, one row for each number of `index`. The result is that of `Table.scatter` with the batches of all ranks
        one after the other, in the order of ranks; `duplicates` are as there. Raises errors.DuplicateError for "reject" also if
        two ranks name a row."""
        with self._batch("scatter"):
            numbers = row_index(index, len(self))
            rows = row_values(values, self.dtype)
            policy = _native.Duplicates(duplicates)
        self._native.scatter(numbers, rows, policy)

    def step(self, optimizer: torch.optim.Optimizer, index: Any, grad: Any) -> None:
        """Sends each gradient, one row of `grad` for each number of `index`, to its row's rank, where `optimizer` steps the rows.
        The optimizer is of one parameter: `torch.nn.Parameter(table.shard.tensor)`. It gets a sparse gradient that is not
        coalesced, in the order of `scatter`. So one of speedtorch.optim steps as in one process with the batches of all ranks
        one after the other, bit for bit. Raises errors.OptimizerError for another parameter; what the optimizer raises, it
        raises on this rank alone, after the others have stepped."""
        with self._batch("step"):
            numbers = row_index(index, len(self))
            rows = row_values(grad, self.dtype).detach()
            parameter = self._stepped_by(optimizer)
        with torch.no_grad():
            named, grads = self._native.collect(numbers, rows)
            numbers = named.to(torch.int64).unsqueeze(0)
            parameter.grad = torch.sparse_coo_tensor(numbers, grads, parameter.shape, check_invariants=False)
            try:
                optimizer.step()
            finally:
                parameter.grad = None

    def _stepped_by(self, optimizer: Any) -> Tensor:
        shard = self.shard.tensor
        parameters = [parameter for group in getattr(optimizer, "param_groups", ()) for parameter in group["params"]]
        if len(parameters) == 1 and parameters[0].shape == shard.shape and parameters[0].data_ptr() == shard.data_ptr():
            return parameters[0]
        raise errors.OptimizerError("the optimizer steps other parameters than this rank's shard; "
                                    "make it over torch.nn.Parameter(table.shard.tensor)")

    def _batch(self, operation: str) -> contextlib.AbstractContextManager[None]:
        return _together(lambda why: self._native.refuse(operation, why))

    @property
    def shard(self) -> Table:
        """The rows that this rank holds, as a table on the same memory."""
        return Table(self._native.shard())

    def row_numbers(self) -> Tensor:
        """Returns the number in the whole table of each row of `shard`: int64 [rows of the shard]."""
        return self._native.row_numbers()

    @property
    def sharding(self) -> str:
        return self._native.sharding

    @property
    def last_exchange(self) -> ExchangeCounts:
        """What the last gather, scatter or step of this rank exchanged with other ranks."""
        seen = self._native.last_exchange
        return ExchangeCounts(**{name: getattr(seen, name) for name in ExchangeCounts.__dataclass_fields__})
