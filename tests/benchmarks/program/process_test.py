"""How the program starts and ends: its one restart, the cores it may use, signals, and what is left behind."""

import os
import re
import signal
import time
import unittest
from pathlib import Path

from program import HOST, MEASURED, SMALL, ProgramTest, read_csv, read_json, run

# A small group that is soon done, and then one that takes minutes.
SLOW_LAST = ("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--cores", "1", "--rows", "1k,2k",
             "--batch", "100", "--method", "speedtorch,copy,slow", "--filter",
             "speedtorch.* 1k×|copy.* 1k×|slow.* 2k×", "--samples", "2000", *HOST)


def pending_signals(pid):
    """True while a signal that was sent to the process has not reached it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return any(int(mask, 16) for mask in re.findall(r"^(?:SigPnd|ShdPnd):\s+(\w+)", status, re.MULTILINE))


class ProcessTest(ProgramTest):
    def reports(self):
        return ("--csv", "r.csv", "--json", "r.json")

    def test_interrupted_run_reports_what_was_finished(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                process = self.start(*SLOW_LAST, *self.reports(), announced="slow")
                process.send_signal(number)
                stdout, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number)
                report = read_json(self.folder / "r.json")
                self.assertIs(report["interrupted"], True)
                self.assertEqual([(case["method"], case["rows"]) for case in report["cases"]],
                                 [("speedtorch", 1000), ("copy", 1000)])
                for case in report["cases"]:
                    self.assertIn(case["status"], MEASURED)
                    self.assertEqual(case["samples"], 2000)
                    self.assertGreater(case["median_s"], 0)
                self.assertEqual(len(read_csv(self.folder / "r.csv")), 2)
                self.assertIn("Interrupted", stdout)
                self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["r.csv", "r.json"])

    def test_killed_run_leaves_nothing(self):
        tables = self.folder / "tables"
        tables.mkdir()
        reports = self.folder / "reports"
        reports.mkdir()
        (reports / "r.csv").write_text("old\n", encoding="utf-8")
        arguments = [word.replace("pageable", "mapped") for word in SLOW_LAST]
        process = self.start(*arguments, "--csv", reports / "r.csv", "--json", reports / "r.json", announced="slow",
                             TMPDIR=str(tables))
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertEqual(list(tables.iterdir()), [])
        self.assertEqual([path.name for path in reports.iterdir()], ["r.csv"])
        self.assertEqual((reports / "r.csv").read_text(encoding="utf-8"), "old\n")

    def test_a_process_of_its_own_that_was_killed_is_named(self):
        process = self.start(*SLOW_LAST, "--save-baseline", "main", announced="slow", TMPDIR=str(self.folder))
        (own,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(own), signal.SIGKILL)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertIn("stbench: process 1 was killed (exit status 137) and left no report\n", stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], [])

    def test_mapped_tables_leave_no_file(self):
        tables = self.folder / "tables"
        tables.mkdir()
        done = self.run_program(*SMALL, "--placement", "mapped", *HOST, "--benchmark_out", "g.json",
                                TMPDIR=str(tables))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(tables.iterdir()), [])

    def test_second_interrupt_ends_at_once(self):
        arguments = [word.replace("slow", "hangs") for word in SLOW_LAST]
        process = self.start(*arguments, *self.reports(), announced="hangs")
        process.send_signal(signal.SIGINT)
        while pending_signals(process.pid):
            time.sleep(0.01)
        self.assertIsNone(process.poll(), "the first one only asks for an end")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), -signal.SIGINT)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_spinning_is_shortened_unless_the_user_chose(self):
        chosen = [({}, "5000", None), ({"GOMP_SPINCOUNT": "77"}, "77", None),
                  ({"OMP_WAIT_POLICY": "PASSIVE"}, None, "PASSIVE")]
        for variables, spin, policy in chosen:
            with self.subTest(**variables):
                done = self.run_program(*SMALL, "--direction", "to", "--placement", "libtorch", "--json", "r.json",
                                        **{"GOMP_SPINCOUNT": None, **variables})
                self.assertEqual(done.returncode, 0, done.stderr)
                found = read_json(self.folder / "r.json")["environment"]["libtorch"]
                self.assertEqual((found["gomp_spincount"], found["omp_wait_policy"]), (spin, policy))

    def test_allowed_cores_are_kept_to(self):
        one = min(os.sched_getaffinity(0))
        prefix = ("taskset", "-c", str(one))
        report, rows, _ = self.measure(*SMALL, *HOST, prefix=prefix)
        found = report["environment"]["cpu"]
        self.assertEqual((found["cores_allowed"], found["affinity"]), (1, str(one)))
        self.assertEqual({row["cores"] for row in rows}, {"1"})
        refused = run(*SMALL, "--cores", "2", prefix=prefix)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("--cores 2: this process may use 1", refused.stderr)


if __name__ == "__main__":
    unittest.main()
