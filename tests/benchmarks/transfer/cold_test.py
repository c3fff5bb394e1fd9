"""The axis `cache`, and what reads files."""

import os
import re
import unittest
from pathlib import Path

from program import HOST, MEASURED, SMALL, ProgramTest, identity

READERS = "file_rows,mmap,pread,io_uring"
BOTH = ("--cache", "warm,cold")


class ColdTest(ProgramTest):
    def test_cold_and_warm_cases_are_separate_cells(self):
        report, rows, done = self.measure(*SMALL, *HOST, *BOTH, "--cores", "1", "--placement", "pageable,mapped")
        self.assertEqual({row["cache"] for row in rows}, {"warm", "cold"})
        for case in report["cases"]:
            if case["direction"] == "sum":
                continue
            self.assertIn(case["status"], MEASURED, case)
            self.assertGreater(case["verified_rows"], 0, case)
            if case["cache"] == "cold":
                self.assertEqual((case["repeat"], case["latency_p50_s"]), (1, None), case)
        # A cold file has no pages, and a warm one does.
        pages = {(case["placement"], case["cache"]): case["pages_got"] for case in report["cases"]
                 if case["direction"] == "to"}
        self.assertIsNone(pages["mapped", "cold"])
        self.assertTrue(pages["mapped", "warm"] and pages["pageable", "cold"])
        huge = {(case["placement"], case["cache"]): case["huge_fraction"] for case in report["cases"]
                if case["direction"] == "to"}
        self.assertIsNone(huge["mapped", "cold"])
        self.assertEqual(huge["pageable", "warm"], 0)
        keys = [identity(case) for case in report["cases"]]
        self.assertEqual(len(keys), len(set(keys)))

    def test_case_id_of_a_cold_case_round_trips(self):
        case_id = ("transfer to mapped -> file_rows -> cpu bytes 3k×512 batch 500 unique int64 cores=1 cache=cold")
        listed = self.run_program(*SMALL[:4], "--batch", "500", *HOST, "--cache", "cold", "--placement", "mapped",
                                  "--row-bytes", "512", "--cores", "1", "--direction", "to", "--dry-run").stdout
        self.assertIn(case_id, listed.splitlines())
        case = next(one for one in self.cases("--case", case_id, "--samples", "3") if one["method"] == "file_rows")
        self.assertEqual((case["cache"], case["status"] in MEASURED), ("cold", True), case)
        done = self.run_program("--case", case_id.replace("cold", "hot"))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "--case: cache.*hot")

    def test_resident_fraction_is_what_a_sample_leaves_in_memory(self):
        cases = self.cases("--suite", "transfer", *HOST, *BOTH, "--cores", "1", "--placement", "mapped,pageable", "--direction",
                           "to", "--rows", "40k", "--row-bytes", "512", "--batch", "50", "--samples", "3", "--method",
                           "speedtorch,file_rows")
        resident = {(case["placement"], case["method"], case["cache"]): case["resident_fraction"] for case in cases}
        self.assertEqual({part for (_, _, cache), part in resident.items() if cache == "warm"}, {1})
        self.assertEqual(resident["pageable", "speedtorch", "cold"], 1)
        # 50 rows are on at most 100 of the file's 5,000 pages.
        self.assertGreater(resident["mapped", "file_rows", "cold"], 0)
        self.assertLess(resident["mapped", "file_rows", "cold"], 0.1)

    def test_row_cache_keeps_hot_rows(self):
        words = ("--suite", "transfer", *HOST, "--cores", "1", "--placement", "mapped", "--direction", "to", "--rows", "100k",
                 "--row-bytes", "64", "--batch", "500", "--samples", "11", "--method", "row_cache,file_rows",
                 "--distribution", "uniform,zipf:1.1", "--cache-bytes", "750k,3M", *BOTH)
        cases = self.cases(*words)
        for case in cases:
            self.assertIn(case["status"], MEASURED, case)
            self.assertEqual(case["cache_bytes"] > 0, case["method"] == "row_cache")
            self.assertEqual(case["hit_rate"] is None, case["method"] != "row_cache")
        hits = {(case["distribution"], case["cache_bytes"], case["cache"]): case["hit_rate"] for case in cases
                if case["method"] == "row_cache"}
        self.assertEqual(len(hits), 8)
        for cache in ("warm", "cold"):
            # 10,000 and 40,000 of 100,000 rows: with rows that were looked up before, more would hit.
            self.assertAlmostEqual(hits["uniform", 750_000, cache], 0.1, delta=0.03)
            self.assertAlmostEqual(hits["uniform", 3_000_000, cache], 0.4, delta=0.05)
            self.assertGreater(hits["zipf:1.1", 750_000, cache], 0.6)
            self.assertGreater(hits["zipf:1.1", 3_000_000, cache], hits["zipf:1.1", 750_000, cache])
        case_id = ("transfer to mapped -> row_cache -> cpu bytes 100k×64 batch 500 uniform int64 cores=1 cache=cold "
                   "cache_bytes=750k")
        self.assertIn(case_id, self.run_program(*words, "--dry-run").stdout.splitlines())
        again = [one for one in self.cases("--case", case_id, "--samples", "3") if one["method"] == "row_cache"]
        self.assertEqual([(one["cache_bytes"], one["status"] in MEASURED) for one in again], [(750_000, True)])
        for wrong, says in (("0", "--cache-bytes"), ("many", "'many'")):
            done = self.run_program(*words[:-3], wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)

    def test_every_reader_gathers_from_cold_and_warm_files(self):
        for width, index in ((3, "int64"), (4100, "int32")):
            cases = self.cases(*SMALL[:2], *BOTH, *HOST, "--rows", "5k", "--batch", "700", "--samples", "3",
                               "--placement", "mapped", "--direction", "to", "--row-bytes", width, "--method", READERS,
                               "--distribution", "unique,zipf:1.05", "--index-dtype", index)
            measured = {(case["method"], case["cache"]) for case in cases if case["status"] in MEASURED}
            waived = [case for case in cases if case["status"] == "waived"]
            self.assertTrue(all(case["method"] == "io_uring" and "io_uring" in case["reason"] for case in waived))
            self.assertEqual(len(measured), 8 - (2 if waived else 0), cases)

    def test_readers_are_asked_for_by_name_where_the_preset_does_not(self):
        cases = self.cases(*SMALL, *HOST, "--cores", "1", "--placement", "mapped,pageable", "--direction", "to,from")
        self.assertEqual({case["method"] for case in cases} & set(READERS.split(",")), {"file_rows"})
        cases = self.cases(*SMALL, *HOST, "--cores", "1", "--placement", "mapped,pageable", "--direction", "to,from",
                           "--peers", "mmap,pread")
        found = {(case["method"], case["placement"], case["direction"]) for case in cases}
        self.assertLessEqual({("mmap", "mapped", "to"), ("pread", "mapped", "to")}, found)
        self.assertNotIn(("mmap", "pageable", "to"), found)
        self.assertNotIn(("mmap", "mapped", "from"), found)

    @unittest.skipUnless(Path("/dev/shm").is_dir(), "no tmpfs at /dev/shm")
    def test_a_file_system_in_memory_waives_cold_cases_with_the_cure(self):
        cases = self.cases(*SMALL, *HOST, *BOTH, "--cores", "1", "--placement", "mapped", "--direction", "to",
                           TMPDIR="/dev/shm")
        for case in cases:
            self.assertEqual(case["status"] == "waived", case["cache"] == "cold", case)
            if case["cache"] == "cold":
                self.assertRegex(case["reason"], "100 % of it stays.*tmpfs.*set TMPDIR to a folder on a disk")

    def test_files_may_be_larger_than_memory_where_they_are_cold(self):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        disk = os.statvfs("/var/tmp")
        rows = memory * 3 // 2 // 4096
        words = ("--suite", "transfer", *HOST, "--placement", "mapped", "--direction", "to", "--row-bytes", "4096",
                 "--cores", "1", "--batch", "500", "--dry-run")
        if rows * 4096 < disk.f_bavail * disk.f_frsize:
            done = self.run_program(*words, "--rows", rows, *BOTH)
            self.assertEqual(done.returncode, 0, done.stderr)
            planned = [line for line in done.stdout.splitlines() if not line.startswith("waived: ")]
            self.assertTrue(planned)
            for line in planned:
                self.assertIn("cache=cold", line)
            self.assertRegex(done.stdout, "waived: .*cannot all be warm; use --cache cold")
            done = self.run_program(*words[:5], "pageable,mapped", *words[6:], "--rows", rows)
            self.assertEqual(done.returncode, 2)
            self.assertIn("are available", done.stderr)
        done = self.run_program(*words, "--rows", 1 << 45, "--cache", "cold")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "in a file needs .* free in the folder of TMPDIR")

    def test_the_preset_for_files_has_the_cases_that_its_goals_need(self):
        report, _, done = self.measure("--suite", "transfer", "--preset", "files", *HOST, "--rows", "6k", "--samples",
                                       "3", "--batch", "700", timeout=280)
        found = {(case["placement"], case["cache"], case["dim"], case["method"]) for case in report["cases"]
                 if case["status"] in MEASURED}
        for dim in (64, 512, 4096):
            for method in ("file_rows", "mmap", "pread"):
                self.assertIn(("mapped", "cold", dim, method), found)
            self.assertLessEqual({("mapped", "warm", dim, "speedtorch"), ("pageable", "warm", dim, "speedtorch"),
                                  ("mapped", "warm", dim, "pread")}, found)
        self.assertIn(report["environment"]["files"]["reads"], ("io_uring", "advice"))
        groups = {case["group"] for case in report["cases"] if case["cache"] == "warm" and case["dim"] == 512}
        self.assertEqual(len(groups), 1)  # memory and file in the same rounds

    def test_words_of_the_axis(self):
        done = self.run_program(*SMALL, "--cache", "hot")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "--cache.*hot.*\n?.*warm")
        self.assertTrue(re.search(r"^ +cache +warm cold +\[warm\]$", self.run_program("list").stdout, re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
