"""Each workload runs verified at its smallest, and what is scaled is said."""

import json
import unittest

from program import MEASURED, ROOT, ProgramTest, run

FILES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks/transfer/workloads").glob("*.json"))}
SMALLEST = ("--rows", "100", "--samples", "1", "--placement", "pageable", "--cores", "1", "--device", "cpu")


def planned(*arguments):
    done = run("--suite", "transfer", "--device", "cpu", *arguments, "--dry-run")
    return done, [line for line in done.stdout.splitlines() if not line.startswith("waived: ")]


class WorkloadsTest(ProgramTest):
    def test_each_runs_verified_at_its_smallest(self):
        self.assertGreaterEqual(len(FILES), 17)
        for name, file in FILES.items():
            with self.subTest(workload=name):
                report = self.measure("--workload", name, *SMALLEST)[0]
                for case in report["cases"]:
                    self.assertIn(case["status"], MEASURED, case)
                    self.assertEqual((case["mismatches"], case["verified_rows"] > 0), (0, True), case)
                    self.assertEqual((case["rows"], case["dtype"]), (100, "bytes"))
                for key, axis in (("row_bytes", "dim"), ("distributions", "distribution"), ("directions", "direction")):
                    self.assertEqual({case[axis] for case in report["cases"]}, set(file[key]))
                self.assertEqual({case["batch"] for case in report["cases"]}, {min(100, b) for b in file["batches"]})
                said = report["environment"]["workloads"][name]
                for key in ("rows", "row_bytes", "source", "order", "distribution_because"):
                    self.assertEqual(said[key], file[key])

    def test_rows_are_scaled_to_the_machine_and_that_is_said(self):
        # A hundred terabytes' worth of it fits no machine of these tests; its rows are 4,096 bytes all the same.
        done, lines = planned("--workload", "gnn-igb")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(lines)
        self.assertTrue(all("×4096 " in line for line in lines), lines[0])
        self.assertRegex(done.stderr, r"workload gnn-igb: [\d,]+ of 269,346,174 rows of 4096 bytes \(1/\d+\)")
        again, same = planned("--workload", "gnn-igb")
        self.assertEqual(lines, same)

    def test_scale_is_in_the_report_and_on_the_screen(self):
        report, _, done = self.measure("--workload", "kv-token", *SMALLEST)
        for text in (" ".join(done.stdout.split()), " ".join(report["warnings"])):
            self.assertIn("workload kv-token: --rows in place of 4,194,304 rows; no batch is above the table's 100 rows", text)
        self.assertTrue(report["environment"]["workloads"]["kv-token"]["scale"])

    def test_what_fits_is_not_scaled(self):
        done, lines = planned("--workload", "tiny")
        self.assertNotIn("workload", done.stderr)
        self.assertEqual({line.split(" batch ")[1].split()[0] for line in lines}, {"6", "20"})

    def test_given_axis_wins(self):
        _, lines = planned("--workload", "kv-page", "--rows", "5k", "--batch", "7", "--direction", "round_trip",
                           "--distribution", "sorted", "--row-bytes", "90", "--placement", "libtorch", "--cores", "1",
                           "--method", "copy")
        self.assertEqual(lines, ["transfer round_trip libtorch -> copy -> cpu bytes 5k×90 batch 7 sorted int64 cores=1"])

    def test_given_dtype_keeps_the_rows_bytes(self):
        _, lines = planned("--workload", "engram-v41", "--dtype", "float64,float16", "--rows", "1k", "--batch", "9",
                           "--placement", "libtorch", "--cores", "1", "--method", "copy")
        self.assertEqual([line.split(" -> cpu ")[1].split(" batch")[0] for line in lines],
                         ["float64 1k×33", "float16 1k×132"])
        refused, _ = planned("--workload", "recsys-tbe,tiny", "--dtype", "float64")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--workload tiny has rows of 12 bytes, which float64 does not divide", refused.stderr)

    def test_several_share_the_time(self):
        one = run("--workload", "kv-page", "--dry-run").stderr
        several = run("--workload", "kv-page,kv-token,tiny", "--dry-run").stderr
        self.assertIn("at most about", one)
        self.assertRegex(several, "at most about [1-5] min")

    def test_sum_is_made_where_it_is_asked_for(self):
        for arguments, directions in (((), {"to", "from"}), (("--direction", "sum"), {"to", "from", "sum"})):
            cases = self.cases("--workload", "tiny", "--samples", "1", "--placement", "pageable", "--cores", "1",
                               "--device", "cpu", *arguments)
            self.assertEqual({case["direction"] for case in cases}, directions)

    def test_list_names_each_with_its_line(self):
        listed = run("list").stdout
        for name, file in FILES.items():
            self.assertIn(f"    {name:<12} {file['summary']}\n", listed)

    def test_mistakes(self):
        for arguments, parts in ((["--workload", "engram-v4"], ["'engram-v4'", "did you mean 'engram-v41'?"]),
                                 (["--workload", "tiny", "--case", "x"], ["--case", "--workload"]),
                                 (["--workload", ""], ["--workload", "empty"])):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            for part in parts:
                self.assertIn(part, done.stderr)

    def test_each_file_says_where_its_shape_is_from(self):
        for name, file in FILES.items():
            with self.subTest(workload=name):
                self.assertLessEqual(set(file), {"summary", "rows", "row_bytes", "batches", "distributions",
                                                 "directions", "order", "distribution_because", "source", "unverified"})
                self.assertGreater(len(file["source"]), 10)
                self.assertLessEqual(len(f"    {name:<12} {file['summary']}"), 120)


if __name__ == "__main__":
    unittest.main()
