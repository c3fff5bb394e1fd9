"""ccache shares compilations between checkouts: what one folder compiled, a second folder does not compile again."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from checkout import ROOT

SETUP = ROOT / "build/setup.cmake"
# A CUDA file for one architecture, and the cheapest batch whose headers of LibTorch use __FILE__.
OBJECTS = ("speedtorch/kernels/CMakeFiles/kernels_cuda.dir/cuda_steps.cu.o", "examples/word2vec/CMakeFiles/word2vec.dir/word2vec_light_0.cpp.o")
SCRIPT = """set -euo pipefail
ROOT=$1
. "$ROOT/scripts/lib/common.sh"
. "$ROOT/scripts/lib/build.sh"
"""
BUILD = SCRIPT + """ensure_configured release -DSTBENCH_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CUDA_ARCHITECTURES=90-virtual
ensure_built release "${@:2}"
"""


@unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
@unittest.skipUnless(SETUP.exists(), "build/setup.cmake is missing: run scripts/setup")
class SharedCompilationsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="two checkouts "))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_cached(self, script, *arguments):
        """Runs a Bash script with a cache of its own. Returns ccache's counts: hits, misses."""
        environment = {**os.environ, "CCACHE_DIR": str(self.folder / "cache")}
        environment.pop("CCACHE_DISABLE", None)
        subprocess.run(["ccache", "--zero-stats"], env=environment, check=True, capture_output=True)
        done = subprocess.run(["bash", "-c", script, "build", *arguments], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = subprocess.run(["ccache", "--print-stats"], env=environment, check=True, capture_output=True, text=True).stdout
        counts = {name: int(number) for name, number in (line.split("\t") for line in said.splitlines())}
        return counts["direct_cache_hit"] + counts["preprocessed_cache_hit"], counts["cache_miss"]

    def misses(self, checkout, objects):
        """How many of the objects were compiled rather than taken from the cache."""
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=shutil.ignore_patterns("build", ".git", "results"))
        (checkout / "build").mkdir()
        shutil.copy(SETUP, checkout / "build")
        hits, misses = self.run_cached(BUILD, checkout, *objects)
        self.assertEqual(hits + misses, len(objects))
        return misses

    def test_a_precompiled_header_is_no_hindrance(self):
        folder = Path(os.environ["STBENCH_BUILD"])
        name = "tests/speedtorch/CMakeFiles/resilience_test.dir/resilience_test_light_0.cpp.o"
        asked = subprocess.run(["ninja", "-C", folder, "-t", "commands", name], capture_output=True, text=True, check=False)
        command = (asked.stdout.splitlines() or [""])[-1]
        if "ccache" not in command or "-include" not in command:
            self.skipTest("the tests were built without batches, ccache or a precompiled header")
        command = command.replace(f" -o {name} ", f" -o '{self.folder}/object.o' ").replace(f" -MF {name}.d ", f" -MF '{self.folder}/object.d' ")
        self.assertNotIn(f"-o {name}", command)
        compile_it = SCRIPT + 'cd "$2"; with_shared_cache bash -c "$3"'
        self.assertEqual(self.run_cached(compile_it, ROOT, folder, command), (0, 1))
        self.assertEqual(self.run_cached(compile_it, ROOT, folder, command), (1, 0))

    def test_a_second_checkout_compiles_nothing_again(self):
        has_cuda = "STBENCH_CUDA [==[OFF]" not in SETUP.read_text(encoding="utf-8")
        objects = OBJECTS if has_cuda else OBJECTS[1:]
        self.assertEqual(self.misses(self.folder / "first", objects), len(objects))
        self.assertEqual(self.misses(self.folder / "a second one", objects), 0)


if __name__ == "__main__":
    unittest.main()
