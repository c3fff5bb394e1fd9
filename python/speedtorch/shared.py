"""One copy of a table for all processes of a node."""

from collections.abc import Sequence
from typing import Any

import torch

from speedtorch import _native
from speedtorch.table import Table, _HeldRows, row_index, row_values


class SharedTable(_HeldRows):
    """A table that one process holds under a name, and that other processes of its user and machine attach. All use the same
    memory, and `gather` is as fast as from a table of the process's own.

    The name is free once the holder's object has gone, or its process has ended, in whatever way. Processes that have attached the
    table keep it. The memory is freed with the last of them, and nothing else is left. Forked children have the table too.
    A pickled SharedTable is its name, dtype, shape and `lock_timeout`: the process that loads it attaches what is held
    under the name then, and raises errors.ShapeError if that is of another dtype or shape. copy() and deepcopy() return the
    same object, because copies refer to the same table; Table.from_array(shared.tensor) copies the rows.

    A gather takes no lock: a row that another process writes meanwhile may be a mix of old and new. If scatters run at once
    under row locks, each row gets one of the values as a whole. If a writer is killed, the row that it was writing is whole
    once its lock
    was taken again, by a scatter or by finish_rows().
    """

    def __init__(self, native, name, lock_timeout):
        self._shared = native
        self._native = native.table
        self._name = name
        self._lock_timeout = lock_timeout
        self._writable = False  # numpy(): writes by it take no locks

    @classmethod
    def hold(cls, name: str, table: Table, *, writers: str = "holder", lock_timeout: float = 10.0) -> "SharedTable":
        """Offers a table to other processes until the object goes. Fill the table first. It is `shared=True`, or "mapped".

        `writers` is "holder" (this process alone scatters) or "row_locks" (each process that attaches it writable). A
        scatter waits `lock_timeout` seconds for a row's lock. Raises errors.OptionError unless the name has 1 to 80 bytes
        without control characters, errors.NameError (a LookupError) if a process holds a table of this name,
        errors.PlacementError for memory that cannot be shared.
        """
        if not isinstance(table, Table):
            raise TypeError(f"table is {type(table).__name__}; give a speedtorch.Table")
        return cls(_native.SharedTable.hold(name, table._native, writers, lock_timeout), name, lock_timeout)

    @classmethod
    def attach(cls, name: str, *, writable: bool = False, timeout: float = 10.0, lock_timeout: float = 10.0,
               dtype: torch.dtype | None = None, shape: Sequence[int] | None = None) -> "SharedTable":
        """Returns the table that a process holds under the name. Waits `timeout` seconds at most until it is held.

        Raises errors.NameError (a LookupError) if no process of this user holds it in time, errors.SharingError (a
        ConnectionError) if its holder ends, does not answer or has another version, errors.ShapeError if it is not of
        `dtype` or `shape`, errors.AccessError (a PermissionError) for `writable` if its holder alone writes.
        """
        sizes = [] if shape is None else list(shape)
        return cls(_native.SharedTable.attach(name, writable, timeout, lock_timeout, dtype, sizes), name, lock_timeout)

    def scatter(self, index: Any, values: Any, duplicates: str = "last") -> None:
        """Sets the rows of an index as Table.scatter() does, by the table's policy. With row locks each row is locked by
        itself. Raises errors.AccessError (a PermissionError) if this process may not write, errors.SharingError if another
        process keeps a lock for longer than the time-out; part of the rows are written then."""
        self._shared.scatter(row_index(index, len(self)), row_values(values, self.dtype), duplicates)

    def finish_rows(self) -> int:
        """Finishes the rows that killed writers were writing, and returns their number."""
        return self._shared.finish_rows()

    def flush(self) -> None:
        """Waits until the writes to a "mapped" table are on the disk; does nothing for other tables."""
        self._shared.flush()

    @property
    def name(self) -> str:
        return self._name

    @property
    def writers(self) -> str:
        """Who may scatter: "holder" or "row_locks"."""
        return self._shared.writers

    @property
    def writable(self) -> bool:
        """Whether this process may scatter."""
        return self._shared.writable

    @property
    def holder(self) -> int:
        """The number of the process that held the table when it was attached. It may have ended."""
        return self._shared.holder

    def __repr__(self) -> str:
        return (f"SharedTable(name={self._name!r}, shape={tuple(self.shape)}, dtype={self.dtype}, "
                f"placement='{self.placement}', writers='{self.writers}')")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        writable = self.writers == "row_locks" and self.writable
        return _attached_again, (self._name, writable, self.dtype, tuple(self.shape), self._lock_timeout)


def _attached_again(name, writable, dtype, shape, lock_timeout):
    return SharedTable.attach(name, writable=writable, dtype=dtype, shape=shape, lock_timeout=lock_timeout)
