"""The hot rows of a file in a given number of bytes of memory."""

import os
from dataclasses import dataclass
from typing import Any

from speedtorch import _native
from speedtorch.table import Path, _RowsOfFile, row_index, row_values


@dataclass(frozen=True)
class RowCacheStatistics:
    """Counts since the cache was made. A look-up is one element of a gather's index."""

    hits: int
    """look-ups of rows in the cache"""
    misses: int
    """other look-ups"""
    reads: int
    """rows that gathers and prefetches read from the file, each once per batch"""
    prefetched: int
    """missed rows that a prefetch had read"""
    evictions: int
    """rows that made room for others"""
    written_back: int
    """rows that `writes="back"` has written to the file"""
    slots: int
    """the number of rows that the cache can hold"""
    bytes: int
    """the memory in use for rows and bookkeeping"""
    hit_rate: float
    """hits / (hits + misses); 0 before the first look-up"""


class RowCache(_RowsOfFile):
    """Keeps the hot rows of a file (`.npy`, or `FILE.safetensors:TENSOR`) in `cache_bytes` bytes of memory. A row of 256 B
    takes 267 bytes; in the system's page cache it takes 4 KiB. Rows that the cache lacks are read all at once, as by FileRows.
    Several
    threads may use it at once; not for use on both sides of a fork(). docs/row-cache.md describes it.

    `writes` is "none", "through" (to the file at once) or "back" (when others need the row's memory, or by flush()). A file has
    one RowCache that writes at a time. The other options are those of FileRows. Raises errors.OptionError if the bytes do not
    suffice for twelve rows, errors.FileError, errors.NpyError, errors.SafetensorsError.
    """

    def __init__(self, path: Path, cache_bytes: int, *, writes: str = "none", engine: str = "automatic", depth: int = 256,
                 copy_cached: bool = True):
        self._native = _native.RowCache(os.fspath(path), cache_bytes, writes, engine, depth, copy_cached)
        self._writes = writes

    def prefetch(self, index: Any) -> None:
        """Starts to read the rows of an index that the cache lacks, and returns. The calling thread's next gather() takes them.
        Raises errors.IndexError."""
        self._native.prefetch(row_index(index, len(self)))

    def scatter(self, index: Any, values: Any) -> None:
        """Sets the rows of an index; of a repeated row the last value stays. Raises errors.OptionError with writes="none",
        errors.IndexError, errors.ShapeError, errors.FileError."""
        self._native.scatter(row_index(index, len(self)), row_values(values, self.dtype))

    def flush(self) -> None:
        """Waits until all finished writes are on the disk. Raises errors.FileError."""
        self._native.flush()

    @property
    def statistics(self) -> RowCacheStatistics:
        """Returns the counts of the cache since it was made."""
        seen = self._native.statistics
        return RowCacheStatistics(**{name: getattr(seen, name) for name in RowCacheStatistics.__dataclass_fields__})

    @property
    def writes(self) -> str:
        """Where scatter() writes: "none", "through" or "back"."""
        return self._writes

    def __repr__(self) -> str:
        seen = self.statistics
        return (f"RowCache(shape={tuple(self.shape)}, dtype={self.dtype}, writes='{self._writes}', bytes={seen.bytes}, "
                f"hit_rate={seen.hit_rate:.3f})")
