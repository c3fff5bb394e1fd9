"""README.md: its commands run, its tables are those of the committed reports, its links and its C++ code are there.

Each shell snippet stands below a comment that says how it is tested:

  <!-- test: run -->       as it stands
  <!-- test: small -->     with --samples 2 --rows 5k --batch 1k where it has none (a --case has its shape)
  <!-- test: dry-run -->   with --dry-run
  <!-- test: not run (WHY) -->
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import ROOT, require_program

README = ROOT / "README.md"
SNIPPET = re.compile(
    r"(?:^<!-- test: (?P<how>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
BLOCK = re.compile(r"^<!-- table: (\S+)([^\n]*) -->\n```text\n(.*?)```", re.MULTILINE | re.DOTALL)

# What stands for ./stbench where the snippets run.
LAUNCHER = """#!/usr/bin/env bash
set -euo pipefail
arguments=("$@")
has() {
  local argument
  for argument in "${arguments[@]}"; do [[ $argument != "$1" ]] || return 0; done
  return 1
}
if has --suite || has --case; then
  case $HOW in
    dry-run) arguments+=(--dry-run) ;;
    small)
      has --samples || arguments+=(--samples 2)
      has --case || has --rows || arguments+=(--rows 5k)
      has --case || has --batch || arguments+=(--batch 1k)
      ;;
  esac
fi
echo "${arguments[*]}" >>commands.log
exec "$STBENCH_PROGRAM" "${arguments[@]}"
"""


def snippets(language):
    found = [match.groupdict() for match in SNIPPET.finditer(README.read_text())]
    return [snippet for snippet in found if snippet["language"] == language]


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="readme test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def make_checkout(self):
        """A folder with what the snippets name, so that nothing is written into the sources."""
        (self.folder / "stbench").write_text(LAUNCHER)
        (self.folder / "stbench").chmod(0o755)
        for name in ("scripts/make-trace", "tests/data/us-constitution.txt"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)

    def run_snippet(self, snippet):
        environment = {**os.environ, "HOW": snippet["how"], "STBENCH_PROGRAM": str(require_program())}
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", snippet["code"]],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        )

    def run_all(self, how):
        chosen = [snippet for snippet in snippets("sh") if snippet["how"] == how]
        self.assertTrue(chosen, f"no snippet is marked {how}")
        self.make_checkout()
        for snippet in chosen:
            with self.subTest(snippet["code"]):
                done = self.run_snippet(snippet)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.strip(), "it prints nothing")

    def test_each_snippet_says_how_it_is_tested(self):
        for snippet in snippets("sh"):
            with self.subTest(snippet["code"]):
                self.assertRegex(snippet["how"] or "", r"^(run|small|dry-run|not run \(.+\))$")
        left = [snippet["code"].split()[0] for snippet in snippets("sh") if snippet["how"].startswith("not run")]
        self.assertEqual(left, ["./test", "scripts/charts"])

    def test_short_snippets_run(self):
        self.run_all("run")

    def test_small_snippets_run(self):
        self.run_all("small")

    def test_long_snippets_are_planned(self):
        self.run_all("dry-run")

    def test_small_means_what_it_says(self):
        self.make_checkout()
        code = "./stbench --suite transfer --preset quick --rows 2k --dry-run\n./stbench list\n"
        self.run_snippet({"how": "small", "code": code})
        run, listing = (self.folder / "commands.log").read_text().splitlines()
        self.assertEqual(run, "--suite transfer --preset quick --rows 2k --dry-run --samples 2 --batch 1k")
        self.assertEqual(listing, "list")

    def renew(self, *arguments, program=None):
        environment = {**os.environ, "STBENCH_PROGRAM": str(program or require_program())}
        command = [ROOT / "scripts/readme-table", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def test_the_tables_are_those_of_the_committed_reports(self):
        reports = re.findall(r"^<!-- table: (\S+)", README.read_text(), re.MULTILINE)
        self.assertTrue(reports, "README.md shows no report")
        for report in reports:
            self.assertTrue(report.startswith("results/") and (ROOT / report).exists(), report)
        with_goals = [ROOT / "docs" / name for name in ("kernels.md", "cold-reads.md", "infinitybatch.md", "steps.md")]
        for document in with_goals:
            self.assertIn("<!-- goals: results/", document.read_text())
        done = self.renew("--check", README, *with_goals)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_table_that_differs_is_found_and_renewed(self):
        text = README.read_text()
        block = BLOCK.search(text)
        document = self.folder / "README.md"
        document.write_text(text[: block.start(3)] + "made up\n" + text[block.end(3) :])
        self.assertEqual(self.renew("--check", document).returncode, 1)
        self.assertEqual(self.renew(document).returncode, 0)
        self.assertEqual(document.read_text(), text)

    def test_goals_may_be_chosen_and_unknown_ones_are_refused(self):
        document = self.folder / "steps.md"
        reports = "results/amd-epyc-2-cores-2026-11-22/steps/optimizer-*.json"
        for choice, shown in (("", {"O1", "O2", "O4"}), (" O4", {"O4"}), (" O2 O4", {"O2", "O4"})):
            document.write_text(f"<!-- goals: {reports}{choice} -->\n<!-- end of goals -->\n")
            self.assertEqual(self.renew(document).returncode, 0)
            text = document.read_text()
            self.assertEqual(set(re.findall(r"^\| (\w+\d) \|", text, re.MULTILINE)), shown)
            self.assertEqual(self.renew("--check", document).returncode, 0)
        for choice in ("O99", "O4 O99"):
            document.write_text(f"<!-- goals: {reports} {choice} -->\n<!-- end of goals -->\n")
            done = self.renew(document)
            self.assertEqual((done.returncode, "no goal is called O99" in done.stderr), (2, True), done.stderr)

    def test_a_table_shows_the_numbers_of_its_report(self):
        report, choice_text, table = BLOCK.search(README.read_text()).groups()
        choice = dict(word.split("=") for word in choice_text.split())
        cases = json.loads((ROOT / report).read_text())["cases"]
        shown = [c for c in cases if all(str(c[key]) in values.split(",") for key, values in choice.items())]
        measured = [c for c in shown if c["median_s"] and c["direction"] != "sum"]
        self.assertTrue(measured)
        for case in measured:
            who, speed = f"{case['method']}({case['placement']})", f"{case['gb_per_s']:.3g}"
            lines = [line for line in table.splitlines() if line.strip().startswith(who)]
            self.assertTrue(any(speed in line for line in lines), f"{who}: {speed} GB/s")

    def test_a_choice_that_fits_no_case_is_refused(self):
        document = self.folder / "README.md"
        report = re.search(r"<!-- table: (\S+)", README.read_text())[1]
        for choice, text in (("method=magic", "magic"), ("direction", "column=value"), ("", "")):
            name = report if choice else "results/none.json"
            document.write_text(f"<!-- table: {name} {choice} -->\n<!-- end of table -->\n")
            done = self.renew(document)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text or "results/none.json", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_links_lead_to_files(self):
        for document in [README, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/data/*.md")]:
            text = SNIPPET.sub("", document.read_text())
            for link in re.findall(r"\]\(([^)#]+)", text):
                if "://" not in link:
                    self.assertTrue((document.parent / link).exists(), f"{document.name}: {link}")

    def test_the_code_is_the_example_that_is_built(self):
        self.assertEqual([s["code"] for s in snippets("cpp")], [(ROOT / "examples/gather_rows.cpp").read_text()])
        for page, example in (("placements", "make_tables"), ("optimizers", "optimizer_factory")):
            text = (ROOT / f"docs/{page}.md").read_text()
            self.assertIn("```cpp\n" + (ROOT / f"examples/{example}.cpp").read_text() + "```\n", text)
        library = SNIPPET.findall((ROOT / "docs/library.md").read_text())
        shown = [code for _, language, code in library if language == "cpp"]
        for name in ("duplicates", "data_gadget", "model_factory", "co_occurrence", "memory_plan"):
            self.assertIn((ROOT / f"examples/{name}.cpp").read_text(), shown)
        self.assertEqual(len(shown), 5)

    def test_the_method_shown_to_contributors_is_the_real_one(self):
        text = (ROOT / "CONTRIBUTING.md").read_text()
        files = list(ROOT.glob("benchmarks/methods/*.cpp"))
        code = re.search(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(code, (ROOT / "benchmarks/methods/advanced.cpp").read_text())
        lines = [len(file.read_text().splitlines()) for file in files]
        numbers = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen",
                   14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty"}
        words = f"The {numbers[len(files)]} that are there have {min(lines)} to {max(lines)} lines."
        self.assertIn(words, " ".join(text.split()))


if __name__ == "__main__":
    unittest.main()
