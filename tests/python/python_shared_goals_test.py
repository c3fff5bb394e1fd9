"""scripts/shared-table: on a small table there is a ratio and a size, and the verdict follows from made-up ratios."""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/shared-table"


def load():
    loader = importlib.machinery.SourceFileLoader("shared_table_goals", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("shared_table_goals", loader))
    sys.modules["shared_table_goals"] = module
    loader.exec_module(module)
    return module


goals = load()


class SharedGoalsTest(unittest.TestCase):
    def told(self, *words):
        """Exit status and output."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = goals.main(list(words))
        return status, out.getvalue()

    def judged(self, *ratios, what="gather"):
        with mock.patch.object(goals, f"{what}_ratio", side_effect=ratios):
            return self.told(what, "--starts", str(len(ratios)))

    def test_both_goals_are_measured(self):
        # The processes' shares of LibTorch's pages change by tens of MB when another process loads it. The table has 205 MB.
        with mock.patch.multiple(goals, ROWS=5000, BATCH=200, ROUNDS=3, LARGE_ROWS=400_000):
            self.assertGreater(goals.gather_ratio(0), 0)
            self.assertGreater(goals.memory_ratio(), 0)

    def test_the_verdict_follows_from_the_ratios(self):
        status, table = self.judged(1.1, 1.12, 1.09, 1.11, 1.1)
        self.assertEqual(status, 0)
        self.assertRegex(table, r"5 starts +0\.95 +1 +1\.10 +1\.09–1\.12 +met: aim met\n$")
        status, table = self.judged(0.9, 0.91, 0.92, 0.9, 0.9)
        self.assertEqual((status, table.split()[-1]), (1, "missed"))
        self.assertEqual(self.judged(0.7, 0.91, 1.2, 0.9, 1.0)[1].split()[-1], "open")
        self.assertRegex(self.judged(1.1, 1.1, 1.1, 1.1)[1], r"too few\n +1 more process is needed\n$")

    def test_memory_has_a_verdict_and_its_four_digits(self):
        status, table = self.judged(1 / 1.001, 1 / 1.002, 1 / 1.001, 1 / 1.002, 1 / 1.0015, what="memory")
        self.assertEqual(status, 0)
        self.assertRegex(table, r"met: aim met\nmemory: summed PSS / one table of 2\.05 GB: 1\.0015 \(1\.0009–1\.0021\)\n$")
        self.assertEqual(self.judged(*[1 / 1.03] * 5, what="memory")[0], 1)
        self.assertRegex(self.judged(1 / 1.002, what="memory")[1], r"needed\nmemory: .* GB: 1\.0020\n$")


if __name__ == "__main__":
    unittest.main()
