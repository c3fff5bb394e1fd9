"""Instructions a row, counted by callgrind, against the committed figures: a gate without noise.

usage: instructions_test.py                  the test; CTest sets STBENCH_COUNTED to the program
       instructions_test.py --renew PROGRAM  writes the figures anew, where a change of them is wanted
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FIGURES = ROOT / "tests/data/instructions_per_row.json"
PROGRAM = os.environ.get("STBENCH_COUNTED", "")
# Rows of two runs: what is the same in both, such as the call itself, cancels. Few enough that no machine's cache is too
# small for them, which would be another plan.
FEW, MANY = 400, 1600
TOLERANCE = 0.03
# What decides which instructions there are. Callgrind's processor has AVX2 and nothing above.
BUILT_WITH = ("compiler", "build", "highway", "isa")


def said(output):
    """What the program was built with, and the kinds it counted in their order."""
    built_with, kinds = {}, []
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        if name in BUILT_WITH:
            built_with[name] = value.strip()
        elif name == "counted":
            kinds.append(value)
    return built_with, kinds


def count(program, rows):
    """Returns what the program was built with and {kind: instructions of one call that moves so many rows}."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--zero-before=measured",
             "--dump-after=measured", program, str(rows)],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"valgrind ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        built_with, kinds = said(done.stdout)
        totals = {}
        for number, kind in enumerate(kinds, 1):
            text = Path(f"{folder}/out.{number}").read_text(encoding="utf-8")
            totals[kind] = int(re.search(r"^totals: (\d+)$", text, re.MULTILINE)[1])
        return built_with, totals


def count_per_row(program):
    built_with, few = count(program, FEW)
    _, many = count(program, MANY)
    return {"built_with": built_with,
            "instructions_per_row": {kind: round((many[kind] - few[kind]) / (MANY - FEW), 3) for kind in few}}


def differences(committed, counted):
    """One line for each kind that is new, gone, or more than the tolerance off."""
    lines = []
    for kind in {**committed, **counted}:
        old, new = committed.get(kind), counted.get(kind)
        if old is None or new is None:
            lines.append(f"{kind}: {'was not counted before' if old is None else 'is no longer counted'}")
        elif abs(new - old) > TOLERANCE * old:
            lines.append(f"{kind}: {old:g} instructions a row before, {new:g} now ({(new / old - 1) * 100:+.1f} %)")
    return lines


def read_figures():
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def other_build(committed, found):
    """What is not as it was where the figures were counted, or an empty text."""
    return "; ".join(f"{name} is {found[name]}, the figures are for {committed[name]}"
                     for name in BUILT_WITH if name in found and found[name] != committed[name])


class InstructionsTest(unittest.TestCase):
    def setUp(self):
        if not PROGRAM:
            self.skipTest("STBENCH_COUNTED names no program; CTest sets it")
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind on this machine (Debian: valgrind)")

    def test_counts_are_within_three_percent_of_the_committed(self):
        committed = read_figures()
        native = subprocess.run([PROGRAM, str(FEW)], capture_output=True, text=True, check=True)
        built_with, _ = said(native.stdout)
        del built_with["isa"]  # this processor's, not callgrind's
        self.skip_if_other(committed, built_with)
        counted = count_per_row(PROGRAM)
        self.skip_if_other(committed, counted["built_with"])
        lines = differences(committed["instructions_per_row"], counted["instructions_per_row"])
        if lines:
            self.fail("\n".join([
                "the code has changed:", *lines, "where this is wanted, write the figures anew and commit them:",
                f"python3 {Path(__file__).resolve().relative_to(ROOT)} --renew {os.path.relpath(PROGRAM, ROOT)}"]))

    def skip_if_other(self, committed, found):
        other = other_build(committed["built_with"], found)
        if other:
            self.skipTest(other)


class DifferencesTest(unittest.TestCase):
    def test_differences_are_reported_from_three_percent(self):
        committed = {"gather 16": 100.0, "scatter 16": 100.0, "gone": 1.0}
        counted = {"gather 16": 102.9, "scatter 16": 96.0, "new": 1.0}
        self.assertEqual(differences(committed, counted), [
            "scatter 16: 100 instructions a row before, 96 now (-4.0 %)",
            "gone: is no longer counted", "new: was not counted before"])
        self.assertEqual(differences(committed, committed), [])

    def test_differences_of_the_build_are_named(self):
        committed = {"compiler": "GNU 12", "build": "Release", "highway": "1.0", "isa": "avx2"}
        self.assertEqual(other_build(committed, {"compiler": "GNU 13", "build": "Release"}),
                         "compiler is GNU 13, the figures are for GNU 12")
        self.assertEqual(other_build(committed, dict(committed)), "")


def renew(program):
    figures = count_per_row(program)
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(f"written: {FIGURES.relative_to(ROOT)}, for {', '.join(figures['built_with'].values())}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--renew"]:
        renew(sys.argv[2])
    else:
        unittest.main()
