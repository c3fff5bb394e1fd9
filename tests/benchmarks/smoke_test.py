"""Every case of every suite, once, at the smallest sizes, checked; and its report compared. Nothing that is listed is ever
unrun. A test for each suite: one after the other they took a busy machine more than five minutes under AddressSanitizer."""

import json
import re
import shutil
import unittest

from program import HOST, ROOT, ProgramTest, options_of, read_json, run

SIZE = ("--rows", "64", "--dim", "8", *HOST)
# The memory suite holds tables and times nothing. Of the models' batches half of what fits, so that each way fits.
SMALLEST = {"memory": SIZE, "infinitybatch": ("--preset", "full", "--rows", "512", "--batch", "250", "--cores", "1",
                                              "--samples", "1", *HOST)}
METRIC = {"memory": "resident_bytes"}
SAMPLED = (("--preset", "full"), ("--rows", "64"), ("--dim", "8"), HOST, ("--batch", "16"), ("--cores", "1"), ("--samples", "1"))
GENERAL = ("--preset", "--samples")


class SmokeTest(ProgramTest):
    def check(self, suite):
        size = SMALLEST.get(suite) or [word for option, value in SAMPLED if option in GENERAL + options_of(suite)
                                       for word in (option, value)]
        planned = [line for line in run("--suite", suite, *size, "--dry-run").stdout.splitlines()
                   if not line.startswith("waived: ")]
        done = self.run_program("--suite", suite, *size, "--json", "one.json", timeout=500)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        report = read_json(self.folder / "one.json")
        run_cases = [case for case in report["cases"] if case["status"] in ("ok", "unstable")
                     and case["direction"] != "sum"]
        self.assertEqual(len(run_cases), len(planned))
        self.assertTrue(all(case["verified_rows"] > 0 and case["mismatches"] == 0 for case in run_cases))
        shutil.copy(self.folder / "one.json", self.folder / "copy.json")
        done = self.run_program("compare", "one.json", "copy.json", "--metric", METRIC.get(suite, "auto"), "--json",
                                "c.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        compared = json.loads((self.folder / "c.json").read_text(encoding="utf-8"))
        self.assertEqual(len(compared["cases"]), len(run_cases))
        self.assertEqual(compared["verdicts"]["missing"] + compared["verdicts"]["new"], 0)
        self.assertEqual(compared["verdicts"]["slower"] + compared["verdicts"]["faster"], 0)

    def test_each_suite_has_its_test_here(self):
        suites = re.findall(r"^(\w+): ", run("list").stdout, re.MULTILINE)
        self.assertEqual(sorted(suites), SUITES)


SUITES = sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/suite.cpp") if path.parent.name != "suite")
for name in SUITES:
    setattr(SmokeTest, f"test_all_of_{name}", lambda self, suite=name: self.check(suite))


if __name__ == "__main__":
    unittest.main()
