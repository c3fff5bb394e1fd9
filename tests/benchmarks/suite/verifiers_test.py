"""Every suite's verifiers look: an honest operation of each case passes, one that does nothing fails.

The suites are those that the program has. A new one is asked with `--preset quick`, unless it is listed here.
"""

import os
import subprocess
import unittest

from program import HOST, ROOT, environment

IDLE_CASES = os.environ["STBENCH_IDLE_CASES"]
# Smaller cases than those of `--preset quick`. The memory suite times nothing, so its idle operation is a method.
SMALLER = {
    "contiguous": ("--preset", "quick", "--rows", "20", "--dim", "30"),
    "embedding": ("--preset", "quick", "--text", str(ROOT / "tests/data/us-constitution.txt"), "--rows", "800", "--dim", "8", "--batch", "500"),
    "infinitybatch": ("--preset", "quick", "--rows", "8", "--batch", "16"),
    "memory": ("--rows", "100k", "--dim", "8", "--method", "idle"),
    "optimizer": ("--preset", "quick", "--rows", "3k", "--dim", "8", "--batch", "500"),
    "sharded": ("--preset", "quick", "--rows", "3k", "--dim", "8", "--batch", "500"),
    "transfer": ("--rows", "3k", "--dim", "8", "--batch", "500"),
}
# Registered by the test's program: what a suite is whose verifier does not look.
BLIND = "blind"


def idle_cases(*words):
    done = subprocess.run([IDLE_CASES, *words], capture_output=True, text=True, timeout=280, env=environment(),
                          check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines(), done.stderr


class VerifiersTest(unittest.TestCase):
    def counts(self, suite):
        """Cases, those whose honest operation passed, those whose idle operation passed, and their case IDs."""
        lines, blind = idle_cases("--suite", suite, *SMALLER.get(suite, ("--preset", "quick")), *HOST)
        name, *counts = lines[-1].split()
        self.assertEqual(name, suite)
        return [int(count) for count in counts], blind

    def test_every_verifier_rejects_an_operation_that_did_nothing(self):
        suites, _ = idle_cases()
        self.assertGreaterEqual(set(suites), {BLIND, *SMALLER})
        for suite in suites:
            if suite == BLIND:
                continue
            with self.subTest(suite=suite):
                (cases, honest, idle), blind = self.counts(suite)
                self.assertGreater(cases, 0, f"--suite {suite} plans no case that this test can ask")
                self.assertEqual(honest, cases, "the operation itself is wrong")
                self.assertEqual(idle, 0, blind)

    def test_verifier_that_does_not_look_is_found(self):
        counts, blind = self.counts(BLIND)
        self.assertEqual(counts, [1, 1, 1])
        self.assertIn("its verifier does not look: blind step", blind)


if __name__ == "__main__":
    unittest.main()
