"""scripts/charts for its tests: with the Python that it finds, and made-up reports."""

import copy
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/charts"
RESULTS = ROOT / "results/amd-epyc-2-cores-2026-11-30"
MACHINE = "AMD EPYC (family 25, model 1), 2 cores, 2026-11-30"
MISSING = "altair and vl-convert are not installed in their pinned versions (scripts/setup --tests brings them)"


def environment():
    """The Python that runs the tests may be the one that has what charts need."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}


@functools.cache
def python():
    """The one that has what charts need, without installing anything; empty where there is none."""
    done = subprocess.run([SCRIPT, "--find-python"], env=environment(), capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


def is_there():
    return bool(python())


@functools.cache
def server():
    return subprocess.Popen([python(), Path(__file__).with_name("charts_server.py")], env=environment(), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def charts(*arguments, cwd=None, validates=False):
    """The first call starts the script; the others are made by charts_server.py, without the second that a start takes.
    With `validates`, charts are held against Vega-Lite's schema."""
    words = [str(word) for word in arguments]
    if not server.cache_info().currsize and not validates:
        server()
        return subprocess.run([SCRIPT, *words], env=environment(), capture_output=True, text=True, timeout=500, cwd=cwd,
                              stdin=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("out", "messages")]
        server().stdin.write(json.dumps([words, str(cwd or Path.cwd()), *map(str, streams), validates]) + "\n")
        server().stdin.flush()
        status = int(server().stdout.readline())
        return subprocess.CompletedProcess(words, status, *(stream.read_text(encoding="utf-8") for stream in streams))


def committed(name="transfer"):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def small(report, *placements):
    """The same report with `to` and `from` on all cores in these placements only."""
    cases = [case for case in report["cases"] if case["status"] == "ok" and case["placement"] in placements
             and case["direction"] in ("to", "from") and case["cores"] == 2]
    return {**report, "cases": cases}


def memory_report():
    """What the memory suite would say of a machine with a GPU: every placement, round figures."""
    report = committed()
    base = next(case for case in report["cases"] if case["status"] == "ok")
    asked, before = 10**7 * 128 * 4, 200 * 2**20
    cases = []
    for method, placement, factor in (("speedtorch", "pageable", 1.0), ("speedtorch", "hugepage", 1.001),
                                      ("libtorch", "pinned", 1.6), ("speedtorch", "pinned", 1.0),
                                      ("speedtorch", "device", 1.01)):
        on_device = placement == "device"
        case = {**{name: None for name in base}, **{name: base[name] for name in (
            "dtype", "index_dtype", "distribution", "batch", "cores", "status", "reason", "cache")}}
        case.update(suite="memory", direction="hold", placement=placement, method=method, rows=10**7, dim=128,
                    device="cuda:0" if placement in ("device", "pinned") else "cpu", samples=0, samples_s=[],
                    payload_bytes=asked, verified_rows=10**7, requested_bytes=asked, baseline_bytes=before,
                    resident_bytes=before if on_device else before + int(factor * asked),
                    device_bytes=int(factor * asked) if on_device else 300 * 2**20 if placement == "pinned" else None,
                    peak_bytes=before + int(1.2 * factor * asked), overhead_ratio=factor, touched=1.0)
        cases.append(case)
    return {**report, "cases": cases, "axes": [*report["axes"], "touched"]}


def other_machine(report, name="Made-up 9000", factor=0.7):
    """The same report as another machine would have it: faster by a factor."""
    other = copy.deepcopy(report)
    other["environment"]["cpu"]["model"] = name
    for case in other["cases"]:
        case["samples_s"] = [factor * sample for sample in case["samples_s"]]
        for column in ("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s"):
            case[column] = case[column] and factor * case[column]
        case["gb_per_s"] = case["gb_per_s"] and case["gb_per_s"] / factor
    return other
