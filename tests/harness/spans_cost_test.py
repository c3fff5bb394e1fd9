"""Spans that nobody looks at cost nothing: callgrind counts as many instructions a sample as without them in the source."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

WITH = os.environ.get("STBENCH_ROUNDS", "")
WITHOUT = os.environ.get("STBENCH_ROUNDS_WITHOUT", "")
FEW, MANY = 200, 600  # what is the same in two runs, such as the beginning, cancels


def instructions(program, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--zero-before=measured",
             "--dump-after=measured", program, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"valgrind ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return int(re.search(r"^totals: (\d+)$", Path(f"{folder}/out.1").read_text(encoding="utf-8"), re.MULTILINE)[1])


def of_samples(program, *arguments):
    return instructions(program, MANY, *arguments) - instructions(program, FEW, *arguments)


class SpansCostTest(unittest.TestCase):
    def test_nothing_that_callgrind_sees_without_a_trace(self):
        if not WITH:
            self.skipTest("STBENCH_ROUNDS names no program; CTest sets it")
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind on this machine (Debian: valgrind)")
        without = of_samples(WITHOUT)
        self.assertGreater(without, 1000 * (MANY - FEW) / 10)
        self.assertEqual(of_samples(WITH), without)
        self.assertGreater(of_samples(WITH, "traced"), without)


if __name__ == "__main__":
    unittest.main()
