"""A run with --time-budget ends in time and says what it cut: rounds first, then cells."""

import time
import unittest

from program import HOST, PLANTED, ProgramTest, read_json

CELLS = ("--suite", "transfer", *HOST, "--rows", "20k", "--batch", "5k", "--cores", "1", "--placement", "libtorch,hugepage")


class TimeBudgetTest(ProgramTest):
    def run_within(self, budget_s, *arguments, **options):
        """The report of the run, its time and the finished process."""
        begin = time.monotonic()
        done = self.run_program(*arguments, "--time-budget", f"{budget_s}s", "--json", "r.json", **options)
        taken = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_json(self.folder / "r.json"), taken, done

    def test_enough_time_cuts_nothing(self):
        report, _, _ = self.run_within(500, *CELLS, "--direction", "to", "--method", "copy,index_select,speedtorch")
        self.assertEqual(report["warnings"], [])
        self.assertTrue(all(case["samples"] >= 6 for case in report["cases"]))

    def test_what_is_cut_is_said(self):
        many = (*CELLS, "--row-bytes", "64:4Ki:x2", "--index-dtype", "int64,int32", "--distribution", "unique,uniform")
        report, taken, done = self.run_within(8, *many)
        self.assertLess(taken, 8 + 20)  # a loaded machine starts and ends late; the whole plan takes minutes
        left_out = [case for case in report["cases"] if "time budget of 8 s ended first" in (case["reason"] or "")]
        measured = [case for case in report["cases"] if case["median_s"] and case["direction"] != "sum"]
        self.assertTrue(left_out and measured)
        self.assertEqual({case["status"] for case in left_out}, {"waived"})
        self.assertTrue(all(case["samples"] >= 6 for case in measured))
        planned = self.run_program(*many, "--dry-run").stdout.splitlines()
        cases = [case for case in report["cases"] if case["direction"] != "sum"]
        self.assertEqual(len(cases), len(planned), "each case has its row")
        warnings = " ".join(report["warnings"])
        self.assertIn("--time-budget 8 s: at most ", warnings)
        self.assertIn("so cells may have fewer rounds", warnings)
        self.assertIn("--time-budget 8 s: not measured: ", warnings)
        self.assertIn("Not measured here:", done.stdout)
        self.assertIn("the time budget of 8 s ended first; a larger --time-budget measures it", " ".join(done.stdout.split()))

    def test_a_case_that_hangs_is_left_out_in_time(self):
        report, taken, done = self.run_within(6, *CELLS, "--direction", "to", "--method", "copy,hangs", program=PLANTED)
        self.assertLess(taken, 6 + 20)
        self.assertEqual({case["status"] for case in report["cases"]}, {"waived"})
        self.assertEqual({case["method"] for case in report["cases"]}, {"copy", "hangs"})
        self.assertIn("not measured: to float32 20k×128, 1 core", " ".join(report["warnings"]))
        self.assertIn("not measured: to float32 20k×128, 1 core", " ".join(done.stdout.split()))

    def test_exclusive_and_impossible_budgets_are_refused(self):
        for words, why in ((("--samples", "3", "--time-budget", "9"), "exclude each other"),
                           (("--time-budget", "0"), "use a time above 0"), (("--time-budget", "soon"), "is no time")):
            done = self.run_program(*CELLS, *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
