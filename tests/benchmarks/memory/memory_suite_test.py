"""The memory suite: its figures against what Python reads from /proc, planted allocators, processes that end badly."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program import AXES, COLUMNS, PLAIN, PLANTED, PROGRAM, ProgramTest, below_machine, environment, read_json, run

ROWS, WIDTH = 200_000, 512
BYTES = ROWS * WIDTH
SMALL = ("--suite", "memory", "--rows", "200k")
MEMORY = ("requested_bytes resident_bytes locked_bytes page_table_bytes shared_bytes device_bytes "
          "device_reserved_bytes device_allocated_bytes peak_bytes steady_bytes baseline_bytes overhead_ratio "
          "after_free_bytes pages_got huge_fraction allocate_s pin_s fill_s").split()
HOST = {("libtorch", "libtorch", 1.0), ("pageable", "speedtorch", 1.0), ("hugepage", "speedtorch", 1.0),
        ("mapped", "speedtorch", 1.0), ("mapped", "speedtorch", 0.25)}
GPU = {("pinned", "speedtorch", 1.0), ("pinned", "libtorch", 1.0), ("device", "speedtorch", 1.0),
       ("device", "libtorch", 1.0)}
NOISE = 1 << 20  # of a process beside its table


def key(case):
    return case["placement"], case["method"], case["touched"]


def resident(pid):
    """Bytes, mapping by mapping: not the file that the program reads."""
    lines = Path(f"/proc/{pid}/smaps").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"  # nobody may be there to bury it


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


class MemorySuiteTest(ProgramTest):
    def test_every_placement_is_there_with_honest_figures(self):
        report, rows, _ = self.measure(*SMALL)
        cases = {key(case): case for case in report["cases"]}
        self.assertEqual(set(cases), HOST | GPU)
        self.assertEqual(len(report["cases"]), len(cases))
        self.assertEqual([(row["placement"], row["status"]) for row in rows],
                         [(case["placement"], case["status"]) for case in report["cases"]])
        for name, case in cases.items():
            if name in HOST:
                self.check_host_case(case)
        for case in report["cases"]:
            self.assertEqual((case["suite"], case["direction"], case["batch"], case["samples"]), ("memory", "in", 0, 0))
            if case["status"] == "waived":
                self.assertIn("missing: ", case["reason"])
        needed = BYTES // 4096 * 8  # an entry a page
        pageable = cases["pageable", "speedtorch", 1.0]
        self.assertGreaterEqual(pageable["page_table_bytes"], needed)
        self.assertGreater(pageable["page_table_bytes"],
                           cases["mapped", "speedtorch", 0.25]["page_table_bytes"] + needed // 4)

    def check_host_case(self, case):
        self.assertEqual((case["status"], case["reason"]), ("ok", ""))
        self.assertEqual((case["verified_rows"], case["mismatches"]), (ROWS * case["touched"], 0))
        self.assertEqual(case["requested_bytes"], BYTES)
        self.assertEqual([case[name] for name in MEMORY if name.startswith("device")], [None] * 3)
        added = case["steady_bytes"] - case["baseline_bytes"]
        self.assertEqual(case["overhead_ratio"], added / BYTES)
        self.assertEqual(case["resident_bytes"], case["steady_bytes"])
        self.assertAlmostEqual(added, BYTES * case["touched"], delta=NOISE)
        self.assertGreaterEqual(case["peak_bytes"], case["steady_bytes"])
        self.assertLess(case["peak_bytes"], case["steady_bytes"] + 8 * NOISE)
        self.assertAlmostEqual(case["after_free_bytes"], case["baseline_bytes"], delta=NOISE)
        self.assertGreater(case["baseline_bytes"], 10 << 20)
        self.assertLess(case["shared_bytes"], case["resident_bytes"] + NOISE)
        if case["placement"] == "mapped":
            self.assertGreater(case["shared_bytes"], BYTES * case["touched"])
        if case["placement"] == "pageable":
            self.assertEqual((case["pages_got"], case["huge_fraction"]), ("4KiB", 0))
        self.assertEqual(case["huge_fraction"] > 0, "MiB" in case["pages_got"], case)
        self.assertGreater(case["allocate_s"], 0)
        self.assertGreater(case["fill_s"], 0)
        self.assertIsNone(case["pin_s"])

    def test_figures_equal_those_of_the_kernel(self):
        """The same child, asked by hand, looked at by other means."""
        request = {"method": "speedtorch", "placement": "pageable", "device": "cpu", "rows": ROWS, "row_bytes": WIDTH,
                   "touched_rows": ROWS, "seed": 1, "table": "", "cpus": sorted(os.sched_getaffinity(0))}
        seen = {}
        with subprocess.Popen([PROGRAM, "internal-hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment()) as child:
            for line, expected in ((None, "hello"), ("hold " + json.dumps(request), "ready"), ("allocate", "held"),
                                   ("free", "freed")):
                if line:
                    print(line, file=child.stdin, flush=True)
                answer = child.stdout.readline()
                self.assertTrue(answer.startswith(expected + " "), answer)
                seen[expected] = resident(child.pid)
            child.stdin.close()
        self.assertEqual(child.returncode, 0)
        case = self.cases(*SMALL, "--placement", "pageable")[0]
        for name, found in (("baseline_bytes", seen["ready"]), ("steady_bytes", seen["held"]),
                            ("after_free_bytes", seen["freed"])):
            self.assertAlmostEqual(case[name], found, delta=4 * NOISE, msg=name)
        self.assertAlmostEqual(seen["held"] - seen["ready"], case["steady_bytes"] - case["baseline_bytes"], delta=NOISE)

    def test_reports_say_the_same_and_show_prints_what_the_run_printed(self):
        report, rows, done = self.measure(*SMALL, "--placement", "pageable,mapped,pinned")
        self.assertEqual(report["axes"], ["touched"])
        self.assertEqual(list(rows[0]), [*COLUMNS, "touched", "role", *MEMORY])
        for case, row in zip(report["cases"], rows):
            for name in rows[0]:
                expected = "" if case[name] is None else case[name]
                self.assertEqual(type(expected)(row[name]), expected, name)
        for part in ("memory: what holding a table costs", "200,000 × 128 float32 (102 MB, 0.095 GiB)",
                     "speedtorch(mapped) 25%", "One row again: stbench --case 'memory in "):
            self.assertIn(part, done.stdout)
        self.assertNotIn("9.93", done.stdout)  # of 10,000,000 rows
        self.assertEqual(self.run_program("show", "r.json").stdout, done.stdout)
        self.assertEqual(self.run_program("show", "r.csv").stdout, below_machine(done.stdout))
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_with_another_suite_a_report_has_the_union_of_the_columns(self):
        report, rows, _ = self.measure("--suite", "transfer,memory", "--rows", "3k", "--batch", "500", "--samples", "3",
                                       "--placement", "pageable", "--device", "cpu", "--cores", "1")
        self.assertEqual(report["axes"], [*AXES, "touched"])
        self.assertEqual(list(rows[0]), [*COLUMNS, *AXES, "touched", *PLAIN, *(n for n in MEMORY if n not in PLAIN)])
        suites = {case["suite"] for case in report["cases"]}
        self.assertEqual(suites, {"transfer", "memory"})
        for case, row in zip(report["cases"], rows):
            memory = case["suite"] == "memory"
            self.assertEqual(case["touched"] is not None, memory)
            self.assertEqual(case["cache"] is None, memory)
            self.assertEqual(row["requested_bytes"], str(3000 * WIDTH) if memory else "")
            self.assertEqual(case["median_s"] is None, memory)
        shown = self.run_program("show", "r.csv").stdout
        self.assertIn("memory: what holding", shown)
        self.assertIn("to: table rows", shown)

    def test_a_case_can_be_run_again(self):
        cases = self.cases(*SMALL, "--placement", "mapped", "--row-bytes", "100")
        case_id = "memory in mapped -> speedtorch -> cpu bytes 200k×100 touched=0.25"
        again = self.cases("--case", case_id)
        self.assertEqual([key(case) for case in again], [("mapped", "speedtorch", 0.25)])
        self.assertEqual([case["dtype"] for case in again], ["bytes"])
        self.assertIn(case_id, self.run_program(*SMALL, "--row-bytes", "100", "--dry-run").stdout.splitlines())
        self.assertEqual(len(cases), 2)
        some = self.cases("--case", "memory in hugepage -> speedtorch -> cpu int8 300k×300 touched=0.5")[0]
        self.assertAlmostEqual(some["overhead_ratio"], 0.5, delta=4 * NOISE / 9e7)  # whole huge pages

    def test_filter_and_method_choose(self):
        cases = self.cases(*SMALL, "--filter", "in (pageable|mapped) .*200k×128$")
        self.assertEqual([key(case) for case in cases], [("pageable", "speedtorch", 1.0), ("mapped", "speedtorch", 1.0)])
        cases = self.cases(*SMALL, "--method", "libtorch", "--device", "cpu")
        self.assertEqual([key(case) for case in cases], [("libtorch", "libtorch", 1.0)])

    def test_list_names_the_suite_and_its_methods(self):
        text = run("list").stdout
        part = text[text.index("memory: "):text.index("optimizer: ")]
        for word in ("libtorch", "speedtorch", "numpy", "cupy", "touched", "10M"):
            self.assertIn(word, part)

    def test_numpy_holds_its_own_table(self):
        report, _, _ = self.measure(*SMALL, "--placement", "pageable", "--peers", "numpy", "--row-bytes", "503",
                                    STBENCH_PYTHON=sys.executable)
        ours, numpy = report["cases"]
        self.assertEqual((numpy["method"], numpy["status"], numpy["reason"]), ("numpy", "ok", ""))
        self.assertGreater(numpy["verified_rows"], ROWS // 100)
        self.assertAlmostEqual(numpy["overhead_ratio"], 1, delta=4 * NOISE / BYTES)
        self.assertLess(numpy["baseline_bytes"], ours["baseline_bytes"])
        self.assertIn("numpy", report["environment"]["peers"])

    def test_peers_without_a_part_are_waived(self):
        cases = self.cases(*SMALL, "--placement", "pageable", "--peers", "torch,cupy")
        reasons = {case["method"]: case["reason"] for case in cases if case["status"] == "waived"}
        self.assertEqual(set(reasons), {"torch", "cupy"})
        self.assertIn("--suite transfer", reasons["torch"])
        self.assertIn("pinned, device", reasons["cupy"])

    def planted(self, method, *arguments, status=0):
        """The case of a planted allocator, and an honest one that it must not disturb."""
        cases = self.cases(*SMALL, "--placement", "pageable", "--method", f"{method},speedtorch", *arguments,
                           program=PLANTED, status=status)
        found = {case["method"]: case for case in cases}
        self.assertEqual(found["speedtorch"]["status"], "ok", found["speedtorch"])
        self.assertAlmostEqual(found["speedtorch"]["overhead_ratio"], 1, delta=NOISE / BYTES)
        return found[method]

    def test_doubled_memory_is_reported(self):
        case = self.planted("takes_twice")
        self.assertEqual(case["status"], "ok")
        self.assertAlmostEqual(case["overhead_ratio"], 2, delta=NOISE / BYTES)

    def test_leak_is_reported(self):
        case = self.planted("never_frees")
        self.assertAlmostEqual(case["after_free_bytes"], case["steady_bytes"], delta=NOISE)

    def test_missing_resident_memory_is_unstable(self):
        case = self.planted("was_there_before")
        self.assertEqual(case["status"], "unstable")
        self.assertIn("of what was touched is in memory", case["reason"])

    def check_without_numbers(self, case, status, *parts):
        self.assertEqual(case["status"], status, case)
        for part in parts:
            self.assertIn(part, case["reason"])
        self.assertEqual({name for name in MEMORY if case[name] is not None}, {"requested_bytes"})

    def test_wrong_contents_have_no_numbers(self):
        self.check_without_numbers(self.planted("touches_nothing", status=1), "wrong", f"{ROWS} of {ROWS} rows")
        half = self.planted("fills_half", status=1)
        self.check_without_numbers(half, "wrong", f"{ROWS // 2} of {ROWS} rows")
        self.assertEqual(half["mismatches"], ROWS // 2)

    def test_processes_that_end_are_failed_with_the_reason(self):
        self.check_without_numbers(self.planted("is_killed", status=2), "failed", "was ended by signal 9")
        self.check_without_numbers(self.planted("says_last_words", status=2), "failed", "exit status 3",
                                   "planted last words")
        self.check_without_numbers(self.planted("has_no_memory", status=2), "failed", "cannot allocate: planted refusal")

    def test_a_process_that_hangs_is_ended_and_the_run_goes_on(self):
        began = time.monotonic()
        case = self.planted("never_ends", "--timeout", "5", status=2)
        self.check_without_numbers(case, "failed", "no answer within 5 s", "--timeout")
        self.assertLess(time.monotonic() - began, 60)

    def start_hanging(self):
        """A run that has held one honest table and hangs with the second; and the child that does."""
        flag = self.folder / "flag"
        process = subprocess.Popen(
            [PLANTED, *SMALL, "--method", "never_ends,speedtorch", "--placement", "pageable", "--csv", "r.csv", "--json",
             "r.json"], cwd=self.folder, env=environment(STBENCH_PLANTED_FILE=str(flag)), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertTrue(until(lambda: flag.exists() and flag.read_text(encoding="ascii").endswith("\n")),
                        "the child never came so far")
        child = int(flag.read_text(encoding="ascii"))
        flag.unlink()
        self.assertTrue(is_alive(child))
        return process, child

    def test_interrupted_run_reports_what_was_finished_and_leaves_no_child(self):
        process, child = self.start_hanging()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        report = read_json(self.folder / "r.json")
        self.assertIs(report["interrupted"], True)
        self.assertEqual([(case["method"], case["status"]) for case in report["cases"]], [("speedtorch", "ok")])
        self.assertIn("Interrupted", stdout)
        self.assertFalse(Path(f"/proc/{child}").exists(), "not even as a zombie")

    def test_killed_run_leaves_no_child(self):
        process, child = self.start_hanging()
        process.kill()
        process.wait()
        self.assertTrue(until(lambda: not is_alive(child)))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_mistakes_are_said_before_anything_is_allocated(self):
        case = "memory in pageable -> speedtorch -> cpu float32 3k×128"
        mistakes = [
            (["--rows", "1000G"], ["512", "bytes", "available", "--rows", "would fit"]),
            (["--rows", "9G", "--dim", "9G"], ["overflows"]),
            (["--rows", "0"], ["--rows 0", "at least 1"]),
            (["--dim", "0"], ["--dim 0"]),
            (["--rows", "1", "--dim", "1T"], ["--dim"]),
            (["--batch", "5"], ["--batch", "no meaning for --suite memory"]),
            (["--direction", "to"], ["--direction", "no meaning for --suite memory"]),
            (["--samples", "5"], ["--samples", "no meaning for --suite memory"]),
            (["--method", "index_select"], ["--method index_select is no method of --suite memory"]),
            (["--placement", "pinned", "--device", "cpu"], ["pinned", "--device cpu"]),
            (["--row-bytes", "4", "--dim", "4"], ["--row-bytes", "--dim"]),
        ]
        for arguments, parts in mistakes:
            with self.subTest(arguments=arguments):
                self.check_refused(["--suite", "memory", *arguments], parts)
        case_ids = [(case.replace("3k×128", "3k"), ["ROWS×DIM"]), (case + " batch 5", ["too many"]),
                     (case + " touched=2", ["touched=2"]), (case + " touched=0", ["touched=0"]),
                     (case.replace(" in ", " to "), ["'to'"]), (case.replace("speedtorch", "numpie"), ["'numpie'"])]
        for case_id, parts in case_ids:
            with self.subTest(case_id=case_id):
                self.check_refused(["--case", case_id], parts)

    def check_refused(self, arguments, parts):
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertTrue(1 <= len(done.stderr.splitlines()) <= 3, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
