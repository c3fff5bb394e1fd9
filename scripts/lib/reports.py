"""Reads the JSON reports of stbench, for the scripts that need more than its own tables (docs/schema.md).

`read` gives the report as it stands in the file, with the fields that older minor schemas lack filled in; what these
scripts rely on is checked before, so that none of them has to ask again whether a number is one.
"""

import functools
import json
import re
from pathlib import Path

ROLES = ("ours", "libtorch", "ceiling", "peer")
BEFORE_1_4 = Path(__file__).resolve().parents[2] / "reports/statistics/roles_before_1_4.inc"  # the program's own list
IDENTITY = ("suite", "direction", "placement", "method", "device", "dtype", "index_dtype", "distribution", "rows",
            "dim", "batch", "cores")
STATUSES = ("ok", "unstable", "waived", "wrong", "failed")
MEASURED = STATUSES[:2]
EMULATED = "emulated GPU: not timed"  # the reason of an `ok` row that was checked and not timed
LARGEST = 256 * 10**6  # bytes of a file; the largest report committed has 1.2 MB
DEEPEST = 32  # nested brackets, as in the program's reader
# Required and optional fields of a case: the kinds of docs/schema.md.
REQUIRED = {**dict.fromkeys(IDENTITY[:8], "text"), **dict.fromkeys(IDENTITY[8:], "integer"), "status": "text",
            "reason": "text", "median_s": "real", "payload_bytes": "integer"}
OPTIONAL = {**dict.fromkeys(("ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s", "gb_per_s", "copy_fraction",
                             "speedup", "steps_per_s", "words_per_s", "heldout_loss", "zero_loss",
                             "unigram_loss", "samples_per_s", "gradient_difference", "plain_difference", "clip", "latency_p50_s", "latency_p99_s", "latency_clock_s", "overhead_ratio",
                             "algbw_gb_per_s", "busbw_gb_per_s", "wire_fraction", "huge_fraction", "resident_fraction", "hit_rate",
                             "allocate_s", "pin_s", "fill_s"), "real"),
            **dict.fromkeys(("samples", "index_bytes", "verified_rows", "mismatches", "repeat", "throttled", "callers", "cache_bytes",
                             "group", "negatives", "vocabulary", "trained_pairs", "latency_runs", "requested_bytes", "resident_bytes", "locked_bytes",
                             "page_table_bytes", "shared_bytes", "device_bytes", "device_reserved_bytes",
                             "device_allocated_bytes", "peak_bytes", "steady_bytes", "baseline_bytes",
                             "after_free_bytes", "cap_bytes", "micro_batch_samples", "ranks", "id_bytes",
                             "remote_bytes", "wire_bytes", "distinct_rows"), "integer"),
            **dict.fromkeys(("cache", "index_home", "isa", "pages_got", "optimizer", "shape", "loss_curve", "latency_curve", "model",
                             "micro_batch", "role", "engine", "remote", "sharding"), "text")}
WANTED = {"text": "a text", "integer": "a whole number from 0 to 2^63-1", "real": "0 or a number from 1e-15 to 1e15"}
SMALLEST, GREATEST = 1e-15, 1e15  # of measured values: beyond them figures and axes would overflow


class ReportError(Exception):
    """A file cannot be read; the text has one to three lines and names the file."""


def read(path):
    """The report in a file: a dict with all fields of docs/schema.md."""
    report = parse(path, content_of(path))
    check_head(path, report)
    for position, case in enumerate(report["cases"]):
        check_case(path, f"cases[{position}]", case)
        case["role"] = case["role"] or role_before_1_4(case["method"])
    if report["environment"].get("gpu", {}).get("emulated") is True or EMULATED in (case["reason"] for case in report["cases"]):
        raise ReportError(f"{path}: was made on an emulated GPU, where nothing is timed; use a report of a real GPU")
    return report


@functools.cache
def roles_before_1_4():
    lines = re.findall(r'^\{Role::(\w+), "(.*)"\},$', BEFORE_1_4.read_text(encoding="utf-8"), re.MULTILINE)
    return {method: role for role, methods in lines for method in methods.split()}


def role_before_1_4(method):
    """Of a method whose report has no column `role`."""
    return "ours" if method.startswith("speedtorch_") else roles_before_1_4().get(method, "peer")


def content_of(path):
    try:
        if (size := Path(path).stat().st_size) > LARGEST:
            raise ReportError(f"{path}: has {size} bytes; a report of stbench has {LARGEST} at most")
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: is not a report of stbench: not UTF-8 at byte {error.start}") from None


def refuse_constant(text):
    raise ValueError(f"{text} is not a JSON number")


def unique(pairs):
    """A JSON object with each key once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in an object")
    return found


def parse(path, text):
    try:
        report = json.loads(text, object_pairs_hook=unique, parse_constant=refuse_constant)
    except RecursionError:
        raise ReportError(f"{path}: is not a report of stbench: nested deeper than {DEEPEST}") from None
    except ValueError as error:
        hint = "; of a CSV report, name the JSON (--json FILE)" if text.startswith("suite,") else ""
        raise ReportError(f"{path}: is not a report of stbench: {shortened(str(error), 200)}{hint}") from None
    if depth_of(report) > DEEPEST:
        raise ReportError(f"{path}: is not a report of stbench: nested deeper than {DEEPEST}")
    return report


def depth_of(value):
    """The nesting depth of brackets, without recursion."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        if depth > DEEPEST:
            break
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def shortened(text, length):
    return text if len(text) <= length else text[: length - 1] + "…"


def check_head(path, report):
    def need(holds, what):
        if not holds:
            raise ReportError(f"{path}: is not a report of stbench: {what}")

    need(isinstance(report, dict), "it is no JSON object")
    for name, default in (("program", ""), ("argv", []), ("seed", 0), ("interrupted", False), ("warnings", []),
                          ("axes", []), ("conclusion", None)):  # None: before schema 1.5
        report.setdefault(name, default)
    for name, kind, words in (("schema_version", str, "a text"), ("started_at", str, "a text"),
                              ("program", str, "a text"), ("environment", dict, "an object"),
                              ("interrupted", bool, "true or false"), ("argv", list, "an array"),
                              ("warnings", list, "an array"), ("axes", list, "an array"),
                              ("cases", list, "an array")):
        need(name in report, f"it has no {name}")
        need(isinstance(report[name], kind), f"{name} is {shown(report[name])}; it must be {words}")
    version = report["schema_version"]
    need(version.split(".")[0] == "1", f"schema_version is {shown(version)}; versions 1.x can be read")
    for name, group in report["environment"].items():
        need(isinstance(group, dict), f"environment.{name} is {shown(group)}; it must be an object")
    total = report["environment"].get("memory", {}).get("total_bytes")
    need(total is None or fits(total, "integer"),
         f"environment.memory.total_bytes is {shown(total)}; it must be {WANTED['integer']}")
    need(report["conclusion"] is None or isinstance(report["conclusion"], list),
         f"conclusion is {shown(report['conclusion'])}; it must be an array")
    for name in ("argv", "warnings", "axes", "conclusion"):
        need(all(isinstance(one, str) for one in report[name] or ()), f"{name} must contain only texts")


def shown(value):
    return shortened(json.dumps(value), 60)


def fits(value, kind):
    if kind == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind == "integer":
        return isinstance(value, int) and 0 <= value < 2**63
    return value == 0 or SMALLEST <= value <= GREATEST


def check_case(path, place, case):
    def refuse(what):
        raise ReportError(f"{path}: is not a report of stbench: {what}")

    if not isinstance(case, dict):
        refuse(f"{place} is {shown(case)}; it must be an object")
    for name, kind in REQUIRED.items():
        if name not in case:
            refuse(f"{place} has no {name}")
        empty = case[name] is None and name in ("median_s", "payload_bytes")
        if not empty and not fits(case[name], kind):
            refuse(f"{place}.{name} is {shown(case[name])}; it must be {WANTED[kind]}")
    for name, kind in OPTIONAL.items():
        if case.setdefault(name, None) is not None and not fits(case[name], kind):
            refuse(f"{place}.{name} is {shown(case[name])}; it must be {WANTED[kind]}, or null")
    if curve_of(case) is None:
        refuse(f"{place}.latency_curve is {shown(case['latency_curve'])}; it must be SHARE:SECONDS with shares from 0 to 1")
    if case["status"] not in STATUSES:
        refuse(f"{place}.status is {shown(case['status'])}; it must be one of {', '.join(STATUSES)}")
    if case["role"] not in (None, *ROLES):
        refuse(f"{place}.role is {shown(case['role'])}; it must be one of {', '.join(ROLES)}")
    untimed = case["suite"] == "memory" or (case["status"], case["reason"]) == ("ok", EMULATED)
    if case["status"] in MEASURED and case["median_s"] is None and not untimed:
        refuse(f'{place}.median_s is null; a row that was measured needs a time; only reason "{EMULATED}" would be right'
               " without one")
    check_samples(refuse, place, case)


def curve_of(case):
    """[(share, seconds)] of the latencies; empty if the case has none, None if the text is not a curve."""
    try:
        points = [(float(share), float(seconds)) for share, seconds in
                  (point.split(":") for point in (case["latency_curve"] or "").split())]
    except ValueError:
        return None
    holds = all(0 <= share <= 1 and fits(seconds, "real") for share, seconds in points)
    return points if holds and points == sorted(points) else None


def check_samples(refuse, place, case):
    if not isinstance(case.get("samples_s"), list):
        refuse(f"{place} has no samples_s; it must be an array")
    if not all(fits(sample, "real") for sample in case["samples_s"]):
        refuse(f"{place}.samples_s must contain only numbers, each {WANTED['real']}")


def processor_of(cpu):
    """Name and design: the names of virtual machines do not tell Zen 3 from Zen 5."""
    model = cpu["model"] or "unknown processor"
    return f"{model} ({design})" if (design := cpu.get("design")) else model


def machine_of(environment):
    """The properties that all processes of one program on one machine share."""
    def get(group, name):
        return environment.get(group, {}).get(name)

    memory = get("memory", "total_bytes")
    return {"CPU": get("cpu", "model"), "design": get("cpu", "design"), "cores": get("cpu", "cores_allowed"),
            "caches": get("cpu", "caches"),
            "memory in GiB": memory and round(memory / 2**30), "GPU": get("cuda", "names"),
            "LibTorch": get("libtorch", "version"), "instruction set": get("cpu", "kernel_isa"),
            "stbench": get("build", "stbench"), "revision": get("build", "git_revision")}
