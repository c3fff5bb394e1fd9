"""What becomes of the program's texts and reports if stdout or stderr is full, closed, or a report's own file."""

import json
import os
import signal
import subprocess
import unittest

from program import HOST, PROGRAM, SMALL, ProgramTest, environment, read_csv, read_json

QUICK = (*SMALL, "--direction", "to", "--placement", "pageable", "--method", "speedtorch,copy", *HOST)
ENDLESS = (*SMALL[:-2], *HOST, "--samples", "1M")  # its samples would take hours
PRINTING = (("--help",), ("-h",), ("--version",), ("list",), ("man",), ("schema",), ("completion", "bash"),
            ("doctor",), ("doctor", "--json"), ("history", "--help"), ("advise", "--help"), ("tune", "--help"),
            ("calibrate", "--help"), (*QUICK, "--dry-run"), (*QUICK, "--benchmark_list_tests"))
ADVISE = ("advise", "--rows", "1k", "--dim", "16", "--batch", "64", "--step-ms", "1")


class StandardOutputTest(ProgramTest):
    def shell(self, redirections, *arguments, **variables):
        """A run with a shell's redirections, as in `>&-`, which closes stdout."""
        return subprocess.run(["sh", "-c", f'"$0" "$@" {redirections}', PROGRAM, *map(str, arguments)], check=False,
                              cwd=self.folder, capture_output=True, text=True, timeout=280, env=environment(**variables))

    def assert_whole(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        report = read_json(self.folder / "r.json")
        self.assertEqual(len(report["cases"]), len(read_csv(self.folder / "r.csv")))
        self.assertGreater(len(report["cases"]), 0)

    def test_reports_hold_no_text_of_closed_streams(self):
        # With stderr closed a message follows: the peer cannot be had, or the machine is named.
        for redirections in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(redirections=redirections):
                done = self.shell(redirections, *QUICK, "--expect", "speedtorch>=1e-9", "--csv", "r.csv",
                                  "--json", "r.json")
                self.assert_whole(done)

    def test_messages_are_not_appended_to_a_report(self):
        done = self.shell("2>&- >&-", *QUICK, "--expect", "speedtorch>=1e9", "--csv", "r.csv", "--json", "r.json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(read_csv(self.folder / "r.csv")), len(read_json(self.folder / "r.json")["cases"]))

    def test_events_hold_no_text_of_a_closed_stdout(self):
        done = self.shell(">&-", *QUICK, "--events", "e.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in (self.folder / "e.jsonl").read_text(encoding="utf-8").splitlines():
            json.loads(line)

    def test_results_without_a_place_are_refused_before_measuring(self):
        for arguments in ((), ("--trace", "t.json")):
            done = self.shell(">&-", *ENDLESS, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("stdout is closed", done.stderr)
            self.assertIn("--json FILE", done.stderr)
        for option in ("--csv", "--json", "--events", "--trace", "--benchmark_out"):
            with self.subTest(option=option):
                done = self.shell(">&-", *ENDLESS, option, "-")
                self.assertEqual(done.returncode, 2)
                self.assertIn('"the standard output": it is closed', done.stderr)

    def test_a_text_that_was_asked_for_needs_an_open_stdout(self):
        for command in (*PRINTING, ADVISE):
            with self.subTest(command=command):
                done = self.shell(">&-", *command)
                self.assertEqual(done.returncode, 2)
                self.assertIn('"the standard output": it is closed', done.stderr)

    def test_a_plan_whose_text_has_no_place_is_not_chosen(self):
        done = self.shell(">&-", "tune", XDG_CACHE_HOME=str(self.folder))
        self.assertEqual(done.returncode, 2)
        self.assertIn('"the standard output": it is closed', done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def assert_full(self, *command):
        with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, *map(str, command)], check=False, cwd=self.folder, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=280, env=environment())
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("standard output", done.stderr)
            self.assertIn("No space left on device", done.stderr)

    def test_a_full_disk_behind_stdout_is_an_error(self):
        for command in PRINTING:
            self.assert_full(*command)
        self.measure(*QUICK)
        self.assert_full("show", "r.json")
        self.assert_full("show", "r.json", "--columns", "rows")
        self.assert_full("compare", "r.json", "r.json")
        self.assert_full("compare", "r.json", "r.json", "--markdown", "-")
        self.assert_full("history", "r.json", "r.json")
        self.assert_full("calibrate", *QUICK, "--processes", "3")

    def test_a_run_whose_tables_do_not_fit_is_an_error(self):
        self.assert_full(*QUICK)

    def test_a_pipe_that_nobody_reads_ends_the_program_as_any_other(self):
        for default in (True, False):  # or the signal of a broken pipe is ignored, as in some containers
            read_end, write_end = os.pipe()
            os.close(read_end)
            done = subprocess.run([PROGRAM, "man"], check=False, stdout=write_end, stderr=subprocess.PIPE, text=True,
                                  env=environment(), restore_signals=default)
            os.close(write_end)
            self.assertEqual(done.returncode, -signal.SIGPIPE if default else 2)
            self.assertEqual(done.stderr.count("Broken pipe"), 0 if default else 1)


if __name__ == "__main__":
    unittest.main()
