"""Includes run down: no folder includes one above it, and neither folders nor files include each other in circles."""

import os
import re
import subprocess
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (".cpp", ".h", ".cu", ".cuh")

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# The rooms of its table, from below: a file includes its own room and those below it.
ROOMS = [room for room in re.findall(r"^\| `([\w/]+)/` \|", CONTRIBUTING, re.MULTILINE) if room not in ("tests", "results")]
# Folders of benchmarks/ by its line, from below. Those in one place do not include each other.
BENCHMARKS = [place.split(", ") for place in
              re.search(r"^in benchmarks/: +(.*)$", CONTRIBUTING, re.MULTILINE)[1].split(" <- ")]
OTHERS = BENCHMARKS.index(["other suites"])

# A header for each file that it is compiled for, as Highway wants it.
PER_TARGET = {("speedtorch/kernels/rows/row_copies-inl", "speedtorch/kernels/rows/row_moves")}
# Files that stand above all folders of their room: what includes all public headers, and what a build without CUDA lacks.
ABOVE_ITS_ROOM = ("speedtorch/speedtorch.h", "speedtorch/cuda_absent.cpp")
# What the library uses of reports/ and the other way: files without LibTorch that several rooms share.
UNFINISHED = "speedtorch/system/unfinished.h"
LIBRARY_FILES_OF_HARNESS = ("speedtorch/files/npy", "speedtorch/system/")


def sources(root):
    """The files of the program and the library, by git; in a checkout without git, all below their folders."""
    listed = subprocess.run(["git", "-C", root, "ls-files", *ROOMS], capture_output=True, text=True, check=False)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(path.relative_to(root)) for room in ROOMS for path in (root / room).rglob("*")]
    return sorted({name for name in names if name.endswith(SOURCES) and (root / name).is_file()})


def includes_of(root):
    """file -> files of the tree that it includes"""
    names = set(sources(root))
    found = {}
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        found[name] = set(re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE)) & names
    return found


def unit(name):
    """A header and its source count as one."""
    return os.path.splitext(name)[0]


def merged(includes, key):
    graph = defaultdict(set)
    for name, others in includes.items():
        graph[key(name)] |= {key(other) for other in others} - {key(name)}
    return graph


def circles(graph):
    """The strongly connected parts of more than one node, each sorted (Tarjan's algorithm, without recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start), on.add(start)
        while work:
            node, rest = work[-1]
            following = next((other for other in rest if other not in index or other in on), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while node not in part:
                        part.append(stack.pop()), on.discard(part[-1])
                    if len(part) > 1:
                        found.append(tuple(sorted(part)))
            elif following in index:
                low[node] = min(low[node], index[following])
            else:
                index[following] = low[following] = len(index)
                stack.append(following), on.add(following)
                work.append((following, iter(sorted(graph.get(following, ())))))
    return sorted(found)


def room(name):
    return next(room for room in ROOMS if name.startswith(room + "/"))


def rank_in_benchmarks(name):
    folder = name.split("/")[1]
    return next((rank for rank, folders in enumerate(BENCHMARKS) if folder in folders), OTHERS)


def wrong_rooms(includes):
    """(file, file) that runs up from a room, or aside where the two do not know each other."""
    wrong = []
    for name, others in includes.items():
        for other in others:
            here, there = room(name), room(other)
            up = ROOMS.index(there) > ROOMS.index(here)
            of_library = there.startswith("speedtorch")
            aside = (here == "reports" and of_library and other != UNFINISHED
                     or here == "python" and not (of_library or there == here)
                     or here == "harness" and of_library and not other.startswith(LIBRARY_FILES_OF_HARNESS))
            if up or aside:
                wrong.append((name, other))
    return sorted(wrong)


def wrong_in_benchmarks(includes):
    """(file, file) of benchmarks/ that runs up, or from a suite to another that is not transfer."""
    wrong = []
    for name, others in includes.items():
        for other in others:
            if not (name.startswith("benchmarks/") and other.startswith("benchmarks/")):
                continue
            folder, included = name.split("/")[1], other.split("/")[1]
            up = rank_in_benchmarks(other) > rank_in_benchmarks(name)
            aside = rank_in_benchmarks(other) == rank_in_benchmarks(name)
            if folder != included and (up or aside):
                wrong.append((name, other))
    return sorted(wrong)


class IncludesTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.includes = includes_of(ROOT)

    def test_reads_the_tree(self):
        self.assertEqual(ROOMS, ["speedtorch/kernels", "speedtorch", "reports", "harness", "benchmarks", "python"])
        self.assertGreater(len(self.includes), 400)
        self.assertIn("benchmarks/suite/options.h", self.includes["benchmarks/suite/suite.h"])

    def test_no_room_includes_one_above_it(self):
        self.assertEqual(wrong_rooms(self.includes), [])

    def test_no_folder_of_benchmarks_includes_one_above_or_beside_it(self):
        self.assertEqual(wrong_in_benchmarks(self.includes), [])

    def test_folders_form_no_circles(self):
        # The few files that lie in a room itself stand below its folders, or above all of them.
        inner = {name: others for name, others in self.includes.items() if name not in ABOVE_ITS_ROOM}
        self.assertEqual(circles(merged(inner, os.path.dirname)), [])

    def test_files_form_no_circles(self):
        self.assertEqual(set(circles(merged(self.includes, unit))), PER_TARGET)

    def test_a_planted_circle_and_a_planted_include_up_are_found(self):
        planted = {**self.includes, "python/native/a.cpp": {"reports/utf8.h"}, "reports/number.h": {"harness/errors.h"}, "reports/utf8.h": {"reports/style.h"},
                   "reports/style.h": {"reports/utf8.h"}, "benchmarks/suite/paths.h": {"benchmarks/program/run.h"},
                   "benchmarks/memory/plan.h": {"benchmarks/optimizer/world.h"}}
        self.assertIn(("reports/number.h", "harness/errors.h"), wrong_rooms(planted))
        self.assertIn(("python/native/a.cpp", "reports/utf8.h"), wrong_rooms(planted))
        self.assertEqual({("benchmarks/suite/paths.h", "benchmarks/program/run.h"),
                          ("benchmarks/memory/plan.h", "benchmarks/optimizer/world.h")} - set(wrong_in_benchmarks(planted)), set())
        self.assertTrue(any({"reports/style", "reports/utf8"} <= set(circle) for circle in circles(merged(planted, unit))))


if __name__ == "__main__":
    unittest.main()
