"""A run on a system that refuses something: a report that was measured is not lost, and exit status 1 means a wrong
result and nothing else."""

import os
import resource
import subprocess
import unittest

from program import HOST, PROGRAM, SMALL, ProgramTest, environment, read_csv, read_json
from warm_start import preloadable

QUICK = (*SMALL, "--direction", "to", "--placement", "pageable", "--method", "speedtorch,copy", *HOST)
FAILING_SYSTEM = preloadable(os.environ.get("STBENCH_FAILING_SYSTEM", ""))


class FailingSystemTest(ProgramTest):
    def run_where(self, failing, *arguments):
        return self.run_program(*arguments, LD_PRELOAD=FAILING_SYSTEM, STBENCH_FAILING=failing)

    def test_unreadable_caches_cost_google_benchmarks_file_only(self):
        done = self.run_where("caches", *QUICK, "--csv", "r.csv", "--json", "r.json", "--trace", "t.json",
                              "--benchmark_out", "g.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("Google Benchmark", done.stderr)
        self.assertIn("Failed to read from file /sys/devices/system/cpu/cpu0/cache/index0/type", done.stderr)
        self.assertIn("GB/s", done.stdout)
        self.assertEqual(len(read_json(self.folder / "r.json")["cases"]), len(read_csv(self.folder / "r.csv")))
        self.assertTrue(read_json(self.folder / "t.json")["traceEvents"])
        self.assertFalse((self.folder / "g.json").exists())

    def test_unreadable_caches_do_not_matter_without_google_benchmarks_file(self):
        done = self.run_where("caches", *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_google_benchmarks_variables_do_not_matter(self):
        done = self.run_program(*QUICK, "--json", "r.json", "--benchmark_out", "g.json", BENCHMARK_FILTER="none",
                                BENCHMARK_OUT="other.json", BENCHMARK_OUT_FORMAT="csv", BENCHMARK_LIST_TESTS="true",
                                BENCHMARK_REPETITIONS="7", BENCHMARK_REPORT_AGGREGATES_ONLY="true")
        self.assertEqual(done.returncode, 0, done.stderr)
        samples = sum(len(case["samples_s"]) for case in read_json(self.folder / "r.json")["cases"])
        runs = [one for one in read_json(self.folder / "g.json")["benchmarks"] if one["run_type"] == "iteration"]
        self.assertEqual(len(runs), samples)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["g.json", "r.json"])

    def test_threads_that_cannot_be_started_are_named_with_the_cure(self):
        done = self.run_where("threads", *QUICK, "--json", "r.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        for part in ("threads", "only 0 could be started", "Resource temporarily unavailable", "--cores", "ulimit -u"):
            self.assertIn(part, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_thread_of_its_own_that_cannot_be_started_is_said_to_be_one(self):
        measured = 0
        for number in range(1, 100):  # the first are tried out, each by a message of its own
            done = self.run_where(f"thread {number}", *QUICK)
            if done.returncode == 0:  # the doctor's, who does not know then
                measured += 1
                continue
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, "(?i)thread")
            if "stbench: a thread cannot be started: Resource temporarily unavailable; use fewer --cores" in done.stderr:
                break
        self.assertLessEqual(measured, 1)

    def test_a_library_that_ends_the_program_is_no_wrong_result(self):
        done = self.run_where("exit", *QUICK, "--json", "r.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("stbench: a library ended the program; what it says is above\n", done.stderr)

    def test_a_file_beyond_the_limit_on_sizes_is_an_error_of_that_file(self):
        limit = (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        done = subprocess.run(
            [PROGRAM, *QUICK, "--csv", "r.csv", "--json", "r.json", "--trace", "t.json", "--events", "e.jsonl"],
            cwd=self.folder, capture_output=True, text=True, timeout=280, env=environment(), check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
        self.assertEqual(done.returncode, 2, done.stderr)
        for name in ("r.json", "t.json", "e.jsonl"):
            self.assertIn(f'cannot write "{name}": File too large', done.stderr)
        self.assertGreater(len(read_csv(self.folder / "r.csv")), 0)
        self.assertIn("GB/s", done.stdout)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["e.jsonl", "r.csv"])


if __name__ == "__main__":
    unittest.main()
