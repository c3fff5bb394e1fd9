"""Runs stbench as a user does, and reads what it writes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import warm_start

PROGRAM = os.environ.get("STBENCH_PROGRAM", "")
PLANTED = os.environ.get("STBENCH_PLANTED", "")

SMALL = ("--suite", "transfer", "--rows", "3k", "--batch", "500", "--samples", "3")
HOST = ("--device", "cpu")

IDENTITY = ("suite direction placement method device dtype index_dtype distribution rows dim batch cores").split()
COLUMNS = IDENTITY + (
    "status reason samples median_s ci_low_s ci_high_s min_s p05_s p95_s payload_bytes index_bytes gb_per_s "
    "copy_fraction speedup verified_rows mismatches"
).split()
AXES = ["cache", "cache_bytes", "callers", "index_home", "isa"]
LATENCY = ["latency_p50_s", "latency_p99_s", "latency_runs", "latency_clock_s", "latency_curve"]
PLAIN = ["role", "repeat", "pages_got", "huge_fraction", "resident_fraction", "throttled", *LATENCY, "group"]
FIGURES = ("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s", "gb_per_s", "copy_fraction", "speedup")
MEASURED = ("ok", "unstable")


def environment(**changes):
    """The caller's environment without what changes the program's behaviour; None removes a variable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    for name in ("NO_COLOR", "TMPDIR", "COLUMNS"):
        kept.pop(name, None)
    # Set, so that the program need not start itself a second time.
    kept.update({"GOMP_SPINCOUNT": "5000", "TERM": "xterm"})
    kept.update(changes)
    return {name: value for name, value in kept.items() if value is not None}


def run(*arguments, program=PROGRAM, cwd=None, timeout=280, prefix=(), warm=True, **variables):
    """warm=False starts it by itself, for what it does at its end (tests/warm_start.cpp)."""
    if warm and not prefix:
        return warm_start.run(program, arguments, cwd, environment(**variables), timeout)
    return subprocess.run(
        [*prefix, program, *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, timeout=timeout, env=environment(**variables), check=False,
    )


def listed(suite):
    """The lines of `list` on a suite."""
    return re.search(rf"^{suite}: .*\n((?: .*\n)+)", run("list").stdout, re.MULTILINE)[1]


def peers_of(suite):
    """What `list` names as peers of a suite."""
    return re.search(r"^  peers +([^\[]+)", listed(suite), re.MULTILINE)[1].split()


def peers_python():
    """The Python that `scripts/setup --peers` made for this checkout, or None."""
    state = ROOT / "build/setup.state"
    found = re.search(r"^PEERS_PYTHON=(.+)$", state.read_text() if state.exists() else "", re.MULTILINE)
    return found[1] if found and found[1] != "''" else None


def options_of(suite):
    """The options of the axes that `list` names."""
    return tuple("--" + axis for axis in re.findall(r"^  ([\w-]+)(?= )", listed(suite), re.MULTILINE))


def messages(stderr):
    """What was said on stderr beside the progress, of which a run of more than two seconds has lines."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not re.match(r"\[ *\d+ %\] ", line))


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def read_json(path):
    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse_constant)


def below_machine(stdout):
    """What a run prints below the machine, whose long name may take two lines, and without what spoils numbers there: what
    `show` prints of a CSV."""
    return re.sub("\nSpoils numbers here: .*\n", "", stdout[stdout.index("\n\n") + 1:])


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def identity(case):
    return tuple(case[name] for name in IDENTITY + AXES)


def cell(case):
    """What a case has in common with those it is compared with."""
    return tuple(case[name] for name in IDENTITY + AXES if name != "method")


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (PROGRAM and PLANTED):
            raise RuntimeError("STBENCH_PROGRAM and STBENCH_PLANTED name the two programs; run these tests by ctest")

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="stbench test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_program(self, *arguments, **options):
        return run(*arguments, cwd=self.folder, **options)

    def start(self, *arguments, announced, **variables):
        """A running stbench_planted whose planted method of that name has begun."""
        process = subprocess.Popen([PLANTED, *arguments], cwd=self.folder, env=environment(**variables),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if line == f"planted: {announced} has begun\n":
                return process
        self.fail(f"{announced} never began; status {process.wait()}")

    def measure(self, *arguments, status=0, **options):
        """Runs with both reports; returns the JSON's object, the CSV's rows and the finished process."""
        done = self.run_program(*arguments, "--csv", "r.csv", "--json", "r.json", **options)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return read_json(self.folder / "r.json"), read_csv(self.folder / "r.csv"), done

    def cases(self, *arguments, **options):
        return self.measure(*arguments, **options)[0]["cases"]

    def file(self, name, content=""):
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return path
