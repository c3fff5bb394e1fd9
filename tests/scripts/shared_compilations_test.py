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
BUILD = """set -euo pipefail
ROOT=$1
. "$ROOT/scripts/lib/common.sh"
. "$ROOT/scripts/lib/build.sh"
ensure_configured release -DSTBENCH_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CUDA_ARCHITECTURES=90-virtual
ensure_built release "${@:2}"
"""


@unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
@unittest.skipUnless(SETUP.exists(), "build/setup.cmake is missing: run scripts/setup")
class SharedCompilationsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="two checkouts "))
        self.addCleanup(shutil.rmtree, self.folder)

    def misses(self, checkout, objects):
        """How many of the objects were compiled rather than taken from the cache."""
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=shutil.ignore_patterns("build", ".git", "results"))
        (checkout / "build").mkdir()
        shutil.copy(SETUP, checkout / "build")
        environment = {**os.environ, "CCACHE_DIR": str(self.folder / "cache")}
        environment.pop("CCACHE_DISABLE", None)
        subprocess.run(["ccache", "--zero-stats"], env=environment, check=True, capture_output=True)
        done = subprocess.run(["bash", "-c", BUILD, "build", checkout, *objects], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = subprocess.run(["ccache", "--print-stats"], env=environment, check=True, capture_output=True, text=True).stdout
        counts = dict(line.split("\t") for line in said.splitlines())
        self.assertEqual(int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"]) + int(counts["cache_miss"]),
                         len(objects), said)
        return int(counts["cache_miss"])

    def test_a_second_checkout_compiles_nothing_again(self):
        has_cuda = "STBENCH_CUDA [==[OFF]" not in SETUP.read_text(encoding="utf-8")
        objects = OBJECTS if has_cuda else OBJECTS[1:]
        self.assertEqual(self.misses(self.folder / "first", objects), len(objects))
        self.assertEqual(self.misses(self.folder / "a second one", objects), 0)


if __name__ == "__main__":
    unittest.main()
