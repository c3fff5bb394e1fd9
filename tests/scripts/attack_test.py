"""What scripts/inject and scripts/kill-storm take for a fault, of a program that has one, and when scripts/kill-storm kills."""

import dataclasses
import importlib.machinery
import importlib.util
import os
import random
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "lib"))
import attack


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


kill_storm = load("kill-storm")
inject = load("inject")

# Makes its report as told by $FAULT.
PROGRAM = """#!/bin/sh
whole='{"cases": [1, 2]}'
case "$*" in
  *a.json*) echo "$whole" > a.json; echo a > a.csv; exit 0 ;;
  finish) rm -f .r.json.journal; grep -q cases r.json; exit ;;
  big) head -c 5000 /dev/zero > big.bin; exit ;;
esac
echo 'a table'
case $FAULT in
  torn) echo '{"cases": [1' > r.json ;;
  fewer) echo '{"cases": [1]}' > r.json ;;
  without) ;;
  missing) rm r.json ;;
  one) exit 1 ;;
  silent) exit 2 ;;
  bare) echo 'stbench: Input/output error' >&2; exit 2 ;;
  said) echo 'stbench: cannot write "r.json": Input/output error' >&2; exit 2 ;;
  failed) echo "$whole" > r.json; echo '  failed copy(pageable): the system refuses the affinity'; exit 2 ;;
  signal) kill -SEGV $$ ;;
  machine) echo "$whole" > r-of-this-machine.json ;;
  events) printf '{"event": "start"}\n{"event": "end"}\n' > e.jsonl ;;
  fewer-events) printf '{"event": "start"}\n{"eve' > e.jsonl ;;
  no-events) printf '{"event": "start"\n' > e.jsonl ;;
  journal) echo "$whole" > r.json; echo half > .r.json.journal; echo 'stbench: cannot write r.json: full' >&2; exit 2 ;;
  left) echo "$whole" > r.json; echo half > .r.json.new-0123456789abcdef ;;
  litter) echo "$whole" > r.json; echo half > tmp/else ;;
  *) echo "$whole" > r.json ;;
esac
"""
JOB = attack.Job("job", "stbench", ("--json", "r.json"), ("r.json",), replaces=True, same=False)

LOG = """10 openat(AT_FDCWD, "/lib/libc.so") = 3
10 fcntl(0, F_GETFD)                = 0
10 openat(AT_FDCWD, "r.json")       = 3
11 openat(AT_FDCWD, "other")        = 4
11 openat(AT_FDCWD, "other")        = 4
10 write(3, "x" <unfinished ...>
11 fsync(3)                         = 0
10 <... write resumed>)             = 1
"""


class AttackTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "stbench"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.bench = attack.Bench(program, "", "")
        self.addCleanup(self.bench.close)
        self.bench.learn(JOB)

    def faults(self, fault, job=JOB, **hit):
        folder = self.bench.prepared(job)
        done = self.bench.run(("env", f"FAULT={fault}", *self.bench.command(job)), folder)
        return attack.faults_of(self.bench, job, done, folder, **hit)

    def learned(self, fault, **changes):
        """A job whose undisturbed command is as told."""
        job = dataclasses.replace(JOB, name=fault, **changes)
        with unittest.mock.patch.dict(os.environ, FAULT=fault):
            self.bench.learn(job)
        return job

    def test_what_is_well_is_no_fault(self):
        self.assertEqual(self.faults("none"), [])
        self.assertEqual(self.faults("said"), [])
        self.assertEqual(self.faults("failed"), [])

    def test_a_csv_of_failed_cases_has_fewer_columns(self):
        like = b"case,status,spread\na,ok,1\nb,ok,2\n"
        for text, whole in ((b"case,status\na,failed\nb,failed\n", True), (b"case,status\na,failed\nb\n", False),
                            (b"case,status\na,failed\n", False), (b"case,stat\na,failed\nb,failed\n", False)):
            self.assertEqual(attack.is_whole("r.csv", text, like), whole, text)

    def test_each_fault_is_seen(self):
        for fault, wanted in {
                "torn": "r.json is torn", "fewer": "r.json is torn", "missing": "r.json is missing",
                "without": "exit status 0 without r.json", "one": "exit status 1", "silent": "no message",
                "bare": "a message that names nothing: Input/output error", "signal": "ended by signal 11",
                "left": "left behind: .r.json.new-0123456789abcdef", "litter": "left behind: tmp/else"}.items():
            with self.subTest(fault):
                self.assertIn(wanted, self.faults(fault))

    def test_a_hit_excuses_what_it_makes_impossible_and_no_more(self):
        self.assertEqual(self.faults("silent", stderr_was_hit=True), [])
        self.assertEqual(self.faults("left", removal_was_hit=True), [])
        self.assertIn("exit status 1", self.faults("one", stderr_was_hit=True))
        self.assertIn("left behind: tmp/else", self.faults("litter", removal_was_hit=True))

    def test_a_file_is_found_whose_name_depends_on_the_machine(self):
        job = self.learned("machine", files=("r-*.json",), replaces=False)
        self.assertEqual(self.bench.files(job), ["r-of-this-machine.json"])
        self.assertEqual(self.faults("machine", job), [])
        self.assertEqual(self.faults("without", job), ["exit status 0 without r-of-this-machine.json"])

    def test_a_file_that_grows_has_the_first_lines_of_an_interrupted_command(self):
        job = self.learned("events", files=("e.jsonl",), lines=("e.jsonl",))
        self.assertEqual(self.faults("events", job), [])
        self.assertEqual(self.faults("fewer-events", job), ["exit status 0 without e.jsonl"])
        self.assertEqual(self.faults("no-events", job), ["e.jsonl is torn", "exit status 0 without e.jsonl"])

    def test_what_is_left_is_judged_by_the_next_command(self):
        job = self.learned("none", check=("finish",), kept=(".r.json.journal",))
        self.assertEqual(self.faults("journal", job), [])
        self.assertEqual(self.faults("journal", dataclasses.replace(job, check=("list",))),
                         ["left behind by list: .r.json.journal"])
        said, = self.faults("said", job)  # nothing is in the file
        self.assertIn("finish, then: exit status 1", said)

    def test_a_limit_on_file_sizes_is_met(self):
        job = attack.Job("big", "stbench", ("big",), ("big.bin",))
        self.bench.learn(job)
        _, _, faults, done = inject.made(self.bench, inject.Injection(job, attack.Point(inject.LIMIT, 5000), "EFBIG"))
        self.assertEqual((faults, done.status), ([], 0))
        _, _, faults, _ = inject.made(self.bench, inject.Injection(job, attack.Point(inject.LIMIT, 4999), "EFBIG"))
        self.assertEqual(faults, ["ended by signal 25", "big.bin is torn"])

    def test_limits_are_below_the_largest_file(self):
        source = inject.drawn({JOB: [attack.Point(inject.LIMIT, 3)]}, random.Random(1))
        self.assertEqual({next(source).point.number for _ in range(100)}, {0, 1, 2})

    def test_a_program_that_hangs_is_ended(self):
        program = Path(self.bench.programs["stbench"])
        done = self.bench.run(("sh", "-c", "sleep 100"), program.parent, kill_after=0.1)
        self.assertEqual(done.status, -9)
        done.status = None
        self.assertIn("hangs", attack.faults_of_end(self.bench, JOB, done)[0])

    def test_points_are_calls_after_the_begin_that_no_thread_reaches_before(self):
        point = attack.Point
        self.assertEqual(attack.points(LOG, ("openat", "write", "fsync")),
                         [point("openat", 2), point("write", 1), point("fsync", 1)])
        with self.assertRaises(attack.Unusable):
            attack.points("10 openat(AT_FDCWD) = 3\n", ("openat",))

    def test_parts_add_up(self):
        for number in (1, 60, 2003):
            self.assertEqual(sum(attack.share(number, (part, 7)) for part in range(1, 8)), number)


class KillStormTest(unittest.TestCase):
    def setUp(self):
        # Runs take 0.8 to 1.2 of their usual time, as where other programs share the cores.
        self.random = random.Random(1)
        self.usual = 1.0
        self.surveys = {JOB: kill_storm.Survey([self.run_seconds()])}

    def run_seconds(self):
        return self.usual * self.random.uniform(0.8, 1.2)

    def kills(self, number):
        """The instants of so many kills, and the seconds of the run that each meets."""
        source = kill_storm.drawn(self.surveys, self.random)
        for kill in (next(source) for _ in range(number)):
            seconds = self.run_seconds()
            if kill.seconds >= seconds or kill.number % kill_storm.AGAIN_AFTER == 0:
                self.surveys[JOB].runs.append(seconds)
            yield kill.seconds, seconds

    def test_strace_kills_at_a_call(self):
        strace = attack.Strace()
        if strace.reason:
            self.skipTest(strace.reason)
        with tempfile.TemporaryDirectory() as folder:
            bench = attack.Bench.__new__(attack.Bench)  # runs commands, and knows no program
            command = attack.Strace.command(["unlink", "unlinkat"], "/dev/null", "unlink,unlinkat:signal=SIGKILL:when=1")
            kept = Path(folder, "kept")
            kept.write_text("")
            done = bench.run((*command, "rm", str(kept)), Path(folder))
            self.assertEqual((done.status, kept.exists()), (-9, True))

    def test_kills_come_while_the_command_runs(self):
        self.assertLess(sum(instant >= seconds for instant, seconds in self.kills(1000)), 50)

    def test_kills_come_in_time_when_runs_become_shorter(self):
        list(self.kills(50))
        self.usual = 0.5
        self.assertLess(sum(instant >= seconds for instant, seconds in self.kills(1000)), 50)

    def test_kills_come_late_in_runs_that_become_longer(self):
        self.usual = 2.0
        list(self.kills(50))
        self.assertGreater(sum(instant > 0.7 * seconds for instant, seconds in self.kills(1000)), 300)


if __name__ == "__main__":
    unittest.main()
