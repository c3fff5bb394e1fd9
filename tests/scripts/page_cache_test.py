"""scripts/peers/page_cache.py on files that this process maps, and on one that the system cannot evict."""

import mmap
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/peers"))
import page_cache  # noqa: E402

PAGES = 64


class EvictTest(unittest.TestCase):
    def setUp(self):
        # Not in /tmp, which may be memory.
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "a table.bin"
        self.bytes = os.urandom(PAGES * mmap.PAGESIZE)
        with open(self.path, "wb") as file:
            file.write(self.bytes)
            os.fsync(file.fileno())

    def mapped(self, flags, protection=mmap.PROT_READ):
        with open(self.path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), 0, flags=flags, prot=protection)
        self.addCleanup(mapping.close)
        self.assertEqual(mapping[:], self.bytes)  # touches each page
        return mapping

    def mapped_kilobytes(self):
        """Of the file, in the page tables of this process."""
        total, ours = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split()[0] and ":" not in line.split()[0]:
                ours = line.endswith(str(self.path))
            elif ours and line.startswith("Rss:"):
                total += int(line.split()[1])
        return total

    def test_pages_that_this_process_maps_leave_memory(self):
        mapping = self.mapped(mmap.MAP_SHARED)
        self.assertEqual(self.mapped_kilobytes(), len(self.bytes) >> 10)
        self.assertEqual(page_cache.resident_pages(self.path), PAGES)
        page_cache.evict(self.path)
        self.assertEqual(page_cache.resident_pages(self.path), 0)
        self.assertEqual(self.mapped_kilobytes(), 0)
        self.assertEqual(mapping[:], self.bytes)

    def test_what_was_written_to_a_private_mapping_stays(self):
        mapping = self.mapped(mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        mapping[:] = bytes(len(self.bytes))
        page_cache.evict(self.path)
        self.assertEqual(mapping[:], bytes(len(self.bytes)))

    @unittest.skipUnless(os.path.isdir("/dev/shm"), "no file system in memory at /dev/shm")
    def test_pages_that_stay_are_an_error(self):
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file, mock.patch.object(page_cache, "TRIES", 2):
            file.write(self.bytes)
            file.flush()
            with self.assertRaisesRegex(OSError, f"{file.name}: 100.0% of the file's pages stay in memory"):
                page_cache.evict(file.name)


if __name__ == "__main__":
    unittest.main()
