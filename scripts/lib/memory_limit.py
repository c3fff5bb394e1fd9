"""Cgroups that limit the memory of a process, of version 1 or 2, for the scripts that measure with little memory. They need root
or a delegated group."""

import os
import time
from pathlib import Path


class CannotLimit(Exception):
    """The text says why, in one line."""


class MemoryLimit:
    """A new cgroup whose processes may take `size` bytes of memory, pages of files included, and no swap."""

    def __init__(self, size, name, proc=Path("/proc"), cgroups=Path("/sys/fs/cgroup")):
        groups = [line.split(":", 2)[1:] for line in (proc / "self/cgroup").read_text().splitlines()]
        first = next((path for kinds, path in groups if "memory" in kinds.split(",")), None)
        try:
            if first is not None:
                self._of_version_1(size, cgroups / "memory" / first.lstrip("/") / name)
            else:
                self._of_version_2(size, name, cgroups, dict(groups).get("", "/"))
        except OSError as error:
            raise CannotLimit(f"the memory of a process cannot be limited here: {error}") from error

    def _of_version_1(self, size, folder):
        self._make(folder)
        (folder / "memory.limit_in_bytes").write_text(str(size))
        swap = folder / "memory.memsw.limit_in_bytes"  # absent if swap is not counted
        if swap.exists():
            swap.write_text(str(size))

    def _of_version_2(self, size, name, cgroups, own):
        """Beside this process's group, because a group with processes has no groups that limit memory, but for the first."""
        mounts = [folder for folder in (cgroups, cgroups / "unified") if (folder / "cgroup.controllers").exists()]
        if not mounts or "memory" not in (mounts[0] / "cgroup.controllers").read_text().split():
            raise CannotLimit("no cgroup of version 1 or 2 limits memory here")
        parent = mounts[0] / own.lstrip("/")
        parent = parent.parent if parent != mounts[0] else parent
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            (parent / "cgroup.subtree_control").write_text("+memory")
        self._make(parent / name)
        (self.folder / "memory.max").write_text(str(size))
        swap = self.folder / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")

    def _make(self, folder):
        folder.mkdir()
        self.folder = folder

    def enter(self):
        """Moves this process into the group."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def remove(folder):
    """Removes a group whose processes are about to end. Raises CannotLimit if they do not."""
    for _ in range(100):
        try:
            return Path(folder).rmdir()
        except OSError:
            time.sleep(0.05)
    raise CannotLimit(f"the cgroup {Path(folder).name} cannot be removed")
