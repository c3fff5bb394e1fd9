"""--events: a line a case as it finishes, which `show` reads, also of a run that was killed."""

import json
import re
import signal
import subprocess
import time
import unittest

from program import HOST, MEASURED, PLANTED, SMALL, ProgramTest, environment, identity, read_json

QUICK = (*SMALL, *HOST, "--cores", "1", "--placement", "libtorch,hugepage")
# A small group that is soon done, and then one that takes minutes.
SLOW_LAST = ("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--cores", "1", "--rows", "1k,2k",
             "--batch", "100", "--method", "speedtorch,copy,slow", "--filter",
             "speedtorch.* 1k×|copy.* 1k×|slow.* 2k×", "--samples", "2000", *HOST)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class EventsTest(ProgramTest):
    def test_are_the_report(self):
        report, _, done = self.measure(*QUICK, "--events", "e.jsonl")
        events = lines(self.folder / "e.jsonl")
        self.assertEqual([events[0]["event"], events[-1]["event"]], ["start", "end"])
        cases = [event["case"] for event in events if event["event"] == "case"]
        self.assertEqual(sorted(map(identity, cases), key=str), sorted(map(identity, report["cases"]), key=str))
        self.assertEqual({name: events[0][name] for name in ("argv", "seed", "axes", "schema_version")},
                         {name: report[name] for name in ("argv", "seed", "axes", "schema_version")})
        shown = self.run_program("show", "e.jsonl")
        self.assertEqual((shown.returncode, shown.stderr, shown.stdout), (0, "", done.stdout))

    def test_replace_what_was_there_and_only_when_there_is_something(self):
        self.file("e.jsonl", "old\n")
        self.assertEqual(self.run_program(*SMALL, "--cores", "0", "--events", "e.jsonl").returncode, 2)
        self.assertEqual((self.folder / "e.jsonl").read_text(encoding="utf-8"), "old\n")
        self.assertEqual(self.run_program(*SMALL, "--cores", "0", "--events", "new.jsonl").returncode, 2)
        self.assertFalse((self.folder / "new.jsonl").exists())
        self.measure(*QUICK, "--direction", "to", "--events", "e.jsonl")
        self.assertNotIn("old", (self.folder / "e.jsonl").read_text(encoding="utf-8"))

    def test_alone_on_stdout(self):
        done = self.run_program(*QUICK, "--events", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["event"], "end")

    def test_of_a_killed_run_have_its_finished_rows(self):
        process = subprocess.Popen([PLANTED, *SLOW_LAST, "--events", "e.jsonl", "--json", "r.json"], cwd=self.folder,
                                   env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = self.folder / "e.jsonl"
        until = time.monotonic() + 60
        # Until the line is whole: a kill in the middle of its write leaves half of it.
        while not (path.exists() and re.search('"copy".*\n', path.read_text(encoding="utf-8"))) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        self.assertFalse((self.folder / "r.json").exists())
        cases = [event["case"] for event in lines(path) if event["event"] == "case"]
        self.assertEqual({case["method"] for case in cases}, {"speedtorch", "copy"})
        for case in cases:
            self.assertIn(case["status"], MEASURED)
            self.assertEqual(len(case["samples_s"]), 2000)
            self.assertIsNotNone(case["copy_fraction"])
        shown = self.run_program("show", "e.jsonl")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn("speedtorch(pageable)", shown.stdout)
        self.assertIn("Interrupted", shown.stdout)


class ExpectTest(ProgramTest):
    RUN = (*SMALL, *HOST, "--cores", "1", "--placement", "libtorch", "--direction", "to")

    def test_met_is_zero(self):
        done = self.run_program(*self.RUN, "--expect", "speedtorch>=1e-9", "--expect", "copy>=0.000001")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("stbench: ", done.stderr)

    def test_not_met_is_one_and_names_each_row_with_its_figure(self):
        done = self.run_program(*self.RUN, "--json", "r.json", "--expect", "speedtorch|index_select>=1e6", "--expect",
                                "copy>=1e-9")
        self.assertEqual(done.returncode, 1)
        slow = [case for case in read_json(self.folder / "r.json")["cases"]
                if case["method"] in ("speedtorch", "index_select")]
        told = [line for line in done.stderr.splitlines() if line.startswith("stbench: ")]
        self.assertEqual(len(told), len(slow))
        for case in slow:
            line = next(line for line in told if f"-> {case['method']} ->" in line)
            self.assertIn("1e+06 are expected", line)
            figure = float(line.split()[1])
            self.assertAlmostEqual(figure / case["gb_per_s"], 1, delta=0.01)

    def test_nothing_that_matches_is_one(self):
        for filter_ in ("no such row", "pinned"):
            done = self.run_program(*SMALL, "--cores", "1", "--placement", "libtorch", "--expect", f"{filter_}>=1")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"nothing measured matches --expect '{filter_}>=1'", done.stderr)

    def test_counts_beside_a_baseline(self):
        self.assertEqual(self.run_program(*self.RUN, "--save-baseline", "b").returncode, 0)
        for floor, status in (("1e-9", 0), ("1e6", 1)):
            done = self.run_program(*self.RUN, "--baseline", "b", "--expect", f"speedtorch>={floor}")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("1e+06 are expected" in done.stderr, status == 1)
            self.assertIn("Single runs", done.stdout)


class ShowTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.report, _, _ = self.measure(*QUICK)

    def rows(self, *arguments):
        done = self.run_program("show", "r.json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.split() for line in done.stdout.splitlines()]

    def test_columns_and_order(self):
        names, *rows = self.rows("--columns", "gb_per_s,method,verified_rows", "--sort", "-gb_per_s")
        self.assertEqual(names, ["gb_per_s", "method", "verified_rows"])
        self.assertEqual(len(rows), len(self.report["cases"]))
        speeds = [float(row[0]) for row in rows]
        self.assertEqual(speeds, sorted(speeds, reverse=True))
        best = max(self.report["cases"], key=lambda case: case["gb_per_s"])
        self.assertAlmostEqual(speeds[0] / best["gb_per_s"], 1, delta=1e-3)

    def test_filter(self):
        _, *rows = self.rows("--filter", "from hugepage -> (copy|stream)", "--columns", "direction,placement,method")
        self.assertEqual(sorted(rows), [["from", "hugepage", "copy"], ["from", "hugepage", "stream"]])
        tables = self.run_program("show", "r.json", "--filter", "from hugepage").stdout
        self.assertIn("speedtorch(hugepage)", tables)
        self.assertNotIn("speedtorch(libtorch)", tables)

    def test_sorting_alone_lists_cases(self):
        names, *rows = self.rows("--sort", "median_s")
        self.assertEqual(names, ["status", "median_s", "gb_per_s", "copy_fraction", "speedup", "case"])
        self.assertEqual(len(rows), len(self.report["cases"]))

    def test_mistakes_are_named(self):
        for words, part in ((["--columns", "gb_per_sec"], "did you mean 'gb_per_s'?"), (["--sort", "speed"], "--sort"),
                            (["--filter", "nothing like it"], "matches no row")):
            done = self.run_program("show", "r.json", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
