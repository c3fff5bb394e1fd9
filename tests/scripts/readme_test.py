"""README.md and docs/: their commands run, their tables are those of the committed reports, their code is there.

Each shell snippet stands below a comment that says how it is tested:

  <!-- test: run -->       as it stands
  <!-- test: small -->     with --samples 2 --rows 5k --batch 1k where it has none (a --case has its shape)
  <!-- test: dry-run -->   with --dry-run
                           In each of them `advise` gets --time-budget 6s where it has none.
  <!-- test: tests/scripts/NAME_test.py -->   by that test, which reads the page
  <!-- test: not run (WHY) -->

Each C++ snippet is a program of examples/ or lines of one, or of a program in tests/speedtorch, that is built; CMake
snippets are lines of tests/consumer. A line `...` stands for what is left out. What is no code is marked `text`.
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
PAGES = [README, *sorted(ROOT.glob("docs/*.md"))]
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
[[ ${arguments[0]-} != advise ]] || has --time-budget || arguments+=(--time-budget 6s)
echo "${arguments[*]}" >>commands.log
exec "$STBENCH_PROGRAM" "${arguments[@]}"
"""


def snippets(language, pages=None):
    """Of README.md and docs/, or of these pages: how, language, code, page."""
    found = [{**match.groupdict(), "page": page} for page in pages or PAGES for match in SNIPPET.finditer(page.read_text())]
    return [snippet for snippet in found if snippet["language"] == language]


def mark_is_wrong(snippet):
    """Why no test runs a shell snippet, and none says why; empty where one does."""
    how, page = snippet["how"] or "", snippet["page"].name
    if how.startswith("tests/"):
        reader = ROOT / how
        return "" if reader.exists() and f'"{page}"' in reader.read_text() else f"{how} does not read {page}"
    return "" if re.fullmatch(r"run|small|dry-run|not run \(.+\)", how) else f"it is marked '{how}'"


def has_lines(source, code):
    """Whether the lines of `code` stand there in a row, but for indentation; `...` stands for any lines."""
    lines, at = [line.strip() for line in source.splitlines()], 0
    for piece in re.split(r"^\s*\.\.\.\n", code, flags=re.MULTILINE):
        wanted = [line.strip() for line in piece.splitlines()]
        places = [i for i in range(at, len(lines) - len(wanted) + 1) if lines[i : i + len(wanted)] == wanted]
        if not places or not any(wanted):
            return False
        at = places[0] + len(wanted)
    return True


def built_programs():
    """The sources of the examples and of the library's test programs that a CMake file names."""
    cmake = "".join(file.read_text() for pattern in ("tests/**/CMakeLists.txt", "tests/**/*.cmake", "examples/**/CMakeLists.txt")
                    for file in ROOT.glob(pattern))
    files = [*ROOT.glob("examples/**/*.cpp"), *ROOT.glob("tests/speedtorch/**/*.cpp")]
    return {file: file.read_text() for file in files if re.search(rf"\b{file.stem}\b", cmake)}


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="readme test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def make_checkout(self):
        """A folder with what the snippets name, so that nothing is written into the sources."""
        for name in ("stbench", "build/release/bin/stbench"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(LAUNCHER)
            (self.folder / name).chmod(0o755)
        for name in ("scripts/make-trace", "scripts/goals", "scripts/lib/reports.py", "scripts/lib/verdicts.py",
                     "scripts/lib/whole_file.py", "tests/data/us-constitution.txt"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        for name in (".local/share/bash-completion/completions", ".local/share/man/man1", ".zfunc", ".config/fish/completions"):
            (self.folder / name).mkdir(parents=True)

    def written(self):
        """The bytes of what is in the folder."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file() and file.name != "commands.log")

    def run_snippet(self, snippet):
        environment = {**os.environ, "HOW": snippet["how"], "STBENCH_PROGRAM": str(require_program()), "HOME": str(self.folder)}
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
                before = self.written()
                done = self.run_snippet(snippet)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.strip() or self.written() > before, "it prints and writes nothing")

    def test_each_snippet_says_how_it_is_tested(self):
        for snippet in snippets("sh"):
            with self.subTest(page=snippet["page"].name, code=snippet["code"]):
                self.assertEqual(mark_is_wrong(snippet), "")
        left = [(snippet["page"].name, snippet["code"].split()[0]) for snippet in snippets("sh")
                if snippet["how"].startswith("not run")]
        self.assertEqual(left, [("README.md", "./test"), ("README.md", "scripts/charts"), ("charts.md", "scripts/charts"),
                                ("charts.md", "cd"), ("install.md", "scripts/bundle"), ("install.md", "Torch_DIR=…/torch/share/cmake/Torch"),
                                ("install.md", "cmake"), ("install.md", "cmake"), ("kernels.md", "STBENCH=./stbench"),
                                ("kernels.md", "./stbench"), ("python.md", "scripts/wheel"),
                                ("where.md", "PYTHONPATH=build/release/python"), *[("where.md", "./stbench")] * 3])

    def test_each_snippet_is_of_a_language_that_some_test_reads(self):
        found = [{**match.groupdict(), "page": page} for page in PAGES for match in SNIPPET.finditer(page.read_text())]
        for snippet in found:
            with self.subTest(page=snippet["page"].name, code=snippet["code"]):
                # python_docs_test.py runs those of Python.
                self.assertIn(snippet["language"], ("sh", "cpp", "cmake", "yaml", "python", "text"))
        for page in PAGES:  # and none escapes the pattern
            fences = re.findall(r"^\s*(?:```|~~~)", page.read_text(), re.MULTILINE)
            self.assertEqual(len(fences), 2 * sum(snippet["page"] == page for snippet in found), page.name)
        self.assertEqual({snippet["page"].name for snippet in snippets("yaml")}, {"ci.md"})  # which ci_doc_test.py runs

    def test_a_snippet_that_nothing_tests_is_found(self):
        page = self.folder / "new.md"
        for mark, why in (("", "it is marked ''"), ("<!-- test: shell -->\n", "it is marked 'shell'"), ("<!-- test: not run -->\n", "it is marked 'not run'"),
                          ("<!-- test: tests/scripts/ci_doc_test.py -->\n", "does not read new.md"), ("<!-- test: run -->\n", "")):
            page.write_text(f"{mark}```sh\n./stbench list\n```\n")
            (snippet,) = snippets("sh", [page])
            self.assertTrue(mark_is_wrong(snippet).endswith(why) if why else not mark_is_wrong(snippet), mark)
        source = "int main() {\n  int a = 1;\n  int b = 2;\n  return a - b;\n}\n"
        for code, there in (("int a = 1;\nint b = 2;\n", True), ("int a = 1;\n...\n  return a - b;\n", True), ("int a = 1;\nreturn a - b;\n", False),
                            ("int b = 2;\n...\nint a = 1;\n", False), ("...\n", False), ("int a = 2;\n", False)):
            self.assertEqual(has_lines(source, code), there, code)

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
        goals, by_machine = "<!-- goals: results/", "<!-- goals by machine: "
        with_goals = {ROOT / "docs" / name: starts for name, starts in (
            ("kernels.md", (goals, by_machine)), ("cold-reads.md", (goals,)), ("contiguous.md", (goals, by_machine)),
            ("infinitybatch.md", (goals, by_machine)), ("steps.md", (by_machine,)))}
        for document, starts in with_goals.items():
            for start in starts:
                self.assertIn(start, document.read_text(), document.name)
        self.assertIn("<!-- scale: results/", (ROOT / "docs/scale.md").read_text())
        done = self.renew("--check", README, *with_goals, ROOT / "docs/scale.md")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_table_that_differs_is_found_and_renewed(self):
        text = README.read_text()
        block = BLOCK.search(text)
        document = self.folder / "README.md"
        document.write_text(text[: block.start(3)] + "made up\n" + text[block.end(3) :])
        self.assertEqual(self.renew("--check", document).returncode, 1)
        self.assertEqual(self.renew(document).returncode, 0)
        way = os.path.relpath(ROOT, self.folder)  # a link goes from the document
        there = re.sub(r"^The report: \[(\S+)\]\(\S+\)", rf"The report: [\1]({way}/\1)", text, flags=re.MULTILINE)
        self.assertEqual(document.read_text(), there)

    def test_goals_may_be_chosen_and_unknown_ones_are_refused(self):
        document = self.folder / "steps.md"
        reports = "results/amd-epyc-2-cores-2026-11-22/steps/optimizer-*.json"
        for choice, shown in (("", {"O1", "O2", "O3", "O4", "O5"}), (" O4", {"O4"}), (" O2 O4", {"O2", "O4"})):
            document.write_text(f"<!-- goals: {reports}{choice} -->\n<!-- end of goals -->\n")
            self.assertEqual(self.renew(document).returncode, 0)
            text = document.read_text()
            self.assertEqual(set(re.findall(r"^\| (\w+\d) \|", text, re.MULTILINE)), shown)
            self.assertEqual(self.renew("--check", document).returncode, 0)
        for choice in ("O99", "O4 O99"):
            document.write_text(f"<!-- goals: {reports} {choice} -->\n<!-- end of goals -->\n")
            done = self.renew(document)
            self.assertEqual((done.returncode, "no goal is called O99" in done.stderr), (2, True), done.stderr)

    def test_goals_of_several_machines_are_side_by_side(self):
        machines = {name: f"results/amd-epyc-2-cores-2026-11-{day}/steps/optimizer-*.json"
                    for name, day in (("Zen 5", 27), ("Zen 4", 28))}
        document = self.folder / "steps.md"

        def rows_of(opening):
            document.write_text(f"before\n{opening}\n<!-- end of goals -->\nafter\n")
            self.assertEqual(self.renew(document).returncode, 0)
            self.assertEqual(self.renew("--check", document).returncode, 0)
            text = document.read_text()
            self.assertTrue(text.startswith(f"before\n{opening}\n") and text.endswith("<!-- end of goals -->\nafter\n"), text)
            return [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]

        lines = "".join(f"{name} = {reports}\n" for name, reports in machines.items())
        head, _, *together = rows_of(f"<!-- goals by machine: O4 O5\n{lines}-->")
        self.assertEqual([cell.strip() for cell in head[5:]], list(machines))
        self.assertEqual({row[0].strip() for row in together}, {"O4"}, "no machine measured O5")
        for column, reports in enumerate(machines.values(), 5):
            alone = rows_of(f"<!-- goals: {reports} O4 -->")[2:]
            self.assertEqual(len(alone), len(together))
            for (*goal, measured, interval, verdict), row in zip(alone, together):
                self.assertEqual((row[:5], row[column].strip()),
                                 (goal, f"{measured} ({interval}) {verdict.split(':')[0].strip()}"))

    def test_what_begins_no_table_is_refused(self):
        document = self.folder / "steps.md"
        for start in ("<!-- table: -->", "<!-- goals: results/a.json", "<!-- goals by machine: O4\nZen 4: results/a.json\n-->"):
            document.write_text(f"{start}\n<!-- end of table -->\n<!-- end of goals -->\n")
            done = self.renew("--check", document)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"'{start.splitlines()[0]}' begins no table", done.stderr)

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

    def test_the_code_is_the_example_that_is_built(self):
        programs = built_programs()
        whole = {}
        for snippet in snippets("cpp"):
            with self.subTest(page=snippet["page"].name, code=snippet["code"]):
                self.assertTrue(any(has_lines(source, snippet["code"]) for source in programs.values()), "no program has these lines")
                if "int main(" in snippet["code"]:
                    (program,) = [file.stem for file, source in programs.items() if source == snippet["code"]]
                    whole.setdefault(snippet["page"].stem, []).append(program)
        self.assertEqual(whole, {"README": ["gather_rows"], "infinitybatch": ["infinity_batch"],
                                 "library": ["duplicates", "data_gadget", "model_factory", "co_occurrence", "memory_plan", "train_by_plan"],
                                 "optimizers": ["optimizer_factory"], "placements": ["make_tables"],
                                 "scale": ["shared_table"]})
        consumer = (ROOT / "tests/consumer/CMakeLists.txt").read_text()
        self.assertTrue(snippets("cmake"))
        for snippet in snippets("cmake"):
            self.assertTrue(has_lines(consumer, snippet["code"]), snippet["code"])

    def test_the_method_shown_to_contributors_is_the_real_one(self):
        text = (ROOT / "CONTRIBUTING.md").read_text()
        files = list(ROOT.glob("benchmarks/transfer/methods/*.cpp"))
        code = re.search(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(code, (ROOT / "benchmarks/transfer/methods/advanced.cpp").read_text())
        lines = [len(file.read_text().splitlines()) for file in files]
        numbers = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen",
                   14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty",
                   21: "twenty-one", 22: "twenty-two", 23: "twenty-three", 24: "twenty-four"}
        words = f"The {numbers[len(files)]} that are there have {min(lines)} to {max(lines)} lines."
        self.assertIn(words, " ".join(text.split()))


if __name__ == "__main__":
    unittest.main()
