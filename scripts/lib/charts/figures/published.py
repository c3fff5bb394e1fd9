"""Ours against what SpeedTorch's README published in 2019: the same rows, on other hardware."""

import json
from pathlib import Path

from charts import layout, scales, theme
from charts.figures.figure import Figure, Table, looks_of, mark, named, tip
from charts.slices import method_rank
from charts.words import PLACEMENTS, rank, rate, significant, span, times

FIGURES = json.loads((Path(__file__).parents[1] / "published.json").read_text(encoding="utf-8"))
LOOK = theme.Look(theme.SOFT, "diamond")
SHAPE = {"suite": "transfer", "dtype": "float32", "rows": 10**6, "dim": 128, "batch": 131072}
DIRECTIONS = ("to", "from", "sum")


def matches(case):
    return all(getattr(case, name) == value for name, value in SHAPE.items()) \
        and case.role != "ceiling"


def published_rows(direction):
    payload = FIGURES["transfer"]["payload_bytes"] * (2 if direction == "sum" else 1)
    return [(one["name"], payload / one[direction] / 1e9, one[direction]) for one in FIGURES["transfer"]["rows"]]


def ours(machines, direction):
    """Per machine and placement: our fastest method, and LibTorch's `a[i]`, which was measured in 2019."""
    found = []
    for machine in machines:
        cases = [case for case in machine.cases if matches(case) and case.direction == direction]
        cores = max((case.cores for case in cases), default=0)
        for case in cases:
            if case.cores == cores and (case.role == "ours" or case.method == "advanced"):
                found.append((machine, case))
    return sorted(found, key=lambda one: (method_rank(one[1]), rank(one[1].placement, PLACEMENTS),
                                          one[0].letter))


def rows_of(direction, found, looks):
    rows = [layout.Row("published 2019, Tesla K80")]
    for name, speed, seconds in published_rows(direction):
        rows.append(layout.Row(name, look=LOOK, value=speed, text=f"{significant(speed)} · {span(seconds)}",
                               tip=f"{name}, published 2019: {rate(speed)} ({span(seconds)})"))
    rows.append(layout.Row("measured here"))
    for machine, case in found:
        low, high = case.speeds()
        place = f"{case.method}({case.placement})"
        rows.append(layout.Row(named(place, machine.letter), look=looks[case.method], value=case.gb_per_s, low=low,
                               high=high, text=f"{mark(case)}{significant(case.gb_per_s)} · {span(case.seconds)}",
                               tip=tip(case, machine.letter, f" in {case.placement}"), hollow=case.is_unstable))
    return rows


def table_of(drawn):
    rows = []
    for direction, found in drawn:
        fastest = min(seconds for _, _, seconds in published_rows(direction))
        rows += [[direction, name, FIGURES["hardware"], span(seconds), significant(speed), ""]
                 for name, speed, seconds in published_rows(direction)]
        rows += [[direction, f"{case.method}({case.placement})", named("here", machine.letter),
                  mark(case) + span(case.seconds), significant(case.gb_per_s), times(fastest / case.seconds)]
                 for machine, case in found]
    return Table(["direction", "who", "where", "time", "GB/s", "against the fastest published"], rows)


def make(machines, shows_published):
    if not shows_published:
        return None, "they are of a GPU, and no GPU was measured; --published draws them all the same"
    drawn = [(direction, found) for direction in DIRECTIONS if (found := ours(machines, direction))]
    if not drawn:
        return None, "no report has the table of SpeedTorch's README (1,000,000 × 128 float32, batch 131,072)"
    speeds = [speed for direction, _ in drawn for _, speed, _ in published_rows(direction)]
    speeds += [value for _, found in drawn for _, case in found for value in (case.gb_per_s, *case.speeds()) if value]
    axis = scales.logarithmic("GB/s of payload, logarithmic", min(speeds), max(speeds))
    looks, pictures = looks_of(machines), []
    for direction, found in drawn:
        rows = rows_of(direction, found, looks)
        words = "; ".join(f"{row.label} {significant(row.value)} GB/s" for row in rows if row.look)
        pictures.append(layout.row_panel(direction, rows, axis, f"{direction}: {words}.", width=170, bars=False))
    lead = f"Grey: {FIGURES['source']} ({FIGURES['hardware']}), where to and from are to and from the GPU. It is " \
           "other hardware and another timer: the figures stand side by side to show the order of magnitude, no more."
    return Figure("published", "Beside the figures published in 2019", lead, pictures, table_of(drawn),
                  "131,072 of 1,000,000 × 128 float32 rows"), ""
