"""All samples of the main table: how they spread, case by case."""

from dataclasses import replace

from charts import layout, scales
from charts.figures.figure import Figure, Table, looks_of, mark, named
from charts.figures.glance import chosen, grouped
from charts.slices import method_rank
from charts.words import PAGES, significant, span

MEDIAN = "M-0.22,-1.3H0.22V1.3H-0.22Z"  # a bar longer than the strokes, in the size of a point
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))


def unit_of(seconds):
    return next(((scale, name) for scale, name in UNITS if seconds >= scale), UNITS[-1])


def rows_of(placements, looks, scale):
    rows = []
    for placement, cases in placements.items():
        rows.append(layout.Row(PAGES.get(placement, placement)))
        for machine, case in sorted(cases, key=lambda one: (method_rank(one[1]), one[0].letter)):
            dots = [(sample / scale, f"{named(case.method, machine.letter)} in {placement}, sample {number}: "
                     f"{span(sample)}") for one in case.cases for number, sample in enumerate(one["samples_s"], 1)]
            if dots:
                label = named(case.method, machine.letter)
                rows.append(layout.Row(label, look=replace(looks[case.method], shape=MEDIAN),
                                       value=case.seconds / scale, text=mark(case) + span(case.seconds),
                                       tip=f"{label} in {placement}: median {span(case.seconds)}",
                                       hollow=case.is_unstable, dots=dots))
    return rows


def table_of(groups):
    rows = []
    for (_, device, direction), placements in groups.items():
        for placement, cases in placements.items():
            for machine, case in cases:
                if case.cases[0]["samples_s"]:
                    rows.append([direction, placement if device == "cpu" else f"{placement} {device}",
                                 named(case.method, machine.letter),
                                 str(sum(len(one["samples_s"]) for one in case.cases)),
                                 *("" if (value := case.middle(name)) is None else span(value)
                                   for name in ("min_s", "p05_s", "median_s", "p95_s"))])
    return Table(["direction", "placement", "who", "samples", "fastest", "5 %", "median", "95 %"], rows)


def make(machines):
    groups = {key: value for key, value in grouped(chosen(machines)).items()
              if any(one["samples_s"] for cases in value.values() for _, case in cases for one in case.cases)}
    if not groups:
        return None, "no report has samples of a transfer"
    looks = looks_of(machines)
    seconds = [sample for placements in groups.values() for cases in placements.values() for _, case in cases
               for one in case.cases for sample in one["samples_s"] if sample > 0]
    scale, unit = unit_of(min(seconds))
    axis = scales.logarithmic(f"{unit} an operation, logarithmic", min(seconds) / scale, max(seconds) / scale)
    pictures = []
    for (_, device, direction), placements in groups.items():
        rows = rows_of(placements, looks, scale)
        title = direction.replace("_", " ") + ("" if device == "cpu" else f" · {device}")
        words = "; ".join(f"{row.label} median {significant(row.value)} {unit}, {len(row.dots)} samples"
                          for row in rows if row.look)
        pictures.append(layout.row_panel(title, rows, axis, f"{title}: {words}.", bars=False))
    lead = "Each stroke is one timed run; the long bar is their median. Hollow or ~: unstable."
    return Figure("samples", "All samples", lead, pictures, table_of(groups), ""), ""
