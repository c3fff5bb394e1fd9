"""scripts/mutants: the files, lines, programs and explanations that it names are there, and it says which are not."""

import importlib.machinery
import importlib.util
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "scripts/mutants"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    sys.modules["mutants"] = module
    loader.exec_module(module)
    return module


mutants = load()


def part(*files):
    return mutants.Part(1, True, (mutants.Group(files, ()),))


def runs(pid):
    """False for one that has ended and that nobody has waited for yet, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


class MutantsTest(unittest.TestCase):
    def test_all_that_is_named_is_there(self):
        self.assertEqual(mutants.misfits(mutants.PARTS.values(), mutants.explanations()), [])

    def test_each_part_has_more_mutants_than_it_draws(self):
        for name, one in mutants.PARTS.items():
            with self.subTest(name):
                self.assertGreater(len(list(mutants.mutants_of(one))), 2 * one.number)

    def test_what_is_not_there_is_named(self):
        lone = part("scripts/no_such_file", ("reports/statistics/ranks.cpp", "no such line"), "reports/statistics/ranks.cpp")
        gone = {("reports/statistics/ranks.cpp", "a + b;", "a - b;"): {"why": "it was there once"}}
        self.assertEqual(mutants.misfits([lone], gone), [
            "scripts/no_such_file does not exist",
            "reports/statistics/ranks.cpp has no line that a mutant could change: no such line",
            "explained, and no mutant any more: reports/statistics/ranks.cpp: a + b;  ->  a - b;"])

    def test_each_program_that_a_python_test_starts_is_built(self):
        texts = [(ROOT / name).read_text() for name in ("tests/benchmarks/CMakeLists.txt", "cmake/PythonTest.cmake")]
        started = set(re.findall(r"=\$<TARGET_FILE:(\w+)>", "".join(texts)))
        self.assertEqual(started, set(mutants.STARTED))

    def test_a_program_that_starts_itself_without_end_is_ended_with_all_of_them(self):
        planting = mutants.planting
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "again")
            program.write_text("#!/bin/sh\necho $$ >> \"$0.pids\"\nsleep 0.03\n\"$0\" &\nexec sleep 60\n")
            program.chmod(0o755)
            most, planting.MOST_PROCESSES = planting.MOST_PROCESSES, 20
            self.addCleanup(setattr, planting, "MOST_PROCESSES", most)
            self.assertIsNone(planting.run(str(program), timeout=60))
            started = Path(f"{program}.pids").read_text().split()
            self.assertGreater(len(started), 10)  # the last ones may end before they note themselves
            self.assertEqual([pid for pid in started if runs(pid)], [])

    def test_a_command_ends_as_it_ends(self):
        done = mutants.planting.run("sh", "-c", "echo said; sleep 1; exit 3", timeout=30)
        self.assertEqual((done.returncode, done.stdout_text), (3, "said\n"))


if __name__ == "__main__":
    unittest.main()
