"""Tables: rows of one shape and dtype, in a chosen kind of memory."""

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speedtorch import _native, errors

PLACEMENTS = tuple(_native.placements())
_OF_A_GPU = ("pinned", "device")


@dataclass(frozen=True)
class Uniform:
    """Numbers in [low, high); integers for integer dtypes. Without a seed it is drawn from torch's default generator. The
    same seed gives the same table for any placement and number of threads. Raises errors.OptionError for a seed outside of 0
    to 2**64 - 1."""

    low: float = 0.0
    high: float = 1.0
    seed: int | None = None

    def __post_init__(self):
        _check_seed(self.seed)


@dataclass(frozen=True)
class Normal:
    """Normally distributed numbers, for floating dtypes. Seeds as in Uniform."""

    mean: float = 0.0
    std: float = 1.0
    seed: int | None = None

    def __post_init__(self):
        _check_seed(self.seed)


Path = str | os.PathLike[str]
Fill = float | Uniform | Normal | Callable[[Tensor], Any] | Any


def row_index(index: Any, rows: int) -> Tensor:
    """Returns an index as a tensor that gather and scatter take: an int tensor as it is; a slice of a table with `rows` rows,
    a mask (bool), a list or an array as int64."""
    if isinstance(index, slice):
        return torch.arange(*index.indices(rows))
    if not isinstance(index, torch.Tensor):
        index = torch.as_tensor(index)
        if index.numel() == 0:
            index = index.to(torch.int64)
    if index.dtype == torch.bool:
        if index.shape != (rows,):
            raise errors.ShapeError(f"a mask of shape {tuple(index.shape)} for a table of {rows} rows; "
                                    "it needs one element per row")
        return index.nonzero().squeeze(1)
    return index


def row_values(values: Any, dtype: torch.dtype) -> Tensor:
    """Returns values for a scatter as a tensor; nested lists get the table's dtype."""
    if isinstance(values, torch.Tensor):
        return values
    return torch.as_tensor(values, dtype=None if isinstance(values, np.ndarray) else dtype)


class _NativeRows:
    """The shape and dtype of rows that the native object holds or reads."""

    _native: Any

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self._native.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self._native.dtype

    def __len__(self) -> int:
        return self._native.shape[0]


class _HeldRows(_NativeRows):
    """Rows that the native table holds in memory, to read."""

    _writable: bool

    @property
    def tensor(self) -> Tensor:
        """All rows as a tensor on the table's memory: on "cpu", or on the GPU for "pinned" and "device". If a file is
        mapped without `writable`, speedtorch refuses writes to it (errors.FileError), but torch's own end the process."""
        return self._native.tensor()

    def numpy(self) -> np.ndarray:
        """All rows as a NumPy array on the table's memory, on the host. Raises errors.PlacementError for "device", TypeError for
        a dtype that NumPy lacks (bfloat16)."""
        try:
            array = self._native.host_tensor().numpy()
        except TypeError:
            raise TypeError(f"NumPy has no {self.dtype}; take Table.tensor, or its .float() for a copy") from None
        if not self._writable:
            array.flags.writeable = False
        return array

    def gather(self, index: Any, out: Tensor | None = None, *, device: torch.device | str | None = None) -> Tensor:
        """Returns the rows of an index as a new tensor on `device` (None: the CPU), of shape [*index.shape, *shape[1:]], or
        writes them to `out` (on any device) and returns it. The index is an int tensor of any shape, a slice, a list, an array
        or a mask. Not differentiable. Raises errors.IndexError, errors.ShapeError, errors.OptionError for both `out` and
        `device`."""
        index = row_index(index, len(self))
        if out is None:
            return self._native.gather(index, torch.device(device or "cpu"))
        _check_tensor(out)
        if device is not None:
            raise errors.OptionError(f"device={device} is for a new tensor, and the rows go to `out` on {out.device}; give one of both")
        self._native.gather_out(index, out)
        return out

    def save(self, path: Path) -> None:
        """Writes a `.npy` file as `numpy.save` does, or, for `.pt` and `.pth`, a file that `torch.load` reads. It appears under
        its name once it is whole and on the disk. Raises errors.FileError."""
        path = os.fspath(path)
        if path.endswith((".pt", ".pth")):
            self._native.save_torch(path)
        else:
            self._native.save_npy(path)

    def resident_fraction(self) -> float:
        """The fraction (0 to 1) of the table's pages that are in memory."""
        return self._native.resident_fraction()

    @property
    def pages_got(self) -> str:
        """The pages that the system gave: "4KiB", "2MiB", "2MiB:87%"; empty for "device". Pages that were not yet touched have
        no kind."""
        return self._native.pages_got()

    @property
    def placement(self) -> str:
        return self._native.placement

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._native.nbytes

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        return array.astype(dtype or array.dtype) if copy or (dtype is not None and dtype != array.dtype) else array

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Table(_HeldRows):
    """A table in one placement. Make one with `empty`, `filled`, `from_array` or `from_file`.

    These take `placement`, `device`, `file` and `shared`:

    - `placement`: "libtorch" (a tensor as torch allocates it), "pageable" (4 KiB pages), "hugepage" (2 MiB pages, where the
      system has them), "mapped" (a file), "pinned" (host memory that a GPU reads and writes in place), "device" (the GPU's).
    - `device`: the GPU of a "pinned" or "device" table; "cpu" means the current one. errors.PlacementError for a GPU and
      another placement.
    - `file`: the new `.npy` file of a "mapped" table; it must not exist. Without it the file has no name and goes with the table.
    - `shared`: "pageable" and "hugepage" tables lie in memory that SharedTable.hold() can hand to other processes.

    Rows are read and written by number with `gather` and `scatter`. `tensor` and `numpy()` are views of the same memory, and
    keep it alive. They raise errors.MemoryError if the memory is not available, errors.PlacementError without the GPU that
    is needed, errors.FileError (an OSError) for files.
    """

    def __init__(self, native, *, path=None, writable=True):
        self._native = native
        self._path = path  # of a named mapped file: pickled by name
        self._writable = writable

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: torch.dtype = torch.float32, *, placement: str = "hugepage",
              device: torch.device | str = "cpu", file: Path | None = None, shared: bool = False) -> "Table":
        """Returns a table of `shape` ([rows, *row]) with unspecified contents; a named file has zeros."""
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype is {dtype!r}; give a torch.dtype, such as torch.float32")
        path = _absolute(file)
        return cls(_native.Table.empty(list(shape), dtype, placement, _device(device, placement), path or "", shared), path=path)

    @classmethod
    def filled(cls, shape: Sequence[int], fill: Fill = 0, dtype: torch.dtype = torch.float32, *, placement: str = "hugepage",
               device: torch.device | str = "cpu", file: Path | None = None, shared: bool = False) -> "Table":
        """Returns a new table, filled as by fill()."""
        table = cls.empty(shape, dtype, placement=placement, device=device, file=file, shared=shared)
        try:
            return table.fill(fill)
        except BaseException:
            if file is not None:
                os.unlink(file)
            raise

    @classmethod
    def from_array(cls, array: Any, *, placement: str = "hugepage", device: torch.device | str = "cpu",
                   file: Path | None = None, shared: bool = False) -> "Table":
        """Returns a copy of a tensor, a NumPy array or anything that `torch.as_tensor` takes."""
        path = _absolute(file)
        return cls(_native.Table.from_array(torch.as_tensor(array), placement, _device(device, placement), path or "", shared), path=path)

    @classmethod
    def from_file(cls, path: Path, *, placement: str = "hugepage", device: torch.device | str = "cpu",
                  file: Path | None = None, shared: bool = False, writable: bool = False) -> "Table":
        """Returns the array of a `.npy` file, a tensor of a safetensors file (`"model.safetensors:embed.weight"`), or the tensor
        of a file of `torch.save` (`.pt`, `.pth`).

        "mapped" maps a `.npy` or safetensors file itself: nothing is read before its rows are used, and with `writable` writes
        go to the file. With `file` it makes a mapped copy instead. Raises errors.NpyError or errors.SafetensorsError (both are
        ValueErrors), errors.FileError, or errors.OptionError for `writable` with a table that is a copy.
        """
        source, new, on = _source(path), _absolute(file), _device(device, placement)
        of_torch = source.endswith((".pt", ".pth")) and ".safetensors:" not in source
        maps = placement == "mapped" and new is None and not of_torch
        if writable and not maps:
            raise errors.OptionError(
                "writable=True lets writes go to a file that is mapped itself; this table is a copy, which is writable anyway"
            )
        if of_torch:
            return cls(_native.Table.from_torch(source, placement, on, new or "", shared), path=new)
        native = _native.Table.from_file(source, placement, on, new or "", shared, writable)
        return cls(native, path=source if maps else new, writable=writable or not maps)

    def scatter(self, index: Any, values: Any, duplicates: str = "last") -> None:
        """Sets the rows of an index to `values`, of shape [*index.shape, *shape[1:]]: a tensor on any device or an array, of the
        table's dtype, or nested lists of numbers. `duplicates` as in speedtorch.scatter_rows(). Raises errors.IndexError,
        errors.ShapeError."""
        self._native.scatter(row_index(index, len(self)), row_values(values, self.dtype), duplicates)

    def fill(self, fill: Fill) -> "Table":
        """Sets all elements and returns the table. `fill` is a number, Uniform(), Normal(), another array of the same shape and
        dtype, or a function that gets the whole tensor and sets it in place (`torch.nn.init.xavier_uniform_`). Raises TypeError
        for a class, and for a function that returns other memory instead."""
        self._native.require_writable()
        if isinstance(fill, type):
            raise TypeError(f"the fill is the class {fill.__name__}; give an instance of Uniform or Normal, such as Normal()")
        if isinstance(fill, Uniform):
            self._native.fill_uniform(fill.low, fill.high, fill.seed)
        elif isinstance(fill, Normal):
            self._native.fill_normal(fill.mean, fill.std, fill.seed)
        elif callable(fill):
            with torch.no_grad():
                self._native.fill_by(lambda tensor: _check_in_place(tensor, fill(tensor)))
        elif isinstance(fill, (int, float, complex)):
            if fill == 0:
                self._native.fill_zeros()
            else:
                self.tensor.fill_(fill)
        else:
            self._native.set(torch.as_tensor(fill))
        return self

    def load(self, path: Path) -> None:
        """Reads the array of a `.npy` file, or a tensor of a safetensors file, of the same shape and dtype into the table."""
        self._native.load(os.fspath(path))

    def flush(self) -> None:
        """Waits until the file of a named mapped table is on the disk; does nothing for other tables."""
        self._native.flush()

    @property
    def device(self) -> torch.device:
        """The device of `tensor`."""
        return self._native.device

    @property
    def file(self) -> str | None:
        """The path of a named mapped table, else None."""
        return self._path

    def __repr__(self) -> str:
        where = f", device='{self.device}'" if self.device.type != "cpu" else ""
        file = f", file='{os.path.basename(self._path)}'" if self._path else ""
        return f"Table(shape={tuple(self.shape)}, dtype={self.dtype}, placement='{self.placement}'{where}{file})"

    def __deepcopy__(self, memo):
        """Returns a table with its own memory. The copy of a named mapped table is in a file without a name."""
        copy = memo[id(self)] = Table.from_array(self.tensor, placement=self.placement, device=self.device)
        return copy

    def __reduce__(self):
        if self._path is not None:
            return _mapped_again, (self._path, self._writable)
        return _copied_again, (self._native.host_copy(), self.placement, str(self.device))


class _RowsOfFile(_NativeRows):
    """What gathers rows of a file."""

    def gather(self, index: Any, out: Tensor | None = None) -> Tensor:
        """Returns the rows of an index, of shape [*index.shape, *shape[1:]], or writes them to `out`, [n, *shape[1:]], and
        returns it. Indices as in Table.gather(). Raises errors.IndexError, errors.FileError."""
        index = row_index(index, len(self))
        if out is None:
            return self._native.gather(index)
        _check_tensor(out)
        self._native.gather_out(index, out)
        return out


class FileRows(_RowsOfFile):
    """Reads rows of a `.npy` file, or of a tensor of a safetensors file (`"model.safetensors:embed.weight"`), that may be larger
    than memory. A mapped table reads cold rows one at a time; this sorts the rows of a batch, reads each once and keeps many
    reads in flight (docs/cold-reads.md). One thread at a time; not for use on both sides of a fork().

    `engine` is "automatic", "io_uring" or "advice"; `depth` the most reads in flight; without `copy_cached`, rows that are in
    memory are read too. Raises errors.FileError, errors.NpyError, errors.SafetensorsError.
    """

    def __init__(self, path: Path, *, engine: str = "automatic", depth: int = 256, copy_cached: bool = True):
        self._native = _native.FileRows(os.fspath(path), engine, depth, copy_cached)

    @property
    def engine(self) -> str:
        """The engine in use: "io_uring" or "advice"."""
        return self._native.engine

    def __repr__(self) -> str:
        return f"FileRows(shape={tuple(self.shape)}, dtype={self.dtype}, engine='{self.engine}')"


def _check_tensor(out):
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"out is a {type(out).__name__}; a torch.Tensor is needed")


def _check_seed(seed):
    if seed is None:
        return
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed is {seed!r}; an int or None is needed")
    if not 0 <= operator.index(seed) < 1 << 64:
        raise errors.OptionError(f"seed is {seed}; a seed is an integer from 0 to 2**64 - 1")


def _device(device, placement):
    """Returns torch's device. Raises errors.PlacementError for a GPU and a placement of the host."""
    device = torch.device(device)
    if device.type != "cpu" and placement in PLACEMENTS and placement not in _OF_A_GPU:
        raise errors.PlacementError(f"device is {device}, and a {placement} table has none; choose the placement pinned or device")
    return device


def _check_in_place(tensor, result):
    """Raises TypeError if a fill function returned an array that is not on the memory of the tensor that it got."""
    if isinstance(result, np.ndarray):
        elsewhere = not tensor.is_cpu or not np.may_share_memory(tensor.view(-1).view(torch.uint8).numpy(), result)
    else:
        elsewhere = isinstance(result, torch.Tensor) and (
            result.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr())
    if elsewhere:
        raise TypeError(f"the fill function returned another {type(result).__name__}; it must set the tensor that it gets, in place")


def _absolute(path):
    return None if path is None else os.path.abspath(os.fspath(path))


def _source(path):
    """An absolute path. A tensor's name behind it is not changed, even with `//` or `..` in it."""
    return os.path.join(os.getcwd(), os.fspath(path))


def _mapped_again(path, writable):
    return Table.from_file(path, placement="mapped", writable=writable)


def _copied_again(rows, placement, device):
    return Table.from_array(rows, placement=placement, device=device)


def _from_bytes(content, shape, dtype, placement, device):
    rows = torch.from_numpy(content).view(dtype).view(shape)
    return Table.from_array(rows, placement=placement, device=device)


def _reduce_for_process(table):
    """Pickles a table for another process. A tensor would go by the descriptor of its shared memory, which closes with the
    temporary copy before a spawned process opens it; so the rows go as bytes."""
    if table.file is not None:
        return table.__reduce__()
    content = table._native.host_copy().view(-1).view(torch.uint8).numpy()
    return _from_bytes, (content, tuple(table.shape), table.dtype, table.placement, str(table.device))


ForkingPickler.register(Table, _reduce_for_process)
