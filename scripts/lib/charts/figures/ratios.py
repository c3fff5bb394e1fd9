"""Ours against LibTorch's best of the same cell, by the ratios of paired rounds: process by process."""

import statistics

from charts import layout, scales
from charts.figures.figure import Figure, Table, looks_of, named
from charts.figures.glance import chosen, fixed_of, grouped
from charts.slices import method_rank
from charts.words import PAGES, significant


def best_of(rivals, process):
    """LibTorch's fastest case of the cell in this process, or None."""
    found = [case.of_process(process) for _, case in rivals if case.of_process(process)]
    return min(found, key=lambda case: case["median_s"], default=None)


def ratios_of(ours, theirs):
    """Of the rounds; none if the two were not measured in the same ones."""
    paired = theirs and ours["group"] is not None and ours["group"] == theirs["group"] \
        and len(ours["samples_s"]) == len(theirs["samples_s"]) and 0 not in ours["samples_s"]
    return [b / a for a, b in zip(ours["samples_s"], theirs["samples_s"])] if paired else []


def processes_of(case, rivals):
    """[(file, ratios, unstable)] of the processes that measured both."""
    made = []
    for process, ours in zip(case.processes, case.cases):
        theirs = best_of(rivals, process)
        if ratios := [ratio for ratio in ratios_of(ours, theirs) if ratio > 0]:
            made.append((process, ratios, "unstable" in (ours["status"], theirs["status"])))
    return made


def row_of(machine, case, found, look):
    label = named(case.method, machine.letter)
    medians = [statistics.median(ratios) for _, ratios, _ in found]
    marks = [(middle, f"{label} in {case.placement}, {process}: median of {len(ratios)} rounds {significant(middle)}×"
              + ("; unstable" if unstable else ""), unstable)
             for middle, (process, ratios, unstable) in zip(medians, found)]
    dots = [(ratio, f"{label} in {case.placement}, {process}, round {number}: {significant(ratio)}×")
            for process, ratios, _ in found for number, ratio in enumerate(ratios, 1)]
    doubt = "~" if any(unstable for _, _, unstable in found) else ""
    ends = [f"{significant(end)}×" for end in (min(medians), max(medians))]
    return layout.Row(label, look=look, text=doubt + "–".join(dict.fromkeys(ends)), dots=dots, marks=marks, rule=1,
                      rule_tip=f"LibTorch's best in {case.placement}")


def rows_of(placements, looks):
    """The rows of a panel, and those of the table without the direction."""
    rows, table = [], []
    for placement, cases in placements.items():
        heading = layout.Row(PAGES.get(placement, placement))
        for machine, case in sorted(cases, key=lambda one: (method_rank(one[1]), one[0].letter)):
            rivals = [one for one in cases if one[0] is machine and one[1].role == "libtorch"]
            found = processes_of(case, rivals) if case.role == "ours" else []
            if found:
                rows += [*([heading] if heading not in rows else []), row_of(machine, case, found, looks[case.method])]
                table += [[placement, named(case.method, machine.letter), process, str(len(ratios)),
                           ("~" if unstable else "") + f"{significant(statistics.median(ratios))}×",
                           f"{significant(min(ratios))}×", f"{significant(max(ratios))}×"]
                          for process, ratios, unstable in found]
    return rows, table


def make(machines):
    found, looks, panels, table = chosen(machines), looks_of(machines), [], []
    for (_, device, direction), placements in grouped(found).items():
        rows, lines = rows_of(placements, looks)
        if rows:
            panels.append((direction.replace("_", " ") + ("" if device == "cpu" else f" · {device}"), rows))
            table += [[direction, *line] for line in lines]
    if not panels:
        return None, "no report has our method and LibTorch's in the same rounds"
    ratios = [ratio for _, rows in panels for row in rows for ratio, _ in row.dots]
    axis = scales.logarithmic("LibTorch's best time over ours, logarithmic", min(*ratios, 1), max(*ratios, 1))
    pictures = [layout.row_panel(title, rows, axis, f"{title}: " + "; ".join(
        f"{row.label} {row.text}" for row in rows if row.look) + ".", bars=False) for title, rows in panels]
    lead = "Each stroke is a round: LibTorch's time over ours. Each dot is the median of a process's rounds; behind them " \
           "stands their range. Right of the grey line ours is faster. Hollow or ~: one of the two rows is unstable."
    headings = ["direction", "placement", "who", "process", "rounds", "median", "least", "most"]
    return Figure("ratios", "Against LibTorch's best, round by round", lead, pictures, Table(headings, table),
                  fixed_of(found)), ""
