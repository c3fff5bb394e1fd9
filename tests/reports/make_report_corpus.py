#!/usr/bin/env python3
"""Writes the corpora of the report readers' fuzz targets: tests/corpus/{csv,json}.

Small reports of every kind, and one file for each way in which a file can be bad. The fuzzer begins with them, and each
build replays them.

  tests/reports/make_report_corpus.py
"""

import json
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
IDENTITY = {"suite": "transfer", "direction": "to", "placement": "hugepage", "method": "speedtorch", "device": "cpu",
            "dtype": "float32", "index_dtype": "int64", "distribution": "unique", "rows": 1000, "dim": 8, "batch": 16,
            "cores": 2}
MEASURES = {"status": "ok", "reason": "", "samples": 3, "median_s": 0.002, "ci_low_s": None, "ci_high_s": None,
            "min_s": 0.001, "p05_s": 0.0011, "p95_s": 0.0029, "payload_bytes": 512, "index_bytes": 128,
            "gb_per_s": 0.000256, "copy_fraction": None, "speedup": None, "verified_rows": 16, "mismatches": 0}
FURTHER = {"cache": "warm", "callers": 1, "repeat": 1}
SAMPLES = {"samples_s": [0.001, 0.002, 0.003]}


def case(**changes):
    return {**IDENTITY, **MEASURES, **FURTHER, **SAMPLES, **changes}


def report(*cases, **changes):
    return {"schema_version": "1.1", "program": "stbench 0.1.0", "argv": ["--suite", "transfer"], "seed": 1,
            "started_at": "2026-11-21T00:00:00Z", "interrupted": False, "environment": {"cpu": {"model": "x"}},
            "warnings": [], "axes": ["cache", "callers"], "cases": list(cases or [case()]), **changes}


def replaced(old, new):
    return json.dumps(report()).replace(old, new, 1)


def of_statuses():
    none = {name: None for name, value in MEASURES.items() if isinstance(value, float)}
    return report(*(case(method=status, status=status, reason="why", samples=0, samples_s=[], **none)
                    for status in ("waived", "wrong", "failed")), case(method="copy"), case(status="unstable", reason="y"))


JSON = {
    "one-case": json.dumps(report()),
    "indented": json.dumps(report(), indent=1),
    "no-cases": json.dumps({**report(), "cases": []}),
    "statuses": json.dumps(of_statuses()),
    "ceiling": json.dumps(report(case(method="copy", samples_s=[0.001] * 3), case())),
    "sum": json.dumps(report(case(direction="sum", samples=0, samples_s=[]))),
    "hostile-texts": json.dumps(report(case(reason="=1+1", distribution='a,"b"\n| <script>'), program="\u001b[2J\u009b")),
    "twice-the-same-case": json.dumps(report(case(), case())),
    "null-samples": json.dumps(report(case(samples_s=[None, 0.1, -1]))),
    "huge-numbers": json.dumps(report(case(median_s=1e308, min_s=5e-324, rows=2**63 - 1))),
    "older-minor": json.dumps(report(schema_version="1.0")),
    "another-major": json.dumps(report(schema_version="2.0")),
    "duplicate-key": replaced('"seed": 1', '"seed": 1, "seed": 2'),
    "nan": replaced("0.002", "NaN"),
    "too-large": replaced('"rows": 1000', '"rows": 1e999'),
    "wraps": replaced('"rows": 1000', '"rows": 18446744073709551615'),
    "negative": replaced('"rows": 1000', '"rows": -1'),
    "missing-field": replaced('"median_s"', '"median"'),
    "deep": "[" * 100 + "]" * 100,
    "cut": json.dumps(report())[:400],
    "no-object": "[1, 2]",
    "empty": "",
}


def csv_of(*rows, line_end="\r\n"):
    names = {**IDENTITY, **MEASURES, **FURTHER}
    lines = [",".join(names)]
    for row in rows or [{}]:
        lines.append(",".join("" if value is None else str(value) for value in {**names, **row}.values()))
    return line_end.join(lines) + line_end


CSV = {
    "one-case": csv_of(),
    "line-feeds": csv_of(line_end="\n"),
    "no-last-line-end": csv_of().rstrip(),
    "byte-order-mark": "\ufeff" + csv_of(),
    "header-only": csv_of().split("\r\n")[0],
    "statuses": csv_of(*({"method": status, "status": status, "reason": "why", "samples": 0}
                         for status in ("waived", "wrong", "failed", "unstable"))),
    "ceiling": csv_of({"method": "copy"}, {}),
    "quotes": csv_of({"reason": '"a ""quoted"", text\r\non two lines"', "status": "unstable"}),
    "guarded": csv_of({"reason": "'=1+1", "status": "unstable"}),
    "quoted-number": csv_of({"repeat": '"12"', "cache": '""'}),
    "twice-the-same-case": csv_of({}, {}),
    "column-twice": csv_of().replace("callers", "cache", 1),
    "column-missing": csv_of().replace("median_s", "median", 1),
    "too-few-cells": csv_of() + "transfer,to\r\n",
    "nan": csv_of({"median_s": "nan"}),
    "infinite": csv_of({"median_s": "1e999"}),
    "not-a-number": csv_of({"rows": "=1000"}),
    "negative": csv_of({"rows": -1}),
    "no-status": csv_of({"status": "\u001b[2J"}),
    "open-quote": csv_of({"reason": '"open'}),
    "stray-quote": csv_of({"reason": 'a"b'}),
    "empty": "",
    "blank-lines": "\r\n\n\r\n",
}



def frame(**changes):
    return {name: value for name, value in report(**changes).items() if name != "cases"}


def events(*lines, start=frame(), end=frame()):
    ends = [] if end is None else [{"event": "end", "report": end}]
    return "".join(json.dumps(line) + "\n" for line in ({"event": "start", **start}, *lines, *ends))


def event(**changes):
    return {"event": "case", "case": case(**changes)}


EVENTS = {
    "one-case": events(event()),
    "changed-later": events(event(), event(status="wrong", reason="row 3", median_s=None)),
    "two-cases": events(event(), event(batch=17), event(method="copy")),
    "no-end": events(event(), end=None),
    "cut": events(event(), end=None)[:-30],
    "cut-in-the-start": events()[:50],
    "start-twice": events() + events(),
    "end-twice": events(event()) + json.dumps({"event": "end", "report": frame(seed=2)}) + "\n",
    "after-the-end": events(event()) + json.dumps(event(batch=17)) + "\n",
    "end-with-cases": events(end=report()),
    "end-without-a-report": events(end=[]),
    "case-null": events({"event": "case", "case": None}),
    "case-no-object": events({"event": "case", "case": [1]}),
    "unknown-event": events({"event": "pause"}),
    "no-object": events([1, 2]),
    "blank-lines": events(event()).replace("\n", "\n\n"),
    "other-major": events(event(), start=frame(schema_version="2.0"), end=None),
    "bad-field": events(event(rows="1000")),
    "hostile-texts": events(event(reason="=1+1", distribution='a,"b"\n| <script>'), start=frame(program="\u001b[2J\u009b")),
}

for folder, files in (("json", {**JSON, **{f"events-{name}": text for name, text in EVENTS.items()}}), ("csv", CSV)):
    (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (CORPUS / folder / name).write_bytes(text.encode())
