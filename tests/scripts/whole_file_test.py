"""scripts/lib/whole_file.py: what becomes of a file, of its mode and of the links to it."""

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "scripts" / "lib"
sys.dont_write_bytecode = True
sys.path.insert(0, str(LIBRARY))
from whole_file import write_file


class WholeFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="whole file "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "file"

    def mode(self):
        return stat.S_IMODE(self.path.stat().st_mode)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_a_new_file_has_the_mode_of_the_umask(self):
        for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
            before = os.umask(mask)
            self.addCleanup(os.umask, before)
            write_file(self.path, b"new")
            self.assertEqual((self.path.read_bytes(), self.mode()), (b"new", mode))
            self.path.unlink()

    def test_an_old_file_keeps_its_mode(self):
        for mode in (0o600, 0o640, 0o664, 0o444, 0o755):
            self.path.write_bytes(b"old")
            self.path.chmod(mode)
            write_file(self.path, b"new")
            self.assertEqual((self.path.read_bytes(), self.mode()), (b"new", mode))

    def test_an_old_file_keeps_its_owner_and_group(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        self.path.write_bytes(b"old")
        os.chown(self.path, 12345, 54321)
        write_file(self.path, b"new")
        state = self.path.stat()
        self.assertEqual((state.st_uid, state.st_gid), (12345, 54321))

    def test_links_stay(self):
        (self.folder / "inner").symlink_to("file")
        (self.folder / "outer").symlink_to(self.folder / "inner")
        for content in (b"made by a link that led nowhere", b"replaced"):
            write_file(self.folder / "outer", content)
            self.assertEqual(self.path.read_bytes(), content)
            self.assertEqual(os.readlink(self.folder / "outer"), str(self.folder / "inner"))
            self.assertEqual(os.readlink(self.folder / "inner"), "file")
        (self.folder / "loop").symlink_to("loop")
        with self.assertRaises(OSError):
            write_file(self.folder / "loop", b"new")
        self.assertTrue((self.folder / "loop").is_symlink())

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(self):
        self.path.write_bytes(b"old")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        for name in ("file", "new"):
            with self.assertRaisesRegex(OSError, "File too large"):
                write_file(self.folder / name, bytes(1 << 20))
            self.assertEqual((self.path.read_bytes(), self.names()), (b"old", ["file"]))

    def test_a_long_name_has_room_for_the_file_beside_it(self):
        write_file(self.folder / ("n" * 255), b"new")
        self.assertEqual(self.names(), ["n" * 255])

    def test_what_is_no_file_is_written_in_place(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            write_file(pipe, b"through")
            self.assertEqual(reader.communicate(timeout=60)[0], b"through")
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        program = "import sys; sys.path.insert(0, sys.argv[1]); import whole_file; whole_file.write_file('/dev/stdout', b'out')"
        with open(self.path, "wb") as file:
            subprocess.run([sys.executable, "-B", "-c", program, LIBRARY], check=True, stdout=file, timeout=60)
        self.assertEqual((self.path.read_bytes(), self.names()), (b"out", ["file", "pipe"]))
        with self.assertRaises(OSError):
            write_file(self.folder, b"a folder")


if __name__ == "__main__":
    unittest.main()
