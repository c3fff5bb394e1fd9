"""The main table of each report at a glance: the speed of each method, by placement."""

from charts import layout, scales
from charts.figures.figure import Figure, Table, looks_of, mark, named, tip
from charts.slices import main_shape, method_rank, of_shape, panel_rank
from charts.words import PAGES, PLACEMENTS, counted, percent, rank, shape, significant, span


def chosen(machines):
    """[(machine, its main cases)], of the shape with the most cases on the first machine that has one."""
    wanted = next(filter(None, map(main_shape, machines)), None)
    if wanted is None:
        return []
    return [(machine, cases) for machine in machines if (cases := of_shape(machine, wanted))]


def fixed_of(found):
    """The axes that all of the chosen cases share."""
    case = found[0][1][0]
    return f"{shape(case)}, {case.index_dtype} {case.distribution} indices, {counted(case.cores, 'core')}"


def grouped(found):
    """(suite, device, direction) -> placement -> [(machine, case)], in the order to show."""
    groups = {}
    for machine, cases in found:
        for case in cases:
            panel = groups.setdefault((case.suite, case.device, case.direction), {})
            panel.setdefault(case.placement, []).append((machine, case))
    keys = sorted(groups, key=lambda key: panel_rank((*key, "")))
    return {key: dict(sorted(groups[key].items(), key=lambda one: rank(one[0], PLACEMENTS))) for key in keys}


def ceiling_of(cases, letter):
    """The faster ceiling, or None."""
    found = [case for machine, case in cases if machine.letter == letter and case.role == "ceiling"]
    return max(found, key=lambda case: case.gb_per_s, default=None)


def ceiling_marks(ceiling, placement):
    """Draws the mark of a row, and its interval as a band."""
    if ceiling is None:
        return {}
    band = ceiling.speeds()
    return {"rule": ceiling.gb_per_s, "rule_dashed": ceiling.is_unstable, "band": None if None in band else band,
            "rule_tip": tip(ceiling, "", f", the ceiling in {placement}")}


def rows_of(placements, looks):
    rows = []
    for placement, cases in placements.items():
        rows.append(layout.Row(PAGES.get(placement, placement)))
        movers = [(machine, case) for machine, case in cases if case.role != "ceiling"]
        for machine, case in sorted(movers, key=lambda one: (method_rank(one[1]), one[0].letter)):
            low, high = case.speeds()
            share = case.middle("copy_fraction")
            words = mark(case) + significant(case.gb_per_s) + (f" · {percent(share)}" if share is not None else "")
            rows.append(layout.Row(named(case.method, machine.letter), look=looks[case.method], value=case.gb_per_s,
                                   low=low, high=high, text=words, tip=tip(case, machine.letter, f" in {placement}"),
                                   hollow=case.is_unstable,
                                   **ceiling_marks(ceiling_of(cases, machine.letter), placement)))
    return rows


def alt_text(title, rows):
    parts, heading = [], ""
    for row in rows:
        heading = row.label if row.look is None else heading
        if row.look:
            parts.append(f"{row.label} in {heading} {significant(row.value)} GB/s")
    return f"{title}, GB/s of payload: {'; '.join(parts)}."


def table_of(groups):
    headings = ["direction", "who", "placement", "time", "±", "GB/s", "of ceiling", "against LibTorch",
                "verified rows"]
    rows = []
    for (_, device, direction), placements in groups.items():
        for placement, cases in placements.items():
            for machine, case in sorted(cases, key=lambda one: (method_rank(one[1]), one[0].letter)):
                low, high = case.interval()
                share, ratio = case.middle("copy_fraction"), case.middle("speedup")
                half = None if low is None or high is None else (high - low) / 2 / case.seconds
                place = placement if device == "cpu" else f"{placement} {device}"
                rows.append([direction, named(case.method, machine.letter), place,
                             mark(case) + span(case.seconds), "" if half is None else f"±{100 * half:.1f} %",
                             significant(case.gb_per_s), "" if share is None else percent(share),
                             "" if ratio is None or case.role == "ceiling" else f"{significant(ratio)}×",
                             f"{sum(one['verified_rows'] or 0 for one in case.cases):,}"])
    return Table(headings, rows)


def make(machines):
    found = chosen(machines)
    groups = {key: placements for key, placements in grouped(found).items()
              if any(case.role != "ceiling" for cases in placements.values() for _, case in cases)}
    if not groups:
        return None, "no report has a transfer that was measured"
    looks = looks_of(machines)
    highest = max(value for placements in groups.values() for cases in placements.values() for _, case in cases
                  for value in (case.gb_per_s, *case.speeds()) if value)
    axis = scales.linear("GB/s of payload", highest)
    pictures = []
    for (_, device, direction), placements in groups.items():
        rows = rows_of(placements, looks)
        title = direction.replace("_", " ") + ("" if device == "cpu" else f" · {device}")
        pictures.append(layout.row_panel(title, rows, axis, alt_text(title, rows)))
    lead = "Bars: payload a second, the percentage is the share of the ceiling, which is the grey mark. " \
           "Whiskers and the grey band: the 95 % interval, or the range over several processes. Hollow, dashed or ~: " \
           "unstable."
    return Figure("placements", "Where the table lives, and who moves its rows", lead, pictures, table_of(groups),
                  fixed_of(found)), ""
