#!/usr/bin/env python3
"""Writes the corpora of fuzz targets whose input is text: tests/corpus/{calibration,baseline,index,case_id,options,plan}.

Good input of each kind, and one file for each way in which it can be bad. The fuzzer begins with them, and each build
replays them.

  tests/make_text_corpora.py
"""

import json
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "reports"))
import make_report_corpus as reports  # noqa: E402

CASE = {**reports.IDENTITY, "axes": {"cache": "warm", "callers": 1}, "processes": 4, "spread_time": 0.02, "spread_ceiling": None}


def calibration(*cases, **changes):
    return json.dumps({"calibration_schema": "1.0", "program": "stbench 0.1.0", "argv": ["calibrate", "--suite", "transfer"],
                       "started_at": "2026-11-21T00:00:00Z", "machine": {"cpu": {"model": "x", "cores": 2}, "gpu": None},
                       "processes": 4, "false_alarms": {"pairs": 6, "alarmed_pairs": 1, "rows": 12, "alarmed_rows": 1},
                       "cases": list(cases or [CASE]), **changes})


CALIBRATION = {
    "one-row": calibration(),
    "ceiling": calibration(CASE, {**CASE, "method": "copy", "spread_ceiling": 0.01}),
    "one-process": calibration({**CASE, "processes": 1}),
    "no-rows": calibration(cases=[]),
    "same-row-twice": calibration(CASE, CASE),
    "zero-spread": calibration({**CASE, "spread_time": 0}),
    "tiny-and-huge": calibration({**CASE, "spread_time": 5e-324, "spread_ceiling": 1e308}),
    "negative-spread": calibration({**CASE, "spread_time": -0.1}),
    "infinite-spread": calibration().replace("0.02", "1e999"),
    "text-for-a-number": calibration({**CASE, "rows": "1000"}),
    "number-for-a-text": calibration({**CASE, "suite": 7}),
    "array-for-an-axis": calibration({**CASE, "axes": {"cache": [1]}}),
    "axes-no-object": calibration({**CASE, "axes": "warm"}),
    "cases-no-list": calibration(cases={"a": CASE}),
    "no-machine": calibration(machine=None),
    "odd-words": calibration(argv=[1, None, "\u001b[2J", "é"]),
    "wrapping-count": calibration(processes=2**64 - 1),
    "negative-count": calibration(processes=-1),
    "other-schema": calibration(calibration_schema="2.0"),
    "no-schema": calibration().replace("calibration_schema", "schema"),
    "no-false-alarms": calibration(false_alarms=[]),
    "a-report": json.dumps(reports.report()),
    "cut": calibration()[:300],
    "empty": "",
}


def baseline(name, *cases):
    return name + "\n" + "\n---\n".join(json.dumps(case) for case in cases)


def slower(factor, **changes):
    cases = []
    for method, base in (("copy", 1.0), ("speedtorch", factor)):
        samples = [base * (0.001 + 0.0001 * k) for k in range(5)]
        cases.append(reports.case(method=method, samples=5, samples_s=samples, median_s=samples[2], min_s=samples[0], **changes))
    return reports.report(*cases)


BASELINE = {
    "same": baseline("main", slower(1), slower(1), slower(1)),
    "slower": baseline("a-1_b.c", slower(1), slower(1.01), slower(3)),
    "single-runs": baseline("main", slower(1), slower(1.1)),
    "lost": baseline("main", slower(1), slower(1), reports.report(reports.case(method="copy"))),
    "new-case": baseline("main", slower(1), reports.report(*slower(1)["cases"], reports.case(method="other"))),
    "wrong-now": baseline("main", slower(1), reports.of_statuses()),
    "twice-the-same": baseline("main", slower(1), reports.report(reports.case(), reports.case())),
    "other-machine": baseline("main", slower(1), {**slower(1), "environment": {"cpu": {"model": "y"}}}),
    "other-build": baseline("main", slower(1), {**slower(1), "environment": {"build": {"flags": "-O0"}, "libtorch": {"version": "9"}}}),
    "no-environment": baseline("main", *[{**slower(1), "environment": {}}] * 2),
    "zero-time": baseline("main", slower(0), slower(1), slower(0)),
    "one-report": baseline("main", slower(1)),
    "eight-reports": baseline("main", *[slower(1 + 0.01 * k) for k in range(8)]),
    "name-of-a-folder": baseline("../main", slower(1), slower(1)),
    "name-hidden": baseline(".main", slower(1)),
    "name-of-a-report": baseline("main.json", slower(1)),
    "name-empty": baseline("", slower(1)),
    "no-report": baseline("main") + "---\n---\n",
    "empty": "",
}


def npy(numbers, kind="<i8", code="q"):
    header = str({"descr": kind, "fortran_order": False, "shape": (len(numbers),)}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(numbers)}{code}", *numbers)


INDEX = {
    "lines": "3\n1\n4\n1\n5\n", "one": "0", "no-last-line-end": "1\n2", "carriage-returns": "1\r\n2\r\n",
    "most": f"{2**63 - 1}\n", "beyond-64-bits": f"{2**63}\n", "negative": "1\n-2\n", "minus-zero": "-0\n", "plus": "+1\n",
    "blank-line": "1\n\n2\n", "two-in-a-line": "1 2\n", "a-word": "one\n", "a-point": "1.0\n", "hexadecimal": "0x10\n",
    "only-line-ends": "\n\n", "nul": "1\0\n", "long-line": "7" * 200 + "\n", "escape": "\u001b[2J\n", "leading-zeros": "0007\n",
    "empty": "", "npy-int64": npy([5, 0, 7]), "npy-int32": npy([5, 0, 7], "<i4", "i"), "npy-uint8": npy([5, 255], "|u1", "B"),
    "npy-uint64-beyond": npy([2**64 - 1], "<u8", "Q"), "npy-negative": npy([1, -1]), "npy-float": npy([1, 2], "<f8", "d"),
    "npy-empty": npy([]), "npy-cut": npy([1, 2, 3])[:-3], "npy-longer": npy([1, 2, 3]) + b"\0", "npy-magic-only": b"\x93NUMPY",
    "npy-line-ends-mangled": npy([10, 13, 2573]).replace(b"\n", b"\r\n"),
}

MOVE = "transfer to pinned -> speedtorch -> cuda:0 float32 10M×128 batch 131072 unique int64 cores=2"
CASE_ID = {f"{kind}-{name}": str(kind) + text for kind, name, text in (
    (0, "move", MOVE), (0, "x", MOVE.replace("×", "x")), (0, "axes", MOVE + " cache=cold callers=2 clip=0.5 isa=AVX2"),
    (0, "key-in-front", "cores=1 cache=cold " + MOVE.replace(" cores=2", "")), (0, "quotes", MOVE.replace("unique", '"file:a b->c@01"')),
    (0, "escaped", MOVE.replace("unique", '"file:a\\"b\\\\"')), (0, "open-quote", MOVE + ' isa="AV'), (0, "no-cores", MOVE[:-8]),
    (0, "twice-the-same-key", MOVE + " cores=2"), (0, "unknown-key", MOVE + " kache=cold"), (0, "word-too-many", MOVE + " more"),
    (0, "word-missing", MOVE[:40]), (0, "no-arrow", MOVE.replace("->", "")), (0, "zero-rows", MOVE.replace("10M", "0")),
    (0, "rows-beyond", MOVE.replace("10M", "99999999999G")), (0, "no-size", MOVE.replace("10M×128", "10M")),
    (0, "quoted-number", MOVE + ' callers="2"'), (0, "number-as-a-text", MOVE + ' isa="5"'), (0, "empty-quotes", MOVE.replace("unique", '""')), (0, "arrows", "-> -> ->"),
    (0, "real-clip", MOVE + " clip=1e-3"), (0, "clip-no-number", MOVE + " clip=nan"), (0, "empty", ""),
    (1, "hold", "memory in pinned -> speedtorch -> cuda:0 float32 10M×128"), (1, "hold-with-batch", MOVE.replace("transfer", "memory")),
    (1, "hold-with-cores", "memory in pinned -> speedtorch -> cuda:0 float32 10M×128 cores=2"),
    (2, "work", "contiguous step libtorch -> contiguous -> cpu float32 1k×1k cores=2"),
    (2, "shape", "contiguous step libtorch -> fused -> cpu float32 1Ki×1Ki cores=2 isa=resnet50"), (2, "no-cores", "a b c -> d -> e f 1×1"),
)}

OPTIONS = {name: "\n".join(words) for name, words in {
    "run": ["run", "--suite", "transfer", "--rows", "1k:1M:x4", "--batch=2k", "--cores", "1,2", "--json", "r.json"],
    "no-command": ["--suite", "transfer", "--direction", "to,from", "--placement", "pageable", "--method", "speedtorch"],
    "axes": ["--suite", "transfer", "--dim", "1:9:+2", "--row-bytes", "4Ki", "--callers", "1,2", "--cache", "warm,cold", "--isa", "all"],
    "distributions": ["--suite", "transfer", "--distribution", "zipf:1.05,uniform,file:/a/b.npy,file:c.txt", "--index-dtype", "int32"],
    "case": ["--case", MOVE], "case-with-axis": ["--case", MOVE, "--rows", "1"], "case-no-suite": ["--case", "nothing"],
    "workload": ["--workload", "all", "--preset", "quick", "--dry-run"], "list": ["list"], "list-with-option": ["list", "--rows", "1"],
    "calibrate": ["calibrate", "--suite", "transfer", "--processes", "5", "--baselines", "b"], "help": ["--help"], "h": ["compare", "-h"],
    "version": ["--version"], "list-tests": ["--benchmark_list_tests", "--suite", "transfer", "--benchmark_filter=to"],
    "google": ["--suite", "transfer", "--benchmark_out", "o", "--benchmark_out_format", "csv", "--benchmark_color=true"],
    "google-unknown": ["--benchmark_repetitions=3"], "compare": ["compare", "a.json", "b.json", "--effect", "2%", "--all"],
    "compare-sides": ["compare", "--metric", "time", "a", "b", "--", "c", "d", "--allow-missing", "--across", "machine,build"],
    "compare-one": ["compare", "a"], "compare-effect": ["compare", "a", "b", "--effect", "1e999"], "show": ["show", "r.json", "--filter", "to"],
    "show-sort": ["show", "a.csv", "--sort", "-median_s", "--columns", "case,median_s", "--color", "never"], "doctor": ["doctor", "--json"],
    "doctor-both": ["doctor", "--text", "--json"], "schema": ["schema"], "completion": ["completion", "bash"], "man": ["man", "x"],
    "baseline": ["--suite", "transfer", "--baseline", "main", "--processes", "3", "--markdown", "-", "--effect", "0.02"],
    "expect": ["--suite", "transfer", "--expect", "to -> copy>=1e-9", "--expect", "x>=-1"], "same-file": ["--csv", "a", "--json", "./a"],
    "samples": ["--suite", "transfer", "--samples", "11", "--warmup", "2", "--timeout", "1.5min", "--verify", "every", "--seed", "7"],
    "steps": ["--suite", "optimizer,embedding", "--optimizer", "Adam,SGD", "--negatives", "5", "--text", "t"],
    "contiguous": ["--suite", "contiguous", "--shape", "resnet50", "--clip", "0,1.5", "--peers", "all"],
    "training": ["--suite", "infinitybatch", "--model", "all", "--micro-batch", "auto"], "wrong-suite": ["--suite", "transfer", "--clip", "1"],
    "misspelt": ["--sute", "transfer"], "twice": ["--rows", "1", "--rows", "2"], "empty-value": ["--rows="], "no-value": ["--rows"],
    "huge-range": ["--rows", "1:9223372036854775807:+1"], "slow-range": ["--rows", "0:9:x2"], "overflow": ["--rows", "9223372036G"],
    "range-of-one": ["--rows", "1:9:x1"], "filter-deep": ["--filter", "(" * 500], "filter-wide": ["--filter", "((a{1,99}){1,99}){1,99}"],
    "flag-with-value": ["--dry-run=no"], "dashes": ["--", "--suite", "transfer"], "lone-dash": ["-"], "empty-word": ["", ""], "empty": [],
    "timeout": ["--suite", "memory", "--timeout", "1e308h"], "nan": ["--suite", "contiguous", "--clip", "nan"],
}.items()}

CHOICES = [f"{direction}.{kind}.{width}" for direction in ("gather", "scatter") for kind in ("small", "whole_lines", "cut_lines")
           for width in (1, 48, 96, 192, 512, 640, 1024, 2048)]


def plan(**changes):
    entries = {"thread_bytes": 196608, "copy.small_pages": "pages", "copy.huge_pages": "plain", "gather.large_from": 2097152,
               "scatter.large_from": 2097152, **{choice: "cached l1 128 1" for choice in CHOICES}}
    entries.update({key.replace("__", "."): value for key, value in changes.items()})
    return "".join(f"{key}: {value}\n" for key, value in entries.items() if value is not None)


def one_choice(text):
    return plan(**{CHOICES[0]: text})


PLAN = {
    "whole": plan(), "comments": "# measured\n\n" + plan(), "carriage-returns": plan().replace("\n", "\r\n"),
    "all-ways": one_choice("staged l2 512 0 4"), "streaming": one_choice("streaming l1 64 1"), "copy-ahead": plan(copy__small_pages="ahead"),
    "unknown-stores": one_choice("slow l1 128 1"), "unknown-level": one_choice("cached l9 128 1"), "too-few-words": one_choice("cached l1"),
    "too-many-words": one_choice("cached l1 128 1 2 3"), "negative": one_choice("cached l1 -128 1"), "step-beyond": one_choice("cached l1 128 99999"),
    "number-beyond": plan(thread_bytes=2**64), "zero": plan(thread_bytes=0), "negative-bytes": plan(thread_bytes=-1),
    "missing": plan(thread_bytes=None), "unknown-key": plan(tread_bytes=1), "twice": plan() + "thread_bytes: 1\n",
    "long-key": "k" * 5000 + ": 1\n", "no-colon": "thread_bytes 1\n", "colons": ":::\n", "nul": plan() + "a\0b: 1\n", "empty": "",
}

for folder, files in (("calibration", CALIBRATION), ("baseline", BASELINE), ("index", INDEX), ("case_id", CASE_ID), ("options", OPTIONS), ("plan", PLAN)):
    (ROOT / "corpus" / folder).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (ROOT / "corpus" / folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
