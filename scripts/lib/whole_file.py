"""Writes the files that users ask scripts for."""

import contextlib
import os
import stat
import tempfile

# Names of files that this process has open, such as /dev/stdout.
OPENED = ("/dev/std", "/dev/fd/", "/proc/")


def write_file(path, content):
    """Writes the bytes into the file, whole or not at all. An old file keeps its mode, owner and group, and a symbolic link
    stays: the file that it points to is replaced or created. Pipes and devices are written in place. Raises OSError."""
    old = state_of(path)
    if os.path.abspath(path).startswith(OPENED) or (old and not stat.S_ISREG(old.st_mode)):
        with open(path, "wb") as file:
            file.write(content)
    else:
        replace(os.path.realpath(path), content, old)


def state_of(path):
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def replace(path, content, old):
    """Writes a file beside the path and moves it over it."""
    folder, name = os.path.split(path)
    handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{name[:60]}.new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            set_access(handle, old)
            os.fsync(handle)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def set_access(handle, old):
    """Gives a new file the mode of the umask. One that replaces another gets its mode, group and owner as far as this process
    may."""
    if not old:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        return
    mode = stat.S_IMODE(old.st_mode) & 0o777
    try:
        os.fchown(handle, -1, old.st_gid)
    except OSError:
        mode &= ~0o070  # its rights were another group's
    with contextlib.suppress(OSError):  # only root keeps another owner
        os.fchown(handle, old.st_uid, -1)
    os.fchmod(handle, mode)
