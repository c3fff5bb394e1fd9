"""Every case of every suite, once, at the smallest sizes, checked; and two such reports compared. Nothing that is listed is
ever unrun. No verdict on times fails this: they are of one sample each."""

import json
import re
import unittest

from program import HOST, ProgramTest, read_json, run

SIZE = ("--rows", "64", "--dim", "8", *HOST)
# The memory suite holds tables and times nothing. Of the models' batches half of what fits, so that each way fits.
SMALLEST = {"memory": SIZE, "infinitybatch": ("--preset", "full", "--rows", "1k", "--batch", "500", "--cores", "1",
                                              "--samples", "1", *HOST)}
METRIC = {"memory": "resident_bytes"}
SAMPLED = ("--preset", "full", *SIZE, "--batch", "16", "--cores", "1", "--samples", "1")


class SmokeTest(ProgramTest):
    def test_every_case_of_every_suite_runs_and_is_compared(self):
        suites = re.findall(r"^(\w+): ", run("list").stdout, re.MULTILINE)
        self.assertIn("transfer", suites)
        for suite in suites:
            size = SMALLEST.get(suite, SAMPLED)
            with self.subTest(suite):
                planned = [line for line in run("--suite", suite, *size, "--dry-run").stdout.splitlines()
                           if not line.startswith("waived: ")]
                for name in ("one.json", "two.json"):
                    done = self.run_program("--suite", suite, *size, "--json", name, timeout=240)
                    self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                report = read_json(self.folder / "one.json")
                run_cases = [case for case in report["cases"] if case["status"] in ("ok", "unstable")
                             and case["direction"] != "sum"]
                self.assertEqual(len(run_cases), len(planned))
                self.assertTrue(all(case["verified_rows"] > 0 and case["mismatches"] == 0 for case in run_cases))
                done = self.run_program("compare", "one.json", "two.json", "--metric", METRIC.get(suite, "auto"), "--json",
                                        "c.json")
                self.assertIn(done.returncode, (0, 1), done.stderr)
                compared = json.loads((self.folder / "c.json").read_text(encoding="utf-8"))
                self.assertEqual(len(compared["cases"]), len(run_cases))
                self.assertEqual(compared["verdicts"]["missing"] + compared["verdicts"]["new"], 0)


if __name__ == "__main__":
    unittest.main()
