"""Completion, man page and JSON Schema: made by the program from its own tables, and good for their readers."""

import json
import re
import shutil
import subprocess
import unittest

from program import HOST, ROOT, SMALL, ProgramTest, read_json, run


class CompletionTest(ProgramTest):
    def complete(self, *words):
        """What bash offers for the last of the words, as it splits them itself."""
        script = self.file("completion.bash", run("completion", "bash").stdout)
        ask = f'''source {str(script)!r}
compopt() {{ :; }}  # there is no readline that would take it
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stbench
printf '%s\\n' "${{COMPREPLY[@]}}"'''
        done = subprocess.run(["bash", "--norc", "-eu", "-c", ask, "bash", "stbench", *words], capture_output=True,
                              text=True, cwd=self.folder, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands_and_options(self):
        self.assertEqual(self.complete("d"), ["doctor"])
        self.assertLessEqual({"run", "list", "calibrate", "show", "compare", "doctor", "completion"}, set(self.complete("")))
        self.assertEqual(self.complete("--pla"), ["--placement"])
        self.assertEqual(self.complete("run", "--suite", "transfer", "--dis"), ["--distribution"])
        self.assertEqual(self.complete("doctor", "--s"), ["--strict"])
        self.assertEqual(self.complete("compare", "--eff"), ["--effect"])
        self.assertEqual(self.complete("calibrate", "--proc"), ["--processes"])
        self.assertNotIn("--rows", self.complete("show", "r.json", "--"))

    def test_knows_every_option_of_the_help(self):
        offered = set(self.complete("--suite", "transfer", "-")) | set(self.complete("advise", "-"))
        text = run("--help").stdout.split("Results go to")[0]
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", text))
        self.assertGreater(len(options), 30)
        self.assertLessEqual(options, offered)

    def test_values(self):
        self.assertEqual(self.complete("--placement", "hu"), ["hugepage"])
        self.assertLessEqual({"to", "from", "sum", "round_trip", "both", "consume", "step"}, set(self.complete("--direction", "")))
        self.assertEqual(self.complete("--direction", "to,fr"), ["to,from"])
        self.assertEqual(self.complete("--placement", "=", "pi"), ["pinned"])  # as bash splits --placement=pi
        self.assertEqual(self.complete("--placement", "="), "libtorch pageable hugepage mapped pinned device".split())
        self.assertEqual(self.complete("--rows", ""), [])
        self.assertIn("engram-v41", self.complete("--workload", "eng"))

    def test_files(self):
        self.file("report.json")
        self.file("report.csv")
        self.assertEqual(sorted(self.complete("--csv", "rep")), ["report.csv", "report.json"])
        for command in ("show", "compare"):
            self.assertEqual(sorted(self.complete(command, "rep")), ["report.csv", "report.json"])

    def test_bash_loads_it_and_completes_a_line(self):
        """By bash's own completion of a word, not by our function alone."""
        script = self.file("completion.bash", run("completion", "bash").stdout)
        done = subprocess.run(["bash", "--norc", "-i", "-c", f"source {str(script)!r}; complete -p stbench"],
                              capture_output=True, text=True, check=True)
        self.assertIn("complete -F _stbench stbench", done.stdout)

    def test_zsh_and_fish_take_theirs(self):
        for shell in ("zsh", "fish"):
            text = run("completion", shell).stdout
            for words in ("--placement" if shell == "zsh" else "-l placement", "hugepage", "doctor"):
                self.assertIn(words, text, shell)
            if shutil.which(shell):
                path = self.file(f"completion.{shell}", text)
                done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


class ManPageTest(ProgramTest):
    def test_has_every_option(self):
        text = run("man").stdout.replace("\\-", "-")
        for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES"):
            self.assertIn(f".SH {section}\n", text)
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", run("-h").stdout)):
            self.assertIn(option, text)

    def test_renders_without_warnings(self):
        if not shutil.which("man"):
            self.skipTest("no man on this machine (Debian: man-db)")
        page = self.file("stbench.1", run("man").stdout)
        done = subprocess.run(["man", "--warnings=all", "--encoding=UTF-8", "-l", str(page)], capture_output=True,
                              text=True, check=False, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("stbench", done.stdout)
        self.assertIn("--placement", done.stdout)
        self.assertNotIn("\\", done.stdout.replace("\\e", ""))


class SchemaTest(ProgramTest):
    def setUp(self):
        super().setUp()
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no jsonschema in this Python (scripts/lib/wheels/tests.txt)")
        schema = read_json(ROOT / "docs/report.schema.json")
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)

    def check(self, report, name=""):
        errors = [f"{error.json_path}: {error.message[:200]}" for error in self.validator.iter_errors(report)]
        self.assertEqual(errors[:3], [], name)

    def test_is_the_programs_own(self):
        self.assertEqual((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"), run("schema").stdout)

    def test_a_fresh_report_is_valid(self):
        report, _, _ = self.measure(*SMALL, "--index-dtype", "int64,int32")
        self.check(report)

    def test_committed_reports_are_valid(self):
        reports = sorted(ROOT.glob("results/**/*.json"))
        self.assertTrue(reports)
        for path in reports:
            report = read_json(path)
            report["cases"] = report["cases"][::17]  # some of each kind; all of them take this Python a minute
            self.check(report, path.name)

    def test_what_is_no_report_is_refused(self):
        report, _, _ = self.measure(*SMALL, *HOST, "--direction", "to", "--placement", "libtorch", "--cores", "1")

        def refused(change):
            broken = json.loads(json.dumps(report))
            change(broken)
            self.assertFalse(self.validator.is_valid(broken), change)

        case = lambda broken: broken["cases"][0]
        refused(lambda broken: broken.pop("cases"))
        refused(lambda broken: broken.update(schema_version="2.0"))
        refused(lambda broken: broken.update(environment=[]))
        refused(lambda broken: case(broken).pop("median_s"))
        refused(lambda broken: case(broken).update(rows="many"))
        refused(lambda broken: case(broken).update(batch=-1))
        refused(lambda broken: case(broken).update(status="good"))
        refused(lambda broken: case(broken).update(status="wrong"))  # and still with a time
        refused(lambda broken: case(broken).update(samples_s=None))
        refused(lambda broken: case(broken).update(more=[1]))
        refused(lambda broken: broken["environment"]["doctor"]["findings"][0].update(verdict="maybe"))


if __name__ == "__main__":
    unittest.main()
