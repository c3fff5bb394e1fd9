"""docs/coverage.md: all 92 rows with the right milestone, and no claim without a test that is in the tree."""

import re
import unittest
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coverage.md"
EMULATED = "emulated GPU"
STATES = ("done", EMULATED, "host done, GPU not yet run", "open")

MILESTONES = {
    "01": [*range(1, 5), *range(7, 14)],
    "03": [6, *range(14, 19), 53, 54],
    "05": [5, *range(19, 53), *range(55, 58)],
    "06": [*range(58, 73)],
    "07": [*range(74, 92)],
    "04, 06": [73],
    "01, 05": [92],
}


def table_rows():
    lines = PAGE.read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]
    return [(int(number), *rest) for number, *rest in cells]


def named_tests(shown):
    """(file, test) for each test of a cell: the name of a file in backticks, then those of its tests."""
    found, file = [], None
    for word in re.findall(r"`([^`]+)`", shown):
        if "/" in word:
            file = word
        else:
            found.append((file, word))
    return found


def tests_in(file):
    """The names by which the tests of a file are called."""
    text = (ROOT / file).read_text()
    if file.endswith(".py"):
        return set(re.findall(r"^ +def (test_\w+)", text, re.MULTILINE))
    found = re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s*(\w+)\)", text, re.MULTILINE)
    return {f"{suite}.{name}" for suite, name in found}


def also_on_a_gpu():
    """The tests of the host that run on the emulated GPU too: their files, and the patterns for and against their names."""
    folder = "tests/speedtorch/infinity/"
    program = re.search(r"stbench_test\(infinity_test SOURCES ([^\n]*)", (ROOT / folder / "CMakeLists.txt").read_text())
    text = (ROOT / "tests/emulated_gpu/CMakeLists.txt").read_text()
    wanted = re.search(r"set\(also_on_a_gpu\s([^)]*)\)", text)
    unwanted = re.search(r'string\(JOIN ":" filter \$\{also_on_a_gpu\} "-([^)]*)\)', text)
    return ([folder + file for file in program[1].split()],
            wanted[1].replace('"', "").split(), unwanted[1].replace('"', "").split())


def runs_on_the_emulated_gpu(file, test):
    if "_device_test." in file or file == "tests/emulated_gpu/suites_test.py":
        return True
    files, wanted, unwanted = also_on_a_gpu()
    return file in files and any(fnmatchcase(test, one) for one in wanted) and not any(
        fnmatchcase(test, one) for one in unwanted)


class LongTestsTest(unittest.TestCase):
    def test_contributing_lists_each_method_that_only_long_runs(self):
        table = (ROOT / "CONTRIBUTING.md").read_text().split("run with `--long` only:")[1].split("`--part` runs one part")[0]
        builds = [*(ROOT / "tests").rglob("CMakeLists.txt"), *(ROOT / "tests").rglob("*.cmake")]
        given = {name for file in builds for name in re.findall(r"\b(?:LONG|LONG_OF_\w+) (test_\w+)", file.read_text())}
        self.assertGreater(len(given), 5)
        self.assertEqual(set(re.findall(r"_test\.(test_\w+)", table)), given)


class CoverageTest(unittest.TestCase):
    def test_all_92_rows_are_there_in_order(self):
        self.assertEqual([row[0] for row in table_rows()], list(range(1, 93)))
        for row in table_rows():
            self.assertEqual(len(row), 5, row)
            self.assertTrue(row[1], row)

    def test_each_row_has_the_milestone_that_brings_it(self):
        wanted = {number: milestone for milestone, numbers in MILESTONES.items() for number in numbers}
        self.assertEqual({row[0]: row[2] for row in table_rows()}, wanted)

    def test_each_state_is_one_of_four_and_counted(self):
        states = [row[3] for row in table_rows()]
        self.assertLessEqual(set(states), set(STATES))
        counted = dict(re.findall(r"^\| `([^`]+)` \|.*\| (\d+) \|$", PAGE.read_text(), re.MULTILINE))
        self.assertEqual(counted, {state: str(states.count(state)) for state in STATES})

    def test_what_is_claimed_names_tests(self):
        for number, _, _, state, shown in table_rows():
            if state != "open":
                self.assertTrue(named_tests(shown), f"row {number} is '{state}' and names no test")
            elif shown:
                self.assertTrue(shown.startswith("so far "), f"row {number}")

    def test_each_named_test_is_in_the_tree(self):
        for number, *_, shown in table_rows():
            for file, test in named_tests(shown):
                with self.subTest(row=number, test=test):
                    self.assertTrue(file and (ROOT / file).exists(), file)
                    self.assertIn(test, tests_in(file))

    def test_rows_are_emulated_if_a_named_test_runs_on_the_emulated_gpu(self):
        for number, _, _, state, shown in table_rows():
            if state == "done":
                continue
            there = [test for file, test in named_tests(shown) if runs_on_the_emulated_gpu(file, test)]
            with self.subTest(row=number):
                self.assertEqual(state == EMULATED, bool(there), there)

    def test_the_emulated_gpu_runs_each_program_of_device_tests(self):
        """Whole, in one of the configurations."""
        def named(text, command, behind):
            """The programs of device tests in a command, also where a loop makes their names."""
            found = set(re.findall(rf"{command}\((\w+_device_test){behind}", text))
            for variable, names in re.findall(r"foreach\((\w+) ([^)]*)\)", text):
                if re.search(rf"{command}\(\$\{{{variable}\}}_device_test{behind}", text):
                    found |= {f"{name}_device_test" for name in names.split()}
            return found

        whole = named((ROOT / "tests/emulated_gpu/CMakeLists.txt").read_text(), "stbench_on_emulated_gpu", r' \w+ "\*"')
        texts = [file.read_text() for file in ROOT.glob("tests/**/CMakeLists.txt")]
        programs = set().union(*(named(text, "stbench_test", r"\b") for text in texts))
        self.assertLessEqual(programs, whole)
        self.assertGreater(len(programs), 5)

    def test_rows_with_a_part_that_no_gpu_test_shows_say_why(self):
        for words, rows in (("on hardware only: ", {55}), ("not on a GPU: ", {50})):
            self.assertEqual({number for number, *_, shown in table_rows() if words in shown}, rows, words)

    def test_the_device_tests_are_those_of_the_tree(self):
        files = {str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/*device_test.*")}
        named = set(re.findall(r"`(tests/[^`]*device_test\.\w+)`", PAGE.read_text()))
        self.assertEqual(named, files)


if __name__ == "__main__":
    unittest.main()
