"""The latency of small batches: over the batch, and as the distribution of single calls."""

from collections import Counter

import reports
from charts import layout, scales
from charts.figures.figure import Figure, Table, dash_of, looks_of, mark, named
from charts.figures.sweeps import alt_text, drawn
from charts.slices import slices
from charts.words import counted, span

MICRO = 1e-6
SMALL = 10  # the size of a point of a distribution, of which there are many


def points_of(cases, letter, unit):
    points = []
    for case in cases:
        p50, p99 = case.middle("latency_p50_s"), case.middle("latency_p99_s")
        if p50:
            words = f"{named(case.method, letter)}, {case.batch:,} rows: median {span(p50)}"
            words += f", 99 % within {span(p99)}" if p99 else ""
            points.append(layout.Point(case.batch, p50 / unit, p50 / unit if p99 else None, p99 and p99 / unit, words,
                                       case.is_unstable))
    return points


def lines_of(panel, machines, looks, unit):
    lines = []
    for (letter, method), cases in panel.lines.items():
        found = points_of(cases, letter, unit)
        if len(found) >= 3 and cases[0].role != "ceiling":
            lines.append(layout.Line(named(method, letter), looks[method], found, dash_of(machines, letter)))
    return lines


def panels_of(one, machines, looks, unit=MICRO):
    found = [(panel, lines_of(panel, machines, looks, unit)) for panel in one.panels]
    return [(panel, lines) for panel, lines in found if lines]


def by_batch(machines):
    looks = looks_of(machines)
    lead = "One call at a time, each timed by itself, dispatch included: the dot is the median, the whisker goes up " \
           "to what 99 % of the calls stay within. Hollow: unstable."
    at, value = "{:,} rows".format, lambda us: span(us * MICRO)

    def draw(one):
        panels = panels_of(one, machines, looks)
        points = [point for _, lines in panels for line in lines for point in line.points]
        x_axis = scales.powers_of_two("rows a batch", min(p.x for p in points), max(p.x for p in points), kind="count")
        y_axis = scales.logarithmic("µs a call", min(p.y for p in points), max(max(p.y, p.high or 0) for p in points))
        pictures = [layout.line_panel(panel.title, lines, x_axis, y_axis,
                                      alt_text(f"Latency, {panel.title}", lines, at, value)) for panel, lines in panels]
        rows = [[at(point.x), panel.key[2], panel.key[3], line.label, value(point.y),
                 "" if point.high is None else value(point.high)]
                for panel, lines in panels for line in lines for point in line.points]
        return Figure("latency", "Latency of small batches", lead, pictures,
                      Table(["batch", "direction", "placement", "who", "median", "99 %"], rows), one.words())

    found = [one for one in slices(machines, "batch", ("rows",), fewest=3) if panels_of(one, machines, looks)]
    return drawn(found, draw, "no report has the latency of three small batches")


def drawn_curve(case):
    """[(share, seconds)] without times below the clock's step, which a logarithm cannot show."""
    return [(share, seconds) for share, seconds in reports.curve_of(case) if seconds > 0]


def curves_of(panel, batch):
    """[(letter, case, [(process, curve)])] of the methods that have curves at this batch."""
    found = []
    for (letter, _), cases in panel.lines.items():
        for case in cases:
            curves = [(process, curve) for process, one in zip(case.processes, case.cases) if (curve := drawn_curve(one))]
            if curves and case.batch == batch and case.role != "ceiling":
                found.append((letter, case, curves))
    return found


def distribution_lines(found, machines, looks):
    """One line per process; the first of a method has its name."""
    lines = []
    for letter, case, curves in found:
        for number, (process, curve) in enumerate(curves):
            label = named(case.method, letter)
            points = [layout.Point(seconds / MICRO, 100 * share, tip=f"{label}, {process}: {100 * share:g} % of the calls "
                                   f"within {span(seconds)}", hollow=case.is_unstable) for share, seconds in curve]
            lines.append(layout.Line("" if number else mark(case) + label, looks[case.method], points,
                                     dash_of(machines, letter), size=SMALL))
    return lines


def within(curve, share):
    """The smallest time in which at least this share of the calls ended."""
    return next((seconds for at, seconds in curve if at >= share), curve[-1][1])


def distribution(machines):
    looks = looks_of(machines)
    lead = "Each line is the empirical distribution of the single calls of one process: how many per cent of them ended " \
           "within the time below. The time is logarithmic. Hollow or ~: unstable."

    def draw(chosen):
        one, batch = chosen
        panels = [(panel, found) for panel in one.panels if (found := curves_of(panel, batch))]
        times = [seconds / MICRO for _, found in panels for _, _, curves in found for _, curve in curves
                 for _, seconds in curve]
        x_axis, y_axis = scales.logarithmic("µs a call", min(times), max(times)), scales.linear("% of the calls", 100)
        pictures, rows = [], []
        for panel, found in panels:
            words = "; ".join(f"{named(case.method, letter)} half within {span(within(curves[0][1], 0.5))}"
                              for letter, case, curves in found)
            pictures.append(layout.line_panel(panel.title, distribution_lines(found, machines, looks), x_axis, y_axis,
                                              f"Latency, {panel.title}: {words}."))
            rows += [[panel.key[2], panel.key[3], mark(case) + named(case.method, letter), process,
                      *(span(within(curve, share)) for share in (0, 0.5, 0.9, 0.99, 0.999, 1))]
                     for letter, case, curves in found for process, curve in curves]
        headings = ["direction", "placement", "who", "process", "fastest", "50 %", "90 %", "99 %", "99.9 %", "slowest"]
        return Figure("latency-distribution", "Latency as a distribution", lead, pictures, Table(headings, rows),
                      f"{counted(batch, 'row')} a batch, {one.words()}")

    return drawn([(one, batch) for one in slices(machines, "batch", ("rows",), fewest=1) for batch in batches_of(one)],
                 draw, "no report has the distribution of latencies (schema 1.5)")


def batches_of(one):
    """The batches of which the most lines have curves, the middle one first."""
    counts = Counter(case.batch for case in one.cases if any(map(drawn_curve, case.cases)) and case.role != "ceiling")
    batches = sorted(batch for batch, count in counts.items() if count == max(counts.values()))
    middle = len(batches) // 2
    return batches[middle:middle + 1] + batches[:middle] + batches[middle + 1:]
