"""stbench compare --run: two programs, measured in turn and compared."""

import copy
import json
import shlex
import signal
import subprocess
import unittest

from program import HOST, PLANTED, PROGRAM, ROOT, ProgramTest, environment, read_json

REPORT = ROOT / "tests" / "data" / "report-1.0.json"
CASES = ("--suite", "transfer", "--placement", "hugepage", "--direction", "to", "--rows", "20k", "--batch", "10k", "--cores",
         "1", "--samples", "7", *HOST)
TINY = (*CASES, "--method", "speedtorch,copy")


class CompareRunTest(ProgramTest):
    def program(self, name, line):
        """A program that notes its turn and its options, and does what the line of shell says."""
        path = self.file(name, f'#!/bin/sh\necho {name} >>turns\necho "$*" >"{name} options"\n{line}\n')
        path.chmod(0o755)
        return path

    def pretender(self, name, slower=1.0, slow_runs=(), before="", row_plan=None, origin="stored", **fields):
        """Writes reports as if it had measured: each process is up to half a per cent off. In those of slow_runs, counted
        from 1, the machine is slow. It does first what the line of shell before says."""
        report = json.loads(REPORT.read_text(encoding="utf-8"))
        if row_plan:
            report["environment"]["row_plan"] = {"origin": origin, "plan": row_plan}
        for run in range(10):
            one = copy.deepcopy(report)
            for number, case in enumerate(one["cases"]):
                factor = (slower if case["method"] == "speedtorch" else 1) * (1 + 0.001 * (run % 5) * ((number * 7919) % 11 - 5) / 5)
                factor *= 1.6 if run + 1 in slow_runs else 1
                case["samples_s"] = [sample * factor for sample in case["samples_s"]]
                for column in ("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s"):
                    case[column] = case[column] and case[column] * factor
            one["cases"][0].update(fields)
            self.file(f"{name} {run + 1}.json", json.dumps(one))
        return self.program(name, f'{before}\nfor last; do :; done; cp "{name} $(grep -c {name} turns).json" "$last"')

    def compare(self, base, new, *options, measure=TINY, status=(0,), **variables):
        done = self.run_program("compare", "--run", str(base), str(new), *options, "--", *measure, TMPDIR=str(self.folder / "tmp"),
                                **variables)
        self.assertIn(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return done

    def setUp(self):
        super().setUp()
        (self.folder / "tmp").mkdir()

    def turns(self):
        return (self.folder / "turns").read_text(encoding="utf-8").split()

    def test_two_programs_take_turns_and_their_reports_are_kept(self):
        run = f'exec {shlex.quote(PROGRAM)} "$@"'
        ours = (*CASES, "--method", "speedtorch,stream")  # without LibTorch's rows no pair is measured again
        done = self.compare(self.program("b", run), self.program("n", run), "--processes", "3", "--keep", "kept", "--all", "--json",
                            "c.json", measure=ours, status=(0, 1, 4))
        self.assertEqual(self.turns(), ["b", "n", "n", "b", "b", "n"])
        self.assertIn("NEW, process 3 of 3\n", done.stderr)
        for side in ("base", "new"):
            reports = [read_json(self.folder / "kept" / side / f"{i}.json") for i in (1, 2, 3)]
            self.assertEqual([len(report["cases"]) for report in reports], [2, 2, 2])
        again = self.run_program("compare", "--all", "kept/base", "--", "kept/new")
        self.assertEqual((again.returncode, again.stdout), (done.returncode, done.stdout))
        self.assertEqual([case["base_runs"] for case in read_json(self.folder / "c.json")["cases"]], [3, 3])

    def test_both_get_the_same_options_and_five_processes(self):
        self.compare(self.pretender("b"), self.pretender("n"), "--must-see", "10%")
        self.assertEqual(self.turns(), ["b", "n", "n", "b"] * 2 + ["b", "n"])
        for name in "bn":
            options = (self.folder / f"{name} options").read_text(encoding="utf-8")
            self.assertEqual(options.split(" --json ")[0].split(), ["run", *TINY])

    def test_new_takes_the_row_plan_of_base(self):
        note = 'echo $(basename "$0") $(cat "$SPEEDTORCH_PLAN" || echo "${SPEEDTORCH_PLAN-own}") 2>&- >>plans'
        base = self.pretender("b", before=note, row_plan={"z": "1", "a": "cached l2 1 2"})
        new = self.pretender("n", before=note, row_plan={"z": "2"})
        defaults = self.pretender("d", before=note, row_plan={"z": "1"}, origin="defaults (the stored plan is another machine's)")
        for base, named, plans in ((base, None, ["b own", "n z: 1 a: cached l2 1 2"]), (base, "fixed", ["b fixed", "n fixed"]),
                                   (defaults, None, ["d own", "n fixed"])):  # the defaults are part of the code
            done = self.compare(base, new, "--processes", "2", SPEEDTORCH_PLAN=named)
            self.assertNotIn("row plan", done.stderr)
            path = self.folder / "plans"
            self.assertEqual(path.read_text(encoding="utf-8").splitlines(), [*plans, *plans[::-1]])
            path.unlink()

    def test_new_that_refuses_the_row_plan_of_base_takes_its_own(self):
        said = "stbench: NEW ended with exit status 2 and may refuse BASE's row plan: measuring it again by its own plan\n"
        base = self.pretender("b", row_plan={"z": "1"})
        refusing = self.pretender("n", before='[ -z "$SPEEDTORCH_PLAN" ] || exit 2')
        self.assertEqual(self.compare(base, refusing, "--processes", "2", SPEEDTORCH_PLAN=None).stderr.count(said), 1)
        self.assertEqual(self.turns(), ["b", "n", "n", "n", "b"])
        for status, times in ((2, 1), (3, 0)):
            done = self.compare(base, self.program("f", f"exit {status}"), status=(2,), SPEEDTORCH_PLAN=None)
            self.assertEqual(done.stderr.count(said), times)
            self.assertIn(f'" ended with exit status {status} and without a report', done.stderr)

    def test_the_row_plan_of_a_real_base(self):
        measure = f'SPEEDTORCH_PLAN=mine.plan {shlex.quote(PROGRAM)} "$@"'
        rename = '; status=$?; for last; do :; done; sed -i s/thread_bytes/threadbytes/ "$last"; exit $status'
        self.run_program(*TINY, "--json", "r.json", SPEEDTORCH_PLAN="fixed")
        mine = {**read_json(self.folder / "r.json")["environment"]["row_plan"]["plan"], "thread_bytes": "54321"}
        self.file("mine.plan", "".join(f"{key}: {value}\n" for key, value in mine.items()))
        own_cache = {"SPEEDTORCH_PLAN": None, "XDG_CACHE_HOME": str(self.folder / "cache")}
        for name, line, is_taken in (("b", measure, True), ("other", measure + rename, False)):
            done = self.compare(self.program(name, line), PROGRAM, "--processes", "1", "--keep", "kept", status=(0, 1, 4), **own_cache)
            taken = read_json(self.folder / "kept/new/1.json")["environment"]["row_plan"]
            self.assertEqual(taken["plan"] == mine, is_taken, taken)
            self.assertEqual("the plan 'BASE.plan': " in done.stderr, not is_taken, done.stderr)
            self.assertEqual("measuring it again by its own plan" in done.stderr, not is_taken, done.stderr)

    def test_a_slower_program_is_found(self):
        done = self.compare(self.pretender("b"), self.pretender("n", slower=1.1), "--must-see", "10%", status=(1,))
        self.assertIn("Slower: 2 cases, the worst, speedtorch", done.stdout)

    def test_a_pair_in_which_the_machine_changed_is_measured_again(self):
        done = self.compare(self.pretender("b", slow_runs=[3]), self.pretender("n"), "--must-see", "10%", "--keep", "kept")
        self.assertEqual(self.turns(), ["b", "n", "n", "b", "b", "n", "b", "n", "n", "b", "b", "n"])
        self.assertIn("BASE, process 3 of 5\nNEW, process 3 of 5\nmeasuring both processes 3 again: LibTorch's own rows took "
                      "1.60 times as long in the process of BASE\nBASE, process 3 of 5\n", done.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "kept/base").iterdir()), [f"{i}.json" for i in range(1, 6)])
        kept = [read_json(self.folder / "kept/base" / f"{i}.json")["cases"][0]["median_s"] for i in range(1, 6)]
        self.assertLess(max(kept), 1.1 * min(kept))

    def test_a_machine_that_is_slow_in_each_process_of_a_side_ends_the_repetitions(self):
        done = self.compare(self.pretender("b"), self.pretender("n", slow_runs=range(1, 11)), status=(4,))
        self.assertEqual(len(self.turns()), 20)
        self.assertEqual([done.stderr.count(f"measuring both processes {pair} again") for pair in range(1, 6)], [2, 2, 1, 0, 0])
        self.assertEqual(done.stderr.count("keeping both processes"), 5)
        self.assertIn("state differs", done.stdout)

    def test_a_planted_slowdown_is_never_green(self):
        # An interval of 95 % lies below the true change in 1 of 40 comparisons: the plant is twice what must be seen.
        late = self.program("n", f'STBENCH_PLANTED_LATE=0.20 exec {shlex.quote(PLANTED)} "$@"')
        self.compare(PLANTED, late, "--processes", "3", "--must-see", "10%", measure=(*CASES, "--method", "late,copy"),
                     status=(1, 4))

    def test_compare_real_counts_the_exit_statuses(self):
        self.pretender("b"), self.pretender("n", slower=1.1)
        measure = 'echo $side >>turns; for last; do :; done; cp "$side $(($(grep -c $side turns) % 5 + 1)).json" "$last"'
        program = self.program("p", f'if [ "$1" = compare ]; then exec {shlex.quote(PROGRAM)} "$@"; fi\n'
                                    f'side=b; if [ "$STBENCH_PLANTED_LATE" = 0.10 ]; then side=n; fi; {measure}')
        for late, text in (({}, "exit status 0: 2 of 2\n"), ({"STBENCH_PLANTED_LATE": "0.10"}, "exit status 1: 2 of 2\n")):
            done = subprocess.run([ROOT / "scripts/compare-real", "--in-turn", "2", *TINY], cwd=self.folder, text=True,
                                  env=environment(STBENCH_PROGRAM=str(program), **late), capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.split("\n", 2)[2], text, done.stdout)

    def test_a_side_that_fails_is_named_with_its_command_and_status(self):
        report = self.pretender("b")
        wrong = self.pretender("wrong", status="wrong", reason="row 3 differs", median_s=None, samples_s=[])
        wrong.write_text(wrong.read_text(encoding="utf-8") + "exit 1\n", encoding="utf-8")
        both = self.pretender("both", status="wrong", reason="row 3 differs", median_s=None, samples_s=[])
        with_failure = read_json(self.folder / "both 1.json")
        with_failure["cases"][1].update(status="failed", reason="no memory", median_s=None, samples_s=[])
        self.file("both 1.json", json.dumps(with_failure))
        for program, said in ((self.program("n", "exit 7"), '" ended with exit status 7 and without a report'),
                              (self.program("q", "exit 0"), '" ended with exit status 0 and without a report'),
                              (both, '" ended with exit status 0; transfer '),
                              (wrong, '" ended with exit status 1; transfer '),
                              (self.program("k", "kill -9 $$"), '" ended with exit status 137 and without a report'),
                              (self.folder / "tmp", f"NEW: cannot start {self.folder}/tmp: ")):
            (self.folder / "turns").unlink(missing_ok=True)
            done = self.compare(report, program, "--keep", "kept", "--json", "c.json", status=(2,))
            self.assertIn(said, done.stderr)
            if program.is_file():
                self.assertIn(f'NEW: "{program} run --suite transfer ', done.stderr)
                self.assertEqual(self.turns(), ["b", program.name])
            self.assertFalse((self.folder / "kept").exists() or (self.folder / "c.json").exists())
        self.assertIn(f'BASE: "{wrong} run', self.compare(wrong, report, status=(2,)).stderr)
        self.assertIn(" is wrong: row 3 differs", self.compare(wrong, report, status=(2,)).stderr)

    def test_a_failed_case_is_left_to_the_comparison(self):
        base = self.pretender("b")
        failed = self.pretender("f", status="failed", reason="no memory", median_s=None, samples_s=[])
        failed.write_text(failed.read_text(encoding="utf-8") + "exit 2\n", encoding="utf-8")
        self.assertIn("failed", self.compare(base, failed, "--processes", "2", status=(1,)).stdout)
        (self.folder / "turns").unlink()
        self.compare(base, failed, "--processes", "2", "--allow-missing", status=(0, 4))

    def test_sides_that_are_not_comparable_end_after_one_process_each(self):
        report = json.loads(REPORT.read_text(encoding="utf-8"))
        build = {**report["environment"]["build"], "compiler": "another"}
        for name, change in (("other", ("environment", {**report["environment"], "build": build})),
                             ("later", ("schema_version", "9.0"))):
            self.file("other 1.json", json.dumps({**report, change[0]: change[1]}))
            other = self.program(name, 'for last; do :; done; cp "other 1.json" "$last"')
            done = self.compare(self.pretender("b"), other, status=(3,))
            self.assertEqual(self.turns(), ["b", name])
            self.assertIn("not comparable", done.stderr)
            (self.folder / "turns").unlink()

    def test_an_interrupt_ends_all_and_leaves_nothing(self):
        slow = ("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--method", "slow", "--rows", "1k",
                "--batch", "300", "--cores", "1", "--samples", "2000", *HOST)
        process = self.start("compare", "--run", PLANTED, PLANTED, "--keep", "kept", "--json", "c.json", "--", *slow,
                             announced="slow", TMPDIR=str(self.folder / "tmp"))
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout), (128 + signal.SIGTERM, ""), stderr)
        self.assertNotIn("NEW, process", stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["tmp"])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_options_that_would_be_ignored_are_refused(self):
        for words, said in ((("compare", "--run", "a", "b"), "two programs and the options"),
                            (("compare", "--run", "a", "--", *TINY), "two programs and the options"),
                            (("compare", "--run", "a", "b", "--", *TINY, "--json", "r.json"), "--json is no option of the proc"),
                            (("compare", "--run", "a", "b", "--", *TINY, "--must-see=1%"), "it stands before the --"),
                            (("compare", "--run", "a", "b", "--", *TINY, "--events", "e"), "--events is no option of the proc"),
                            (("compare", "--run", "a", "b", "--", *TINY, "--dry-run"), "--dry-run measures nothing"),
                            (("compare", "--run", "a", "b", "--", "--help"), "--help measures nothing"),
                            (("compare", "--run", "a", "b", "--keep", "no/such/k", "--", *TINY), "--keep no/such/k: no folder"),
                            (("compare", "a", "--", "--run", "b"), "go with --run"),
                            (("compare", "--processes", "3", "a", "b"), "go with --run"),
                            (("compare", "--keep", "k", "a", "b"), "go with --run"),
                            ((*TINY, "--baseline", "m", "--run"), "--run goes with compare alone")):
            done = self.run_program(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
