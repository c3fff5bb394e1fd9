"""scripts/lib/memory_limit.py on made-up cgroup trees of both versions, and on this machine's where it may."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))

from memory_limit import CannotLimit, MemoryLimit, remove  # noqa: E402


class MemoryLimitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.proc, self.cgroups = Path(folder.name) / "proc", Path(folder.name) / "cgroup"

    def tree(self, membership, **files):
        """The cgroup file of this process, and files of the tree; "/" in their names is "__", "." is "_"."""
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self/cgroup").write_text(membership)
        for name, text in files.items():
            path = self.cgroups / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def limit(self, size=1 << 20):
        return MemoryLimit(size, "small", self.proc, self.cgroups)

    def test_version_1_has_a_folder_below_the_own_group(self):
        self.tree("5:devices:/\n4:memory:/job/1\n0::/\n", **{"memory__job__1__tasks": ""})
        found = self.limit()
        self.assertEqual(found.folder, self.cgroups / "memory/job/1/small")
        self.assertEqual((found.folder / "memory.limit_in_bytes").read_text(), str(1 << 20))
        found.enter()
        self.assertEqual((found.folder / "cgroup.procs").read_text(), str(os.getpid()))

    def test_version_1_with_several_controllers_in_one_tree(self):
        self.tree("4:cpu,memory:/\n", **{"memory__tasks": ""})
        self.assertEqual(self.limit().folder, self.cgroups / "memory/small")

    def test_version_2_has_a_folder_beside_the_own_group(self):
        self.tree("0::/user/session\n", **{"cgroup.controllers": "cpu memory\n", "user__cgroup.subtree_control": "cpu\n",
                                           "user__session__cgroup.procs": ""})
        found = self.limit(123)
        self.assertEqual(found.folder, self.cgroups / "user/small")
        self.assertEqual((found.folder / "memory.max").read_text(), "123")
        self.assertEqual((self.cgroups / "user/cgroup.subtree_control").read_text(), "+memory")

    def test_version_2_from_its_first_group(self):
        self.tree("0::/\n", **{"cgroup.controllers": "memory\n", "cgroup.subtree_control": "memory\n"})
        self.assertEqual(self.limit().folder, self.cgroups / "small")
        self.assertEqual((self.cgroups / "cgroup.subtree_control").read_text(), "memory\n")

    def test_without_a_memory_controller_it_says_so(self):
        self.tree("0::/\n", **{"unified__cgroup.controllers": "cpu\n"})
        with self.assertRaisesRegex(CannotLimit, "no cgroup of version 1 or 2"):
            self.limit()

    def test_a_group_that_may_not_be_made_is_named(self):
        self.tree("4:memory:/gone\n")
        with self.assertRaisesRegex(CannotLimit, "cannot be limited here: .*gone/small"):
            self.limit()

    def test_a_process_here_cannot_take_more(self):
        try:
            limit = MemoryLimit(64 << 20, f"memory-limit-test-{os.getpid()}")
        except CannotLimit as why:
            self.skipTest(str(why))
        try:
            done = subprocess.run([sys.executable, "-c", "bytearray(256 << 20)"], preexec_fn=limit.enter, check=False)
        finally:
            remove(limit.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(limit.folder.exists())


if __name__ == "__main__":
    unittest.main()
