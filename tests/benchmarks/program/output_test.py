"""What goes where: results on stdout, messages on stderr, colour on terminals only; help, version, Google Benchmark."""

import csv
import fcntl
import io
import json
import math
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
import unittest

from program import COLUMNS, HOST, PROGRAM, ROOT, SMALL, ProgramTest, environment, messages, read_json, run

QUICK = (*SMALL, *HOST, "--cores", "1", "--placement", "libtorch,hugepage")
ESCAPE = re.compile("\x1b\\[[0-9;]*m")
WIDTH = 100

# A good value of each option, so that each is seen to be taken.
VALUES = {
    "--suite": "transfer", "--preset": "quick", "--filter": "to", "--direction": "to", "--placement": "libtorch",
    "--method": "speedtorch", "--device": "cpu", "--rows": "2k", "--dim": "3", "--batch": "10", "--dtype": "int8",
    "--index-dtype": "int32", "--distribution": "uniform", "--cores": "1", "--callers": "2", "--samples": "3", "--warmup": "2",
    "--timeout": "9", "--verify": "every", "--seed": "4", "--csv": "a.csv", "--json": "a.json", "--cache": "cold",
    "--events": "a.jsonl", "--trace": "a.trace", "--expect": "to>=1", "--color": "never", "--isa": "baseline",
    "--benchmark_filter": "to", "--benchmark_out": "a.txt", "--benchmark_out_format": "csv",
    "--benchmark_color": "false", "--baseline": "main", "--save-baseline": "main", "--processes": "1",
    "--baselines": "b", "--effect": "5%", "--must-see": "10%",
    "--metric": "time", "--across": "build", "--markdown": "a.md",
}
ALONE = {"--row-bytes": "7", "--cache-bytes": "10k", "--peers": "gather", "--workload": "tiny",
         "--time-budget": "60s", "--case": "transfer to libtorch -> speedtorch -> cpu int8 9×9 batch 2 unique int64 cores=1"}
STEPS = {"--optimizer": ("optimizer", "Adam"), "--text": ("embedding", __file__), "--negatives": ("embedding", "3"),
         "--table": ("optimizer", str(ROOT / "tests/corpus/npy/version-1")), "--shape": ("contiguous", "linears"), "--clip": ("contiguous", "0.5"),
         "--model": ("infinitybatch", "mlp"), "--micro-batch": ("infinitybatch", "fixed"),
         "--ranks": ("sharded", "3"), "--engine": ("sharded", "shared"), "--sharding": ("sharded", "hashed"),
         "--remote": ("sharded", "0.5")}
FLAGS = {"-h", "--help", "--version", "--dry-run", "--benchmark_list_tests", "--allow-missing", "--all",
         "--quiet"}


def on_terminal(*arguments, columns=0, messages_too=False, **variables):
    """What the program writes to a terminal as its stdout; with messages_too, also as its stderr."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *arguments], stdout=slave, stderr=slave if messages_too else subprocess.DEVNULL,
                               env=environment(**variables))
    os.close(slave)
    written = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(master)
    return process.wait(), written.decode()


class OutputTest(ProgramTest):
    def check_width(self, text, width=WIDTH):
        for line in text.splitlines():
            self.assertLessEqual(len(ESCAPE.sub("", line)), width, line)

    def test_json_alone_on_stdout(self):
        done = run(*QUICK, "--json", "-")
        self.assertEqual((done.returncode, messages(done.stderr)), (0, ""))
        self.assertEqual(json.loads(done.stdout)["argv"][-2:], ["--json", "-"])

    def test_csv_alone_on_stdout(self):
        done = self.run_program(*QUICK, "--csv", "-", "--json", "beside.json")
        rows = list(csv.reader(io.StringIO(done.stdout), strict=True))
        self.assertEqual(rows[0][:len(COLUMNS)], COLUMNS)
        self.assertEqual(len(rows) - 1, len(read_json(self.folder / "beside.json")["cases"]))
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})

    def test_google_benchmark_alone_on_stdout(self):
        self.assertIn("benchmarks", json.loads(run(*QUICK, "--benchmark_out", "-").stdout))

    def test_results_on_stdout_and_nothing_on_stderr(self):
        done = run(*QUICK)
        self.assertEqual((done.returncode, messages(done.stderr)), (0, ""))
        for part in ("stbench ", "to: ", "from: ", "sum: ", "round_trip: ", "of ceiling", "eep such a table (",
                     "Our table in hugepage against LibTorch's best in libtorch", "One row again: "):
            self.assertIn(part, done.stdout)

    def test_screen_is_at_most_100_columns_wide(self):
        self.check_width(run(*SMALL).stdout)
        wide = self.run_program("--suite", "transfer", "--samples", "3", "--rows", "1234567", "--dim", "1", "--batch",
                                "123456", "--dtype", "bfloat16", "--distribution", "zipf:1.0625", "--index-dtype",
                                "int32", "--seed", "123456789", "--placement", "hugepage,libtorch", *HOST)
        self.check_width(wide.stdout)
        self.assertEqual(wide.returncode, 0)

    def test_a_processor_with_a_long_name_is_named_in_100_columns(self):
        self.run_program(*QUICK, "--json", "r.json")
        report = read_json(self.folder / "r.json")
        report["environment"]["cpu"]["model"] = "Intel(R) Xeon(R) Platinum 8481C Processor, of a virtual machine"
        (self.folder / "r.json").write_text(json.dumps(report))
        shown = self.run_program("show", str(self.folder / "r.json")).stdout
        self.check_width(shown)
        self.assertIn("Platinum 8481C Processor, of a virtual machine", " ".join(shown.split()))

    def test_the_first_line_names_the_processors_design(self):
        self.run_program(*QUICK, "--json", "r.json")
        report = read_json(self.folder / "r.json")
        report["environment"]["cpu"]["model"] = "AMD EPYC"
        for design, named in (("family 25, model 17", "AMD EPYC (family 25, model 17), "), (None, "AMD EPYC, ")):
            report["environment"]["cpu"]["design"] = design
            (self.folder / "r.json").write_text(json.dumps(report))
            shown = self.run_program("show", str(self.folder / "r.json")).stdout
            self.assertIn(f": {named}", " ".join(shown.split()))

    def test_pipes_are_plain_unless_colour_is_asked_for(self):
        self.assertNotIn("\x1b", run(*QUICK).stdout)
        self.assertNotIn("\x1b", run(*QUICK, "--color", "never").stdout)
        coloured = run(*QUICK, "--color", "always").stdout
        self.assertIn("\x1b[", coloured)
        self.check_width(coloured)
        self.assertIn("\x1b[", run(*QUICK, "--benchmark_color=true").stdout)

    def test_terminals_have_colour_unless_they_or_the_user_refuse(self):
        self.run_program(*QUICK, "--json", "r.json")
        show = ("show", str(self.folder / "r.json"))
        status, text = on_terminal(*show)
        self.assertEqual(status, 0)
        self.assertIn("\x1b[", text)
        self.assertNotIn("\x1b", on_terminal(*show, NO_COLOR="1")[1])
        self.assertNotIn("\x1b", on_terminal(*show, TERM="dumb")[1])
        self.assertNotIn("\x1b", on_terminal(*show, "--color", "never")[1])
        self.assertIn("\x1b[", on_terminal(*show, "--color", "always", NO_COLOR="1")[1])

    def test_tables_fit_the_terminal(self):
        self.run_program(*QUICK, "--json", "r.json")
        show = ("show", str(self.folder / "r.json"))
        for columns, shown, left_out in ((80, "against LibTorch", "verified rows"), (120, "samples", "  who  ms\n")):
            _, text = on_terminal(*show, columns=columns)
            self.check_width(text, columns)
            self.assertIn(shown, text)
            self.assertNotIn(left_out, text)
        for variables, terminal in (({"COLUMNS": "80"}, 120), ({"COLUMNS": "no number"}, 80)):
            self.assertNotIn("verified rows", on_terminal(*show, columns=terminal, **variables)[1])
        piped = run(*show).stdout
        self.assertIn("verified rows", piped)
        self.assertNotIn("p95", piped)
        self.assertNotIn("verified rows", run(*show, COLUMNS="80").stdout)
        self.check_width(run("doctor", COLUMNS="80").stdout, 80)

    def test_a_terminal_sees_each_cell_when_it_is_measured(self):
        two_cells = (*QUICK, "--method", "speedtorch,index_select,copy", "--direction", "to,from", "--color", "never")
        status, text = on_terminal(*two_cells, columns=120, messages_too=True)
        self.assertEqual(status, 0, text)
        before, tables = text.split("\r\nto: table rows into the model tensor")
        for title in ("to float32 3k×128, 1 core\r\n", "from float32 3k×128, 1 core\r\n"):
            self.assertIn(title, before)
        for row in ("speedtorch(libtorch)", "index_select(hugepage)"):
            self.assertEqual((before.count(row), tables.count(row) >= 2), (2, True), text)
        self.assertNotIn("3k×128, 1 core\r\n", tables)
        self.assertEqual(messages(run(*two_cells).stderr), "")

    def test_quiet_prints_the_conclusion_alone(self):
        done = run(*QUICK, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A(Keep such a table|Where to keep such a table) \(")
        self.assertNotIn("One row again", done.stdout)
        self.assertNotIn("who  ", done.stdout)
        self.assertLess(len(done.stdout.splitlines()), 9)
        failed = run(*QUICK, "--quiet", "--expect", "to>=1e9")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("are expected", failed.stderr)

    def test_markdown_has_the_tables(self):
        self.run_program(*QUICK, "--json", "r.json", "--markdown", "r.md")
        text = (self.folder / "r.md").read_text(encoding="utf-8")
        self.assertRegex(text, r"\n\n\| who \| \w+ \| GB/s \| of ceiling \| against LibTorch \| verified rows \|.*\n\|---\|--:")
        self.assertNotIn("\n\n\n", text)
        self.assertIn("eep such a table (", text)
        self.assertEqual(self.run_program("show", "r.json", "--markdown", "-").stdout, text)
        self.assertEqual(self.run_program(*QUICK, "--markdown", "-").stdout.count("| who |"), text.count("| who |"))
        for wrong, why in ((("show", "r.json", "--markdown", "-", "--sort", "rows"), "leave out --columns and --sort"),
                           ((*QUICK, "--markdown", "r.md", "--processes", "2"), "goes with --baseline")):
            done = self.run_program(*wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def test_what_spoils_numbers_is_one_line_under_the_tables(self):
        self.run_program(*QUICK, "--json", "r.json")
        report = read_json(self.folder / "r.json")
        for findings, line in (([], None), ([("note", "a", "b")], None),
                               ([("spoils", "load", "3 threads busy, 1 here"), ("note", "a", "b"), ("spoils", "swap", "full")],
                                "Spoils numbers here: load: 3 threads busy; swap: full (stbench doctor)\n"),
                               ([("spoils", "load", "x" * 200)], "... (stbench doctor)\n")):
            report["environment"]["doctor"] = {"findings": [
                {"check": check, "verdict": verdict, "found": found, "rows": "all", "cure": "none"} for verdict, check, found in findings]}
            (self.folder / "r.json").write_text(json.dumps(report))
            shown = self.run_program("show", "r.json").stdout
            self.assertEqual(shown.count("Spoils numbers here"), 1 if line else 0)
            self.assertIn(line or "", shown)
            self.check_width(shown)

    def test_methods_without_what_they_are_compared_with_say_so(self):
        for method, said in (("speedtorch", "warning: --method leaves out the ceilings (copy, stream), so no row has its share "
                              "of one, and LibTorch's methods (index_select, ...), so no row is compared with them"),
                             ("speedtorch,index_select", "warning: --method leaves out the ceilings (copy, stream), so no row has its share of one"),
                             ("speedtorch,index_select,copy", "")):
            shown = run(*QUICK, "--method", method).stdout
            self.assertIn(said, " ".join(shown.split()))
            self.assertEqual("leaves out" in shown, bool(said))
            self.assertEqual("of ceiling" in shown, "copy" in method)

    def test_the_preset_quick_has_one_duration(self):
        self.assertIn("at most about 30 s", run("--suite", "transfer", "--preset", "quick", *HOST, "--dry-run").stderr)
        for text in (run("--help").stdout, (ROOT / "README.md").read_text(encoding="utf-8"), (ROOT / "docs/ci.md").read_text(encoding="utf-8")):
            self.assertIn("at most half a minute", " ".join(text.split()))

    def test_list_begins_with_transfer(self):
        self.assertTrue(run("list").stdout.startswith("transfer: "))

    def test_short_help_is_one_screen(self):
        done = run("-h")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(len(done.stdout.splitlines()), 50)
        self.check_width(done.stdout)

    def test_long_help_and_list_fit_the_screen(self):
        for arguments in (["--help"], ["list"], ["--suite", "transfer", "--help"]):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.check_width(done.stdout)
        for word in ("speedtorch", "index_select", "advanced", "staged", "copy", "stream", "zipf:S", "file:PATH"):
            self.assertIn(word, run("list").stdout)

    def test_examples_of_the_help_run(self):
        text = run("-h").stdout
        examples = re.findall(r"^  (stbench .*(?:\n {6,}.*)*)", text[text.index("Examples:"):], re.MULTILINE)
        self.assertEqual(len(examples), 3)
        for example in examples:
            done = self.run_program(*shlex.split(example)[1:], "--dry-run")
            self.assertEqual(done.returncode, 0, f"{example}\n{done.stderr}")

    def test_help_and_parser_know_the_same_options(self):
        text = run("--help").stdout
        helped = set(re.findall(r"(?<![\w-])--?[a-z][a-z_-]*", text.split("Examples:")[0]))
        own = {option for file in ("program/commands.cpp", "advise/question.cpp")
               for option in re.findall(r'"(--[\w-]+)"', (ROOT / "benchmarks" / file).read_text(encoding="utf-8"))}
        of_compare = {"--run", "--keep"}  # compare_run_test.py
        of_suites = set(re.findall(r"^  (--[a-z-]+)", text.split("Options of single suites:")[1].split("Effort:")[0], re.MULTILINE))
        self.assertGreaterEqual(of_suites, set(STEPS))
        self.assertEqual(helped - of_suites, (own | of_compare | set(VALUES) | set(ALONE) | set(STEPS) | FLAGS) - of_suites,
                         "give a new option a value above")
        for name in of_suites:
            self.assertRegex(run(name).stderr, f"{name}: .*missing")

    def test_every_option_is_taken(self):
        words = [word for pair in VALUES.items() for word in pair]
        done = self.run_program(*words, "--dry-run")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1), done.stderr)
        joined = self.run_program(*(f"{name}={value}" for name, value in VALUES.items()), "--benchmark_list_tests")
        self.assertEqual((joined.returncode, joined.stdout), (0, done.stdout), joined.stderr)
        for name, value in ALONE.items():
            suite = {"--case": (), "--time-budget": ("--suite", "transfer")}.get(name, SMALL)
            self.assertEqual(run(*suite, name, value, "--dry-run").returncode, 0, name)
        for name, (suite, value) in STEPS.items():
            self.assertEqual(run("--suite", suite, name, value, *HOST, "--dry-run").returncode, 0, name)

    def test_version(self):
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^stbench \d+\.\d+\.\d+\n$")

    def test_run_may_be_said(self):
        self.assertEqual(run("run", *QUICK, "--dry-run").stdout, run(*QUICK, "--dry-run").stdout)

    def test_google_benchmark_gets_each_sample(self):
        report, _, _ = self.measure(*QUICK, "--benchmark_out=g.json")
        runs = [one for one in read_json(self.folder / "g.json")["benchmarks"] if one["run_type"] == "iteration"]
        samples = [sample for case in report["cases"] for sample in case["samples_s"]]
        self.assertEqual(len(runs), len(samples))
        units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
        for one, sample in zip(runs, samples):
            self.assertTrue(math.isclose(one["real_time"] * units[one["time_unit"]], sample, rel_tol=1e-9), one)
        case_ids = [line for line in run(*QUICK, "--dry-run").stdout.splitlines()]
        self.assertEqual(len({one["name"] for one in runs}), len(case_ids))
        for case_id in case_ids:
            self.assertTrue(any(one["name"].startswith(case_id) for one in runs), case_id)

    def test_google_benchmark_formats(self):
        for name, begin in (("csv", "name,iterations"), ("console", "---")):
            done = self.run_program(*QUICK, "--benchmark_out", "g.out", "--benchmark_out_format", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(begin, (self.folder / "g.out").read_text(encoding="utf-8"))

    def test_google_benchmarks_json_has_no_benchmarks_if_nothing_was_measured(self):
        done = self.run_program(*SMALL, *HOST, "--direction", "to", "--placement", "pageable", "--method", "fbgemm",
                                "--benchmark_out", "g.json", STBENCH_PYTHON="/bin/false")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(read_json(self.folder / "g.json"), {"context": {}, "benchmarks": []})

    def test_list_of_tests_is_the_dry_run(self):
        self.assertEqual(run(*QUICK, "--benchmark_list_tests").stdout, run(*QUICK, "--dry-run").stdout)
        self.assertGreater(len(run("--benchmark_list_tests").stdout.splitlines()), 50)


if __name__ == "__main__":
    unittest.main()
