"""Finds what varies in the reports: cases that differ in one column only, for the charts over it."""

from collections import Counter
from dataclasses import dataclass, field

import reports
from charts import theme
from charts.machines import AXES, KEY
from charts.words import DIRECTIONS, PLACEMENTS, counted, rank

PANEL = ("suite", "device", "direction", "placement")  # one panel each
LINE = 64  # bytes of a cache line
USUAL = {"index_dtype": "int64", "distribution": "unique", "cache": "warm", "callers": 1, "index_home": "ready",
         "isa": "best", "further": ""}


@dataclass
class Panel:
    """The cases of one placement and direction, by machine and method."""

    key: tuple
    lines: dict = field(default_factory=dict)  # (machine, method) -> [Measured], x ascending

    @property
    def title(self):
        _, device, direction, placement = self.key
        return f"{direction.replace('_', ' ')} · {placement}" + ("" if device == "cpu" else f" · {device}")


@dataclass
class Slice:
    """The panels of one figure; their fixed columns have the same values."""

    fixed: dict
    panels: list

    @property
    def cases(self):
        return [case for panel in self.panels for line in panel.lines.values() for case in line]

    def words(self):
        """The fixed columns worth showing."""
        parts = []
        if "batch" in self.fixed:
            parts.append(counted(self.fixed["batch"], "row") + " a batch")
        if "row_bytes" in self.fixed:
            parts.append(f"rows of {self.fixed['row_bytes']:,} B")
        if "cores" in self.fixed:
            parts.append(counted(self.fixed["cores"], "core"))
        parts += [f"{self.fixed['index_dtype']} indices", f"{self.fixed['distribution']}"]
        parts += [f"{name.replace('_', ' ')} {self.fixed[name]}" for name in AXES
                  if self.fixed.get(name, USUAL[name]) not in (USUAL[name], None)]
        return ", ".join(filter(None, [*parts, self.fixed["further"]]))


def slices(machines, x, free, fewest):
    """The slices in which `x` takes at least `fewest` values, the fullest first. `free`: columns that may go with x.
    Of one direction each: sums and round trips follow from those."""
    names = [name for name in KEY if name not in (*PANEL, "method", x, *free)]
    if "row_bytes" not in (x, *free):
        names.append("row_bytes")
    found = {}
    for machine in machines:
        for case in machine.cases:
            if case.suite != "transfer" or case.direction not in DIRECTIONS[:2]:
                continue
            fixed = tuple(getattr(case, name) for name in names)
            key = tuple(getattr(case, name) for name in PANEL)
            lines = found.setdefault(fixed, {}).setdefault(key, {})
            lines.setdefault((machine.letter, case.method), {}).setdefault(getattr(case, x), []).append(case)
    made = [Slice(dict(zip(names, fixed)), panels_of(panels, fewest)) for fixed, panels in found.items()]
    return sorted(filter(lambda one: one.panels, made), key=order)


def panels_of(panels, fewest):
    kept = []
    for key, lines in panels.items():
        whole = {name: [widest(cases) for _, cases in sorted(line.items())] for name, line in lines.items()
                 if len(line) >= fewest or role_of(line) == "ceiling"}
        if any(cases[0].role != "ceiling" for cases in whole.values()):
            kept.append(Panel(key, dict(sorted(whole.items(), key=lambda one: (one[0][0], method_rank(one[1][0]))))))
    return sorted(kept, key=lambda panel: panel_rank(panel.key))


def widest(cases):
    """If several tables have the same x, the largest, because caches affect it least."""
    return max(cases, key=lambda case: (case.rows, case.dtype))


def is_ragged(case):
    """True if rows fill neither whole cache lines nor a whole part of one."""
    return bool(case.row_bytes % LINE and LINE % case.row_bytes)


def panel_rank(key):
    suite, device, direction, placement = key
    return (suite, device != "cpu", device, rank(direction, DIRECTIONS), rank(placement, PLACEMENTS))


def role_of(line):
    """Of {x: cases} of one method."""
    return next(iter(line.values()))[0].role


def method_rank(case):
    return (reports.ROLES.index(case.role), rank(case.method, tuple(theme.LOOKS)))


def order(one):
    """The usual axes, the most cores and the most cases first."""
    unusual = sum(one.fixed.get(name, value) not in (value, None) for name, value in USUAL.items())
    fixed = tuple(str(value) for value in one.fixed.values())
    return (unusual, -one.fixed.get("cores", 0), -len(one.cases), -one.fixed.get("batch", 0),
            one.fixed.get("row_bytes") != 512, fixed)


def main_shape(machine):
    """The columns of the table with the most methods and a ceiling; None if there is no transfer."""
    names = [name for name in KEY if name not in (*PANEL, "method", "cores")]
    counts, payload, ceilings = Counter(), {}, set()
    for case in machine.cases:
        key = tuple(getattr(case, name) for name in names)
        if case.suite == "transfer" and case.role != "ceiling":
            counts[key] += 1
            payload[key] = case.payload
        else:
            ceilings.add(key)
    if not counts:
        return None
    unusual = {key: sum(value not in (USUAL.get(name, value), None) for name, value in zip(names, key))
               for key in counts}
    best = min(counts, key=lambda key: (unusual[key], key not in ceilings, -counts[key], -payload[key], str(key)))
    return dict(zip(names, best))


def of_shape(machine, wanted):
    """The cases of one shape, on the largest number of cores of a method that moves rows."""
    cases = [case for case in machine.cases
             if case.suite == "transfer" and all(getattr(case, name) == value for name, value in wanted.items())]
    cores = max((case.cores for case in cases if case.role != "ceiling"), default=0)
    return [case for case in cases if case.cores == cores]
