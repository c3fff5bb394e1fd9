"""Speed by row width, batch and cores."""

from dataclasses import replace

from charts import layout, scales
from charts.figures.figure import Figure, Table, dash_of, looks_of, mark, named, tip
from charts.slices import is_ragged, slices
from charts.words import binary, counted, percent, rate, significant, span

NARROW = 120  # px: the plots over few numbers of cores
MOST = 2  # further figures of a kind; the reports have the rest
INTERVALS = "Whiskers, and the band of the ceiling: the 95 % interval, or over several processes of one machine the " \
            "range of their medians. Hollow: unstable."


def ceilings_joined(panel):
    """The lines of a panel; `ceiling` is the faster ceiling at each x."""
    lines, ceilings = {}, {}
    for (letter, method), cases in panel.lines.items():
        if cases[0].role == "ceiling":
            ceilings.setdefault(letter, []).append(cases)
        else:
            lines[letter, method] = cases
    return lines, ceilings


def faster(lists, x):
    """The fastest case at each x from several lists of cases."""
    best = {}
    for case in (case for cases in lists for case in cases):
        at = getattr(case, x)
        if at not in best or case.gb_per_s > best[at].gb_per_s:
            best[at] = case
    return [best[at] for at in sorted(best)]


def parted(lines, part_of):
    """{(letter, name): cases}: the lines with the cases of each part by themselves, the part after the name."""
    parts = {}
    for (letter, method), cases in lines.items():
        for case in cases:
            parts.setdefault((letter, method, part_of(case)), []).append(case)
    return parts


def lines_of(panel, machines, looks, x, at, part_of=lambda case: ""):
    lines, ceilings = ceilings_joined(panel)
    whole = {(letter, "ceiling", ""): faster(lists, x) for letter, lists in ceilings.items()}
    made = []
    for (letter, name, part), cases in {**whole, **parted(lines, part_of)}.items():
        is_ceiling = name == "ceiling"
        points = []
        for case in cases:
            low, high = case.speeds()
            head = f", {at(getattr(case, x))}" + (", the ceiling" if is_ceiling else "")
            points.append(layout.Point(getattr(case, x), case.gb_per_s, low, high, tip(case, letter, head),
                                       case.is_unstable))
        look = looks["copy"] if is_ceiling else looks[name]
        made.append(layout.Line(named(f"{name} {part}".strip(), letter), replace(look, width=1) if part else look, points,
                                dash_of(machines, letter), band=is_ceiling))
    return made


def alt_text(title, lines, at, value):
    parts = [f"{line.label} from {value(line.points[0].y)} at {at(line.points[0].x)} to {value(line.points[-1].y)} "
             f"at {at(line.points[-1].x)}" for line in lines]
    return f"{title}: {'; '.join(parts)}."


def table_of(one, x, heading, at):
    headings = [heading, "direction", "placement", "who", "GB/s", "interval", "of ceiling", "against LibTorch", "time"]
    rows = []
    for panel in one.panels:
        for (letter, method), cases in panel.lines.items():
            for case in cases:
                low, high = case.speeds()
                share, ratio = case.middle("copy_fraction"), case.middle("speedup")
                rows.append([at(getattr(case, x)), case.direction, case.placement + (
                    "" if case.device == "cpu" else f" {case.device}"), named(method, letter),
                    mark(case) + significant(case.gb_per_s),
                    "" if low is None or high is None else f"{significant(low)}–{significant(high)}",
                    "" if share is None else percent(share),
                    "" if ratio is None or case.role == "ceiling" else f"{significant(ratio)}×", span(case.seconds)])
    return Table(headings, rows)


def speed_figure(one, machines, looks, x, heading, at, x_axis, y_axis, width=layout.WIDTH, part_of=lambda case: ""):
    pictures = []
    for panel in one.panels:
        lines = lines_of(panel, machines, looks, x, at, part_of)
        words = alt_text(f"GB/s, {panel.title}", lines, at, rate)
        pictures.append(layout.line_panel(panel.title, lines, x_axis, y_axis, words, width))
    return pictures, table_of(one, x, heading, at)


def fastest(one):
    return max(max(case.gb_per_s, case.speeds()[1] or 0) for case in one.cases)


def slowest(one):
    return min(min(case.gb_per_s, case.speeds()[0] or case.gb_per_s) for case in one.cases)


def ends(one, x):
    values = [getattr(case, x) for case in one.cases]
    return min(values), max(values)


def drawn(found, draw, why):
    """(the figure of the first slice with the others folded away below it, or None; the reason if None)."""
    if not found:
        return None, why
    first, *more = map(draw, found[:1 + MOST])
    first.more = more
    if len(found) > 1 + MOST:
        first.lead += f" ({counted(len(found) - 1 - MOST, 'further figure')} of this kind left out.)"
    for number, figure in enumerate(more, 2):
        figure.name = f"{first.name}-{number}"
    return first, ""


def by_width(machines):
    looks = looks_of(machines)
    lead = "Scattered rows against the same bytes in one piece: the grey line is the faster contiguous copy, " \
           "measured in the same rounds. Thin: ragged rows, which share cache lines with others. Both axes are " \
           f"logarithmic. {INTERVALS}"

    def draw(one):
        x_axis = scales.powers_of_two("bytes a row", *ends(one, "row_bytes"))
        y_axis = scales.logarithmic("GB/s of payload", slowest(one), fastest(one))
        pictures, table = speed_figure(one, machines, looks, "row_bytes", "row", "{:,} B rows".format, x_axis, y_axis,
                                       part_of=lambda case: "ragged" if is_ragged(case) else "")
        return Figure("row-width", "Bandwidth by row width", lead, pictures, table, one.words())

    return drawn(slices(machines, "row_bytes", ("rows", "dim", "dtype"), fewest=3), draw,
                 "no report has three row widths of one thing")


def by_batch(machines):
    looks = looks_of(machines)
    lead = "How many rows one call must move to be worth it; small batches stay in the caches. The grey line is the " \
           f"ceiling where it was measured; both axes are logarithmic. {INTERVALS}"

    def draw(one):
        x_axis = scales.powers_of_two("rows a batch", *ends(one, "batch"), kind="count")
        y_axis = scales.logarithmic("GB/s of payload", slowest(one), fastest(one))
        pictures, table = speed_figure(one, machines, looks, "batch", "batch", "{:,} rows".format, x_axis, y_axis)
        return Figure("batch", "Bandwidth by batch", lead, pictures, table, one.words())

    return drawn(slices(machines, "batch", ("rows",), fewest=3), draw, "no report has three batches of one thing")


def by_cores(machines):
    looks = looks_of(machines)
    lead = f"The same work on more cores, each method with the same ones. {INTERVALS}"

    def draw(one):
        x_axis = scales.powers_of_two("cores", *ends(one, "cores"), kind="count")
        x_axis.ticks = sorted({case.cores for case in one.cases})
        y_axis = scales.linear("GB/s of payload", fastest(one))
        pictures, table = speed_figure(one, machines, looks, "cores", "cores", lambda cores: counted(cores, "core"),
                                       x_axis, y_axis, NARROW)
        words = f"{one.words()}, a table of {binary(one.fixed['rows'] * one.fixed['row_bytes'])}"
        return Figure("cores", "Core scaling", lead, pictures, table, words, columns=4)

    return drawn(slices(machines, "cores", (), fewest=2), draw, "no report has two numbers of cores of one thing")
