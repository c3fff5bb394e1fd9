"""Taking a file's pages out of memory."""

import ctypes
import mmap
import os
import time

TRIES = 100
FEW = 0.001  # of a file's pages may stay: those just read by others


def evict(path):
    """Takes the file's pages out of memory, and makes sure of it.

    The system keeps pages that a process maps, so this process's page tables forget them first: they are found in the file
    again when they are touched. Without that, 4.9 of 5.1 GB stayed in memory once RowCache had read them.

    @raises OSError: if pages stay, as of a file in memory, or those that another process maps
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return
        pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
        at = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(),
                                       ctypes.c_long(0)))
        if at.value == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), f"{path} cannot be mapped")
        try:
            for _ in range(TRIES):
                for begin, end in mappings_of(path):
                    libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                if libc.mincore(at, ctypes.c_size_t(size), pages) != 0:
                    raise OSError(ctypes.get_errno(), f"mincore failed for {path}")
                resident = sum(bytes(pages)) / len(pages)
                if resident < FEW:
                    return
                time.sleep(0.05)
        finally:
            libc.munmap(at, ctypes.c_size_t(size))
    raise OSError(f"{path}: {resident:.1%} of the file's pages stay in memory")


def mappings_of(path):
    """Where this process maps the file, shared: what is private would lose what was written to it."""
    path = os.path.realpath(path)
    with open("/proc/self/maps", encoding="utf-8") as lines:
        fields = [line.split(maxsplit=5) for line in lines]
    return [tuple(int(end, 16) for end in one[0].split("-"))
            for one in fields if len(one) == 6 and one[1][3] == "s" and one[5].rstrip("\n") == path]
