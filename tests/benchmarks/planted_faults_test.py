"""Every planted fault is caught: a wrong result has a reason and no number, and its neighbours keep theirs."""

import time
import unittest

from program import FIGURES, HOST, MEASURED, PLANTED, ProgramTest, cell

# Of these no check of another method sees anything: they stay inside their rows.
FAULTS = ["nothing", "last_row_skipped", "half_done", "off_by_one", "two_rows_swapped", "too_narrow", "stale_buffer"]
HONEST = ["speedtorch", "index_select", "advanced", "copy", "stream", "plain_loop"]
TABLE = ("--suite", "transfer", "--rows", "3k", "--batch", "500", "--cores", "1", "--placement", "pageable", *HOST)


class PlantedFaultsTest(ProgramTest):
    def planted(self, methods, *arguments, status, table=TABLE, samples=3):
        """The cases of a run by the program with faults, and of the same run the CSV's rows."""
        report, rows, done = self.measure(*table, "--method", ",".join(methods), "--samples", samples, *arguments,
                                          program=PLANTED, status=status)
        self.assertEqual([case["status"] for case in report["cases"]], [row["status"] for row in rows])
        for case, row in zip(report["cases"], rows):
            self.check_numbers(case, row)
        return report["cases"], done

    def check_numbers(self, case, row):
        """Numbers where the result was right, and nowhere else."""
        if case["status"] in MEASURED:
            self.assertEqual(case["mismatches"], 0, case)
            self.assertGreater(case["median_s"], 0, case)
            self.assertGreater(float(row["median_s"]), 0)
            return
        self.assertEqual([case[name] for name in FIGURES], [None] * len(FIGURES), case)
        self.assertEqual([row[name] for name in FIGURES], [""] * len(FIGURES), row)
        self.assertEqual((case["samples"], case["samples_s"], row["samples"]), (0, [], "0"), case)
        self.assertNotEqual(case["reason"], "", case)
        self.assertEqual(case["mismatches"] > 0, case["status"] == "wrong", case)

    def check_caught(self, cases, faults):
        for case in cases:
            with self.subTest(**{name: case[name] for name in ("direction", "method", "dtype", "dim", "index_dtype")}):
                caught = case["status"] == "wrong"
                self.assertEqual(caught, case["method"] in faults, case)

    def test_each_fault_is_caught_in_each_direction_dtype_and_width(self):
        faults = [*FAULTS, "column_shift"]
        cases, done = self.planted([*HONEST, *faults], "--dtype", "float32,int8", "--dim", "3,129", "--index-dtype",
                                   "int64,int32", status=1)
        self.check_caught([case for case in cases if case["status"] != "waived"], faults)
        for direction in ("to", "from", "sum", "round_trip"):
            seen = {case["method"] for case in cases if case["direction"] == direction}
            self.assertGreaterEqual(seen, {*faults, *HONEST})
        self.assertIn("WRONG: ", done.stdout)

    def test_new_methods_get_their_ratios_by_their_role(self):
        cases, _ = self.planted(["speedtorch", "new_libtorch", "new_ceiling"], "--direction", "to,from", status=0)
        self.assertEqual(len(cases), 6)
        for case in cases:
            others = {other["method"]: other for other in cases if other["direction"] == case["direction"]}
            self.assertEqual(case["role"], {"speedtorch": "ours", "new_libtorch": "libtorch", "new_ceiling": "ceiling"}[case["method"]])
            self.assertAlmostEqual(case["speedup"], others["new_libtorch"]["median_s"] / case["median_s"])
            self.assertAlmostEqual(case["copy_fraction"], others["new_ceiling"]["median_s"] / case["median_s"])

    def test_each_fault_is_caught_in_rows_of_one_byte(self):
        cases, _ = self.planted([*HONEST, *FAULTS], "--row-bytes", "1", status=1)
        self.check_caught(cases, FAULTS)

    def test_each_fault_is_caught_if_every_sample_is_checked(self):
        # A table much larger than the eight sets: a row left out of one set is then hardly ever written by another
        # in the same sample, which would repair it.
        table = ("--suite", "transfer", "--rows", "500k", "--batch", "500", "--cores", "1", "--placement", "pageable",
                 *HOST)
        faults = [*FAULTS, "now_and_then"]
        cases, _ = self.planted([*HONEST, *faults], "--verify", "every", "--direction", "to,from,round_trip",
                                "--dtype", "float32,int8", "--dim", "5", status=1, table=table, samples=9)
        self.check_caught(cases, faults)

    def test_answers_of_earlier_samples_are_caught(self):
        # Twenty samples use each of the eight index sets again. The runs that are checked whole have nothing to
        # compare a replay with, so without checked samples it passes.
        methods = [*HONEST, "replays", "captures"]
        cases, _ = self.planted(methods, "--direction", "to,from,round_trip,consume", samples=20, status=1)
        self.check_caught(cases, ["replays", "captures"])
        self.assertEqual({case["direction"] for case in cases if case["method"] == "replays"},
                         {"to", "from", "round_trip", "consume"})
        reason = next(case["reason"] for case in cases if case["method"] == "replays" and case["direction"] == "to")
        self.assertIn("after a sample", reason)
        unchecked, _ = self.planted(methods, "--direction", "to", "--verify", "first", samples=20, status=0)
        self.check_caught(unchecked, [])

    def test_answers_of_earlier_samples_of_several_callers_are_caught(self):
        cases, _ = self.planted([*HONEST, "captures"], "--direction", "to", "--callers", "2", samples=20, status=1)
        self.check_caught(cases, ["captures"])

    def test_faults_of_concurrency_are_caught(self):
        # A buffer that all share is right for one; of two, one finds the other's rows.
        for callers, faults in ((1, []), (2, ["shared_buffer", "every_second_caller"]), (3, ["shared_buffer"])):
            methods = [*HONEST, "shared_buffer", *([] if callers == 1 else ["every_second_caller"])]
            cases, _ = self.planted(methods, "--callers", callers, "--dim", "3", status=int(callers > 1))
            self.assertEqual({case["callers"] for case in cases}, {callers})
            self.check_caught(cases, [*faults, *(["every_second_caller"] if callers == 3 else [])])

    def test_each_fault_of_concurrent_callers_is_caught(self):
        # stale_buffer keeps its rows in one place without a lock: two threads must not call it.
        faults = [fault for fault in FAULTS if fault != "stale_buffer"]
        cases, _ = self.planted([*HONEST, *faults], "--callers", "2", "--verify", "every", status=1)
        self.check_caught(cases, faults)
        reasons = {case["reason"] for case in cases if case["method"] == "nothing" and case["direction"] == "to"}
        self.assertRegex(reasons.pop(), "^1000 of 1000 rows differ: caller 0: ")

    def test_error_of_a_caller_is_a_failed_case(self):
        cases, _ = self.planted([*HONEST, "throws"], "--callers", "3", status=2)
        for case in cases:
            self.assertEqual(case["status"] == "failed", case["method"] == "throws", case)

    def test_result_of_another_size_fails(self):
        cases, _ = self.planted(["speedtorch", "short_result"], "--direction", "to", status=1)
        self.check_caught(cases, ["short_result"])
        reason = next(case["reason"] for case in cases if case["method"] == "short_result")
        self.assertIn("255488 bytes instead of 500 rows of 512", reason)

    def test_late_result_fails(self):
        # Alone: when the work is done at last, it is done in the midst of the next method's.
        cases, _ = self.planted(["missing_synchronise"], "--direction", "to,from,round_trip", status=1)
        self.assertEqual([case["status"] for case in cases], ["wrong"] * 3)

    def test_too_wide_rows_fail(self):
        cases, _ = self.planted([*HONEST, "too_wide"], "--dtype", "float32,int8", "--dim", "3", status=1)
        self.check_caught(cases, ["too_wide"])

    def in_two_placements(self, fault, *arguments):
        """The fault strikes in one of them; the other's cells stay clean, and so do the next ones."""
        cases, _ = self.planted([*HONEST, fault], "--placement", "pageable,libtorch", *arguments, status=1,
                                table=("--suite", "transfer", "--batch", "500", "--cores", "1", *HOST))
        damaged = {cell(case) for case in cases if case["method"] == fault}
        self.assertEqual(len(damaged), 1)
        self.check_caught([case for case in cases if cell(case) not in damaged], [])
        return [case for case in cases if cell(case) in damaged]

    def test_out_of_bounds_write_fails_that_case(self):
        cases = self.in_two_placements("stray_write", "--direction", "from,round_trip", "--rows", "20k")
        self.check_caught(cases, ["stray_write"])
        reason = next(case["reason"] for case in cases if case["method"] == "stray_write")
        self.assertIn("rows of the table that were not named", reason)

    def check_condemned(self, cases):
        """It is not known whose it was, so none of the cell has a number."""
        self.assertEqual(len(cases), len(HONEST) + 1)
        self.assertEqual({case["status"] for case in cases}, {"wrong"})
        for case in cases:
            self.assertIn("a case of this cell damaged the table", case["reason"])

    def test_case_that_detects_the_damage_of_another_is_not_blamed_alone(self):
        # In the last checks an honest method is the first to see it.
        self.check_condemned(self.in_two_placements("stray_in_a_sample", "--direction", "from", "--rows", "20k"))

    def test_distant_write_fails_its_cell_in_the_check_of_the_whole_table(self):
        # Of a million rows each check looks at some; the row in question is none of them.
        self.check_condemned(self.in_two_placements("stray_write", "--direction", "from,round_trip", "--rows", "1M",
                                                    "--row-bytes", "2"))

    def test_distant_write_to_a_large_table_fails_all_users_at_the_end(self):
        # Above 1 GiB the whole table is looked at once: all that used it since are condemned, and the other
        # placement's cases are not.
        cases, done = self.planted([*HONEST, "stray_write"], "--placement", "libtorch,pageable", "--direction",
                                   "from,to", "--rows", "68M", "--row-bytes", "16", status=1,
                                   table=("--suite", "transfer", "--batch", "500", "--cores", "1", *HOST))
        for case in cases:
            self.assertEqual(case["status"] == "wrong", case["placement"] == "pageable", case)
            if case["status"] == "wrong":
                self.assertIn("a case of the cells that used it damaged the table", case["reason"])
        self.assertIn("WRONG: ", done.stdout)

    def test_gather_that_writes_the_table_fails_its_cell(self):
        self.check_condemned(self.in_two_placements("writes_back", "--direction", "to,from", "--rows", "20k"))

    def test_error_is_a_failed_case_in_one_line(self):
        cases, done = self.planted([*HONEST, "throws"], status=2)
        for case in cases:
            self.assertEqual(case["status"] == "failed", case["method"] == "throws", case)
        reasons = {case["reason"] for case in cases if case["method"] == "throws"}
        self.assertEqual(reasons, {"planted failure of two lines"})
        self.assertIn("planted failure of two lines", done.stdout)

    def test_wrong_result_weighs_more_than_an_error(self):
        self.planted(["speedtorch", "throws", "nothing"], status=1)

    def test_hanging_case_is_failed_and_ends_the_run(self):
        began = time.monotonic()
        cases, done = self.planted(["hangs", "speedtorch"], "--timeout", "1", "--direction", "to,from", status=2)
        self.assertLess(time.monotonic() - began, 60)
        hanging = [case for case in cases if case["method"] == "hangs"]
        self.assertEqual([case["status"] for case in hanging], ["failed"])
        self.assertIn("no end after 1 s", hanging[0]["reason"])
        self.assertIn("transfer to pageable -> hangs -> cpu", done.stderr)

    def test_cases_of_groups_before_a_hanging_one_keep_their_numbers(self):
        cases, _ = self.planted(["hangs", "speedtorch"], "--timeout", "1", "--direction", "to", "--filter",
                                "speedtorch.* 1k|hangs.* 2k", status=2,
                                table=("--suite", "transfer", "--rows", "1k,2k", "--batch", "100", "--cores", "1",
                                       "--placement", "pageable", *HOST))
        self.assertEqual([(case["rows"], case["status"] in MEASURED) for case in cases], [(1000, True), (2000, False)])

    def test_slow_case_is_measured_as_it_is(self):
        cases, _ = self.planted(["slow", "speedtorch"], "--direction", "to", "--timeout", "20", status=0)
        slow = next(case for case in cases if case["method"] == "slow")
        self.assertGreaterEqual(slow["min_s"], 0.05)
        self.assertEqual(slow["repeat"], 1)


if __name__ == "__main__":
    unittest.main()
