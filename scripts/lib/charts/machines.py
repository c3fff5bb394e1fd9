"""Combines the cases of several reports: processes of one program on one machine give one set of figures."""

import json
import statistics
from dataclasses import dataclass, field

import reports
from charts.words import clean

ITEM_BYTES = {"bytes": 1, "uint8": 1, "int8": 1, "bool": 1, "float16": 2, "bfloat16": 2, "int16": 2, "float32": 4,
              "int32": 4, "float64": 8, "int64": 8}
AXES = ("cache", "callers", "index_home", "isa")
KEY = (*reports.IDENTITY, *AXES, "further")  # further: the axes that are not known here, `touched=0.25`


@dataclass
class Measured:
    """One case, measured in one process or in several."""

    key: dict  # the columns of the identity and the axes
    cases: list = field(default_factory=list)
    processes: list = field(default_factory=list)  # the file of each

    def __getattr__(self, name):
        if name in self.key:
            return self.key[name]
        raise AttributeError(name)

    @property
    def row_bytes(self):
        """Bytes per row; for an unknown dtype, the moved bytes over the batch."""
        if self.dtype in ITEM_BYTES:
            return self.dim * ITEM_BYTES[self.dtype]
        parts = 2 if self.direction in ("sum", "round_trip") else 1
        return self.cases[0]["payload_bytes"] // (parts * max(1, self.batch))

    @property
    def role(self):
        return self.cases[0]["role"]

    @property
    def payload(self):
        return self.cases[0]["payload_bytes"]

    @property
    def is_unstable(self):
        """True if it holds in most of the processes."""
        return 2 * sum(case["status"] == "unstable" for case in self.cases) > len(self.cases)

    def of_process(self, process):
        """The case in the report of this file, or None."""
        return dict(zip(self.processes, self.cases)).get(process)

    def middle(self, column):
        """The median over the processes; None if none of them has the column."""
        values = [case[column] for case in self.cases if case.get(column) is not None]
        return statistics.median(values) if values else None

    @property
    def seconds(self):
        return self.middle("median_s")

    def interval(self):
        """(low, high) in seconds: the range of the processes' medians, or the 95 % interval of a single process."""
        if len(self.cases) > 1:
            medians = [case["median_s"] for case in self.cases]
            return min(medians), max(medians)
        case = self.cases[0]
        return case["ci_low_s"], case["ci_high_s"]

    def speed(self, seconds):
        """GB/s at this many seconds per operation."""
        return None if not seconds else self.payload / seconds / 1e9

    @property
    def gb_per_s(self):
        return self.speed(self.seconds)

    def speeds(self):
        """(low, high) of the interval in GB/s, or (None, None)."""
        low, high = self.interval()
        return self.speed(high), self.speed(low)


@dataclass
class Machine:
    """The reports of one program on one machine."""

    name: str
    letter: str = ""  # where there are several
    names: list = field(default_factory=list)  # of the files
    reports: list = field(default_factory=list)
    measured: dict = field(default_factory=dict)  # identity -> Measured

    def add(self, name, report):
        self.names.append(name)
        self.reports.append(report)
        process = clean(name, 60) if self.names.count(name) == 1 else f"{clean(name, 60)} ({self.names.count(name)})"
        for case in report["cases"]:
            if case["status"] in reports.MEASURED and has_figures(case):
                key = {column: text_of(case.get(column)) for column in KEY}
                key["further"] = further(case, report["axes"])
                measured = self.measured.setdefault(tuple(key.values()), Measured(key))
                measured.cases.append(case)
                measured.processes.append(process)

    @property
    def cases(self):
        return list(self.measured.values())

    @property
    def has_gpu(self):
        """True if a case is of a GPU."""
        return any(case.device != "cpu" for case in self.cases)

    @property
    def caption(self):
        """Machine, date, program and revision, for a picture that stands alone."""
        report = self.reports[0]
        revision = report["environment"].get("build", {}).get("git_revision")
        version = [clean(report["program"], 60), *([clean(revision)[:12]] if isinstance(revision, str) else [])]
        return " · ".join([f"{self.letter} {self.name}".strip(), " ".join(version)])


def has_figures(case):
    """A time; in the memory suite the resident bytes."""
    return bool(case["resident_bytes"] or case["device_bytes"]) if case["suite"] == "memory" else \
        bool(case["median_s"] and case["payload_bytes"])


def further(case, axes):
    names = [name for name in axes if name not in AXES and case.get(name) is not None]
    return clean(", ".join(f"{name}={case[name]}" for name in names), 80)


def text_of(value):
    return clean(value) if isinstance(value, str) else value


def load(paths):
    """[(name, report)] of the files; a report that is given twice is refused."""
    loaded, seen = [], {}
    for path in paths:
        report = reports.read(path)
        content = json.dumps(report, sort_keys=True)
        if content in seen:
            raise reports.ReportError(f"{path}: the same report as {seen[content]}; each is drawn once")
        seen[content] = path
        check_once(path, report)
        loaded.append((path.name, report))
    return loaded


def check_once(path, report):
    """Refuses a case that is twice in one report, because it would be drawn as two processes."""
    axes = [*reports.IDENTITY, *AXES, *report["axes"]]
    seen = {}
    for position, case in enumerate(report["cases"]):
        key = json.dumps([case.get(name) for name in axes])
        if case["status"] in reports.MEASURED and key in seen:
            raise reports.ReportError(f"{path}: cases[{position}] is the same case as cases[{seen[key]}]")
        seen.setdefault(key, position)


def sameness(report):
    """The properties that two reports share if they are processes of one program on one machine."""
    build = report["environment"].get("build", {})
    return json.dumps([reports.machine_of(report["environment"]),
                       *(build.get(name) for name in ("flags", "compiler_version", "git_dirty"))])


def gather(loaded, each=False):
    """The machines of the reports in order; with `each`, each report separately."""
    machines = {}
    for position, (name, report) in enumerate(loaded):
        key = position if each else sameness(report)
        machines.setdefault(key, Machine(name_of(report))).add(name, report)
    found = list(machines.values())
    if len(found) > 1:
        for position, machine in enumerate(found):
            machine.letter = letter_of(position)
    return found


def letter_of(position):
    return chr(ord("A") + position) if position < 26 else str(position + 1)


def name_of(report):
    """`AMD EPYC (family 25, model 1), 2 cores, 2026-11-21`, as far as the report has it."""
    cpu, cuda = (report["environment"].get(name, {}) for name in ("cpu", "cuda"))
    gpus = cuda.get("names") if isinstance(cuda.get("names"), list) else []
    cores = cpu.get("cores_allowed")
    parts = [clean(reports.processor_of({"model": None, **cpu}), 90)]
    if isinstance(cores, int):
        parts.append(f"{cores} core{'' if cores == 1 else 's'}")
    parts += sorted({clean(str(gpu), 60) for gpu in gpus})
    return ", ".join([*parts, clean(report["started_at"], 60)[:10]])
