"""Peers in processes of their own: the real ones are verified and timed, and a bad one costs no more than its cases."""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program import MEASURED, PROGRAM, ROOT, ProgramTest, peers_of, peers_python, run

USUAL = {"--suite": "transfer", "--rows": "3k", "--batch": "500", "--samples": "3", "--cores": "1",
         "--placement": "pageable", "--device": "cpu"}
SHMEM = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")

# A peer that copies row by row, rightly unless FAULT says otherwise.
FAKE = """
import json, mmap, os, sys, time
FAULT = {fault!r}
def say(text):
    print(text, flush=True)
def tensor(request, spec):
    width = {{"int64": 8, "int32": 4, "float32": 4}}[spec["dtype"]]
    size = width * spec["shape"][0] * (spec["shape"] + [1])[1]
    fd = os.open("/proc/%d/fd/%d" % (request["pid"], spec["fd"]), os.O_RDWR)
    return mmap.mmap(fd, size), size // spec["shape"][0]
def run(request, number, direction):
    table, width = tensor(request, request["table"])
    index, item = tensor(request, request["index"][number])
    dense, _ = tensor(request, request["values"][number] if direction == "from" else request["model"])
    rows = request["index"][number]["shape"][0]
    for i in range(rows - (FAULT == "last row")):
        row = int.from_bytes(index[i * item:(i + 1) * item], "little")
        at, to = row * width, i * width
        if direction == "to":
            dense[to:to + width] = table[at:at + width]
        else:
            table[at:at + width] = dense[to:to + width]
    if FAULT == "stray" and direction == "from":
        table[0:width] = bytes(width)
if FAULT == "no hello":
    say("good morning")
if FAULT == "ends at once":
    print("Traceback\\n/home/somebody/peer.py: '/home/some body' was not to be", file=sys.stderr)
    sys.exit(7)
if FAULT == "hangs at once":
    time.sleep(1000)
say("hello " + json.dumps({{"protocol": 2 if FAULT == "version" else 1, "versions": {{"fake": "1.0"}}}}))
cells, samples = {{}}, 0
for line in sys.stdin:
    word, cell, *rest = line.split(" ", 2)
    if word == "prepare":
        cells[cell] = json.loads(rest[0])
        say("ready")
    elif word == "release":
        say("released")
    elif word == "sample":
        samples += 1
        first, repeat = map(int, rest[0].split(" "))
        if samples == 3 and FAULT == "dies":
            os.kill(os.getpid(), 9)
        if samples == 3 and FAULT == "ends":
            print("of old age", file=sys.stderr)
            sys.exit(3)
        if samples == 3 and FAULT == "hangs":
            time.sleep(1000)
        if samples == 3 and FAULT == "closes":
            os.close(1), os.close(0), time.sleep(1000)
        if FAULT == "nonsense" and samples == 3:
            say("\\x1b[31m42 /etc/passwd")
            continue
        if FAULT == "endless" and samples == 3:
            while True:
                print("x" * 100000, end="")
        if FAULT == "says it twice":
            say("seconds 1e-6\\nseconds 1e-6")
            continue
        if FAULT == "says error":
            say("error ValueError: out of luck")
            continue
        begin = time.perf_counter()
        direction = cells[cell]["direction"]
        for k in range(repeat):
            for step in (["from", "to"] if direction == "round_trip" else [direction]):
                run(cells[cell], (first + k) % 8, step)
        seconds = time.perf_counter() - begin
        say("seconds " + {{"too long": "5", "nan": "nan", "negative": "-1", "zero": "0", "words": "soon"}}.get(FAULT, repr(seconds)))
"""


def arguments_of(*given):
    """The usual ones, and the given in their place."""
    chosen = {**USUAL, **dict(zip(given[::2], given[1::2]))}
    return [word for pair in chosen.items() for word in pair]


class PeersTest(ProgramTest):
    def fake(self, fault):
        """The environment in which the peer `numpy` is a program with that fault."""
        folder = self.folder / "peers"
        folder.mkdir(exist_ok=True)
        (folder / "numpy_peer.py").write_text(FAKE.format(fault=fault))
        return {"STBENCH_PEERS": str(folder), "STBENCH_PYTHON": sys.executable}

    def with_fault(self, fault, *arguments, status=2, timeout="8"):
        """Both peers' cases: all of the one with a fault, and everything else is measured."""
        cases = self.cases(*arguments_of("--direction", "to,from", "--peers", "numpy", "--timeout", timeout, *arguments),
                           status=status, **self.fake(fault))
        peers = [case for case in cases if case["method"] == "numpy"]
        self.assertEqual(len(peers), 2)
        for case in cases:
            if case not in peers:
                self.assertIn(case["status"], MEASURED, case)
        return peers

    def test_honest_fake_is_measured(self):
        for case in self.with_fault("", status=0):
            self.assertIn(case["status"], MEASURED, case)
            self.assertGreater(case["verified_rows"], 0)

    def test_wrong_rows_are_wrong(self):
        for case in self.with_fault("last row", status=1):
            self.assertEqual((case["status"], case["mismatches"] > 0, case["median_s"]), ("wrong", True, None), case)

    def test_out_of_bounds_write_fails_that_case(self):
        to, back = self.with_fault("stray", "--rows", "20k", status=1)
        self.assertIn(to["status"], MEASURED, to)
        self.assertEqual(back["status"], "wrong", back)
        self.assertIn("not named", back["reason"])

    def check_failed(self, fault, *parts, **options):
        for case in self.with_fault(fault, **options):
            self.assertEqual(case["status"], "failed", case)
            self.assertEqual((case["median_s"], case["samples"]), (None, 0))
            for part in parts:
                self.assertIn(part, case["reason"])
            self.assertNotIn("/", case["reason"])
            self.assertTrue(case["reason"].isprintable(), case)

    def test_peer_that_ends_is_failed_with_its_last_words(self):
        self.check_failed("dies", "was ended by signal 9")
        self.check_failed("ends", "ended with exit status 3: of old age")
        self.check_failed("ends at once", "ended with exit status 7: peer.py: '...' was not to be")
        self.check_failed("closes", "was ended by signal 9")

    def test_peer_that_hangs_is_failed_and_the_run_goes_on(self):
        began = time.monotonic()
        self.check_failed("hangs", "no answer within 2 s, a quarter of --timeout")
        self.check_failed("hangs at once", "no answer within 2 s")
        self.assertLess(time.monotonic() - began, 60)

    def test_nonsense_is_failed(self):
        self.check_failed("no hello", "'good morning' instead of hello")
        self.check_failed("version", "version 2", "version 1", "one release")
        self.check_failed("nonsense", "instead of seconds")
        self.check_failed("endless", "endless line")
        self.check_failed("says it twice", "it said more than it was asked")

    def test_times_that_cannot_be_true_are_failed(self):
        for fault, part in (("too long", "it took 5 s"), ("nan", "'nan'"), ("negative", "-1"), ("zero", "'0'"),
                            ("words", "'soon'")):
            with self.subTest(fault=fault):
                self.check_failed(fault, part)

    def test_error_of_the_peer_is_its_reason(self):
        self.check_failed("says error", "the peer says: ValueError: out of luck")

    def test_peer_ends_with_the_program(self):
        """Also where the program is killed: its peer hangs and would never notice."""
        self.fake("hangs")
        mark = self.folder / "pid"
        script = self.folder / "peers/numpy_peer.py"
        script.write_text(f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\n" + script.read_text())
        done = run(*arguments_of("--peers", "numpy", "--timeout", "0", "--direction", "to"), prefix=("timeout", "-s", "KILL", "5"),
                   STBENCH_PEERS=str(script.parent), STBENCH_PYTHON=sys.executable)
        self.assertNotEqual(done.returncode, 0)
        pid = int(mark.read_text())
        until = time.monotonic() + 20
        while self.is_alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(self.is_alive(pid))

    @staticmethod
    def is_alive(pid):
        try:
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False

    def test_python_that_is_missing_waives_with_reason_and_cure(self):
        for python, part in (("/nonexistent/python", "No such file"), (str(self.python_without("numpy")), "numpy")):
            with self.subTest(python=python):
                cases = self.cases(*arguments_of("--direction", "to", "--peers", "numpy"), STBENCH_PYTHON=python)
                waived = [case for case in cases if case["status"] == "waived"]
                self.assertEqual([case["method"] for case in waived], ["numpy"])
                for text in (part, "set STBENCH_PYTHON to a Python that has it"):
                    self.assertIn(text, waived[0]["reason"])
                self.assertNotIn("/", waived[0]["reason"].replace("scripts/setup", ""))

    def test_empty_variable_is_as_good_as_none(self):
        """The Python on the PATH is meant then, and named so."""
        self.python_without("numpy").rename(self.folder / "python3")
        case = self.waived_numpy(STBENCH_PYTHON="", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertIn("python3 on the PATH: NumPy cannot be imported", case["reason"])

    def test_script_that_is_missing_waives_with_the_cure(self):
        case = self.waived_numpy(STBENCH_PEERS=str(self.folder), STBENCH_PYTHON=sys.executable)
        self.assertEqual(case["reason"], "the folder that STBENCH_PEERS names has no numpy_peer.py; "
                                         "set STBENCH_PEERS to the folder scripts/peers")

    def test_program_without_its_sources_waives_with_the_cure(self):
        """As where the sources were moved: the folder that was compiled in is not there."""
        program = Path(PROGRAM).read_bytes()
        self.assertIn(b"/scripts/peers\0", program)
        moved = self.folder / "stbench"
        moved.write_bytes(program.replace(b"/scripts/peers\0", b"/scripts/gone_\0"))
        moved.chmod(0o755)
        case = self.waived_numpy(program=str(moved), STBENCH_PEERS=None, STBENCH_PYTHON=sys.executable)
        self.assertEqual(case["reason"], "the folder that stbench was built from has no numpy_peer.py; "
                                         "set STBENCH_PEERS to the folder scripts/peers")

    def waived_numpy(self, **options):
        """The case of the peer numpy, the only one that is waived."""
        cases = self.cases(*arguments_of("--direction", "to", "--peers", "numpy"), **options)
        waived = [case for case in cases if case["status"] == "waived"]
        self.assertEqual([case["method"] for case in waived], ["numpy"])
        return waived[0]

    def python_without(self, module):
        """A Python that does not find the module."""
        shadow = self.folder / "shadow"
        (shadow / module).mkdir(parents=True)
        (shadow / module / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {module}')\n")
        python = self.folder / "python"
        python.write_text(f"#!/bin/sh\nPYTHONPATH='{shadow}' exec '{sys.executable}' \"$@\"\n")
        python.chmod(0o755)
        return python

    def real(self, *arguments, **options):
        return self.measure(*arguments_of(*arguments), STBENCH_PYTHON=sys.executable, **options)[0]

    def require(self, module):
        try:
            __import__(module)
        except ImportError:
            self.skipTest(f"{module} is not installed")

    def check_peer(self, name, *arguments):
        self.require(name)
        report = self.real("--peers", name, *arguments)
        cases = [case for case in report["cases"] if case["method"] == name]
        self.assertTrue(cases)
        for case in cases:
            self.assertIn(case["status"], (*MEASURED, "waived"), case)
            if case["status"] == "waived":
                self.assertIn("index_copy_ takes int64", case["reason"])
                continue
            self.assertEqual((case["mismatches"], case["verified_rows"] > 0), (0, True))
            self.assertEqual(case["pages_got"], None if case["direction"] == "sum" else "4KiB")
        self.assertEqual(set(report["environment"]["peers"][name]), {"python", name})
        return cases

    def test_numpy_is_verified_in_each_dtype_and_direction(self):
        cases = self.check_peer("numpy", "--dtype", "float16,bfloat16,float32,float64,int8,int32,int64", "--dim", "3",
                                "--index-dtype", "int64,int32")
        self.assertEqual({case["direction"] for case in cases}, {"to", "from", "sum", "round_trip"})
        self.assertEqual(len(cases), 7 * 2 * 4)
        self.check_peer("numpy", "--row-bytes", "1,6,264")

    def test_torch_is_verified_in_each_dtype_and_direction(self):
        cases = self.check_peer("torch", "--dtype", "float16,bfloat16,float32,float64,int8,int32,int64", "--dim", "3",
                                "--index-dtype", "int64,int32")
        self.assertEqual(len([case for case in cases if case["status"] in MEASURED]), 7 * (4 + 1))
        self.check_peer("torch", "--row-bytes", "1,6,264")

    def test_packages_that_are_missing_waive_with_the_cure(self):
        python = str(self.python_without("fbgemm_gpu"))
        cases = self.cases(*arguments_of("--direction", "to", "--peers", "fbgemm"), STBENCH_PYTHON=python)
        waived = [case for case in cases if case["status"] == "waived"]
        self.assertEqual([case["method"] for case in waived], ["fbgemm"])
        self.assertRegex(waived[0]["reason"], r"FBGEMM cannot be imported \(.*fbgemm_gpu.*\); .*scripts/setup --peers makes one")

    def test_fbgemm_is_verified_in_both_dtypes(self):
        python = peers_python()
        if python is None:
            self.skipTest("the packages of scripts/setup --peers are not installed")
        report, _, _ = self.measure(*arguments_of("--peers", "fbgemm", "--dtype", "float16,float32,float64", "--dim", "12",
                                                  "--index-dtype", "int64,int32"), STBENCH_PYTHON=python)
        cases = [case for case in report["cases"] if case["method"] == "fbgemm"]
        self.assertEqual({(case["dtype"], case["index_dtype"], case["direction"]) for case in cases},
                         {(dtype, index, "to") for dtype in ("float16", "float32") for index in ("int64", "int32")})
        for case in cases:
            self.assertIn(case["status"], MEASURED, case)
            self.assertEqual((case["mismatches"], case["verified_rows"] > 0), (0, True))
        self.assertEqual(set(report["environment"]["peers"]["fbgemm"]), {"python", "torch", "fbgemm"})

    def test_lance_is_verified_on_files_warm_and_cold(self):
        python = peers_python()
        if python is None:
            self.skipTest("the packages of scripts/setup --peers are not installed")
        tables = self.folder / "tables"
        tables.mkdir()
        report, _, _ = self.measure(*arguments_of("--peers", "lance", "--placement", "mapped", "--dtype", "float16,int64", "--dim", "3",
                                                  "--index-dtype", "int64,int32", "--distribution", "uniform", "--cache", "warm,cold"),
                                    STBENCH_PYTHON=python, TMPDIR=str(tables))
        cases = [case for case in report["cases"] if case["method"] == "lance"]
        self.assertEqual(len(cases), 2 * 2 * 2)
        for case in cases:
            if case["status"] == "waived" and case["cache"] == "cold":
                continue  # the folder is in memory here
            self.assertIn(case["status"], MEASURED, case)
            self.assertEqual((case["mismatches"], case["verified_rows"] > 0, case["direction"]), (0, True, "to"))
        self.assertEqual(list(tables.glob(".stbench-lance-*")), [])

    def test_released_cell_is_unmapped(self):
        """A cell's table can be most of the memory; the next one needs it."""
        for name in ("numpy", "torch"):
            for direction in ("to", "from", "round_trip"):
                with self.subTest(peer=name, direction=direction):
                    self.require(name)
                    self.check_unmapped(name, direction)

    def check_unmapped(self, name, direction):
        peer = subprocess.Popen([sys.executable, "-B", ROOT / f"scripts/peers/{name}_peer.py"], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(peer.communicate, "quit\n")

        def ask(request, expected):
            print(request, file=peer.stdin, flush=True)
            self.assertIn(expected, peer.stdout.readline())

        def mapped():
            return Path(f"/proc/{peer.pid}/maps").read_text().count("memfd:stbench")

        self.assertIn("hello", peer.stdout.readline())
        for cell in ("1", "2"):  # the second is not the last that the peer knows of
            request = self.cell_of(direction)
            ask(f"prepare {cell} {json.dumps(request)}", "ready")
            ask(f"sample {cell} 0 9", "seconds")
        cells = 2 + 8 + len(request["values"])
        self.assertEqual(mapped(), 2 * cells)
        ask("release 1", "released")
        self.assertEqual(mapped(), cells)
        ask("release 2", "released")
        self.assertEqual(mapped(), 0)

    def cell_of(self, direction):
        """A request with tensors in memory of this process."""
        def tensor(dtype, *shape):
            fd = os.memfd_create("stbench")
            self.addCleanup(os.close, fd)
            os.ftruncate(fd, 4096)
            return {"fd": fd, "shape": shape, "dtype": dtype}

        sets = range(8)
        return {"pid": os.getpid(), "direction": direction, "threads": 1, "cpus": [], "device": "cpu",
                "huge_pages": False, "table": tensor("float32", 16, 4), "model": tensor("float32", 2, 4),
                "values": [tensor("float32", 2, 4) for _ in sets if direction != "to"],
                "index": [tensor("int64", 2) for _ in sets]}

    def test_short_operations_are_repeated_inside_the_peer(self):
        for case in self.check_peer("numpy", "--batch", "1", "--direction", "to"):
            self.assertGreater(case["repeat"], 1)

    def test_peers_take_part_in_huge_pages_where_the_kernel_shares_them(self):
        self.require("numpy")
        cases = self.real("--placement", "pageable,hugepage", "--peers", "numpy", "--direction", "to",
                          "--rows", "30k")["cases"]
        huge = next(case for case in cases if (case["method"], case["placement"]) == ("numpy", "hugepage"))
        mode = SHMEM.read_text() if SHMEM.exists() else ""
        if not mode or "[never]" in mode or "[deny]" in mode:
            self.assertEqual(huge["status"], "waived")
            self.assertRegex(huge["reason"], "echo advise > |no huge pages")
        else:
            self.assertIn(huge["status"], MEASURED)
            self.assertTrue(huge["pages_got"].startswith("2MiB"), huge)

    def test_one_case_is_run_again(self):
        self.require("numpy")
        case_id = "transfer to pageable -> numpy -> cpu float32 3k×16 batch 500 unique int64 cores=1"
        cases = self.measure("--case", case_id, "--samples", "3", STBENCH_PYTHON=sys.executable)[0]["cases"]
        self.assertIn("numpy", {case["method"] for case in cases if case["status"] in MEASURED})

    def test_peers_in_this_process_are_verified(self):
        cases = self.cases(*arguments_of("--peers", "embedding_bag,gather", "--dim", "64,3", "--index-dtype", "int64,int32",
                                         "--dtype", "float16,bfloat16,float32,float64,int8"))
        bags = [case for case in cases if case["method"] == "embedding_bag"]
        self.assertEqual({(case["direction"], case["dtype"]) for case in bags},
                         {("to", dtype) for dtype in ("float16", "bfloat16", "float32", "float64")})
        gathers = [case for case in cases if case["method"] == "gather"]
        self.assertEqual({case["direction"] for case in gathers}, {"to", "from", "sum", "round_trip"})
        for case in bags + gathers:
            scatter = case["direction"] != "to" and case["dtype"] != "int8"
            refused = case["method"] == "gather" and (scatter or case["index_dtype"] == "int32")
            self.assertEqual(case["status"] == "waived", refused, case)
            self.assertTrue(refused or case["status"] in MEASURED, case)

    def test_peers_run_only_when_asked_for(self):
        lines = run(*arguments_of(), "--dry-run").stdout
        self.assertLessEqual({"numpy", "torch", "cupy", "embedding_bag", "gather"}, set(peers_of("transfer")))
        for name in peers_of("transfer"):
            self.assertNotIn(f"-> {name} ->", lines)
        alone = run(*arguments_of("--method", "gather"), "--dry-run").stdout.splitlines()
        self.assertEqual({line.split(" -> ")[1] for line in alone}, {"gather"})

    def test_peer_without_a_cell_is_waived(self):
        cases = self.cases(*arguments_of("--direction", "from", "--peers", "embedding_bag,cupy"))
        reasons = {case["method"]: case["reason"] for case in cases if case["status"] == "waived"}
        self.assertIn("takes part in direction to of floating dtypes", reasons["embedding_bag"])
        self.assertIn("takes part in pinned tables with a GPU", reasons["cupy"])


if __name__ == "__main__":
    unittest.main()
