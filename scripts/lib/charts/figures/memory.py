"""What a table of each kind costs in memory, from the memory suite: bars beside the requested bytes."""

from charts import layout, scales
from charts.figures.figure import Figure, Table, looks_of, mark, named
from charts.figures.published import FIGURES, LOOK
from charts.slices import method_rank
from charts.words import PAGES, PLACEMENTS, binary, rank, significant

COLUMNS = {"requested_bytes": "requested", "resident_bytes": "resident", "locked_bytes": "locked",
           "page_table_bytes": "page tables", "shared_bytes": "shared", "device_bytes": "device",
           "device_reserved_bytes": "device reserved", "device_allocated_bytes": "device allocated",
           "peak_bytes": "peak", "steady_bytes": "steady", "baseline_bytes": "before",
           "after_free_bytes": "freed"}
HOST, DEVICE = "resident_bytes", "device_bytes"


def chosen(machines):
    """[(machine, case)] of the memory suite, in the order to show."""
    found = [(machine, case) for machine in machines for case in machine.cases if case.suite == "memory"]
    return sorted(found, key=lambda one: (rank(one[1].placement, PLACEMENTS), method_rank(one[1]),
                                          one[1].device, str(one[1].key), one[0].letter))


def tip(case, label):
    parts = [f"{name} {binary(value)}" for column, name in COLUMNS.items() if (value := case.middle(column))]
    ratio = case.middle("overhead_ratio")
    return f"{label}: " + "; ".join(parts) + (f"; {significant(ratio, 4)}× its bytes added" if ratio else "")


def ideal(case):
    """The use if a table took exactly its bytes; None if unknown."""
    asked = case.middle("requested_bytes")
    return None if asked is None else asked + (case.middle("baseline_bytes") or 0)


def rows_of(found, column, looks):
    rows, heading = [], None
    varies = len({case.further for _, case in found}) > 1
    for machine, case in found:
        if (value := case.middle(column)) is None:
            continue
        if case.placement != heading:
            heading = case.placement
            rows.append(layout.Row(PAGES.get(heading, heading)))
        parts = [case.method, "" if case.device == "cpu" else case.device, case.further if varies else ""]
        label = named(" · ".join(filter(None, parts)), machine.letter)
        home = case.placement == "device" if column == DEVICE else case.placement != "device"
        peak, least = case.middle("peak_bytes"), ideal(case)
        ratio = case.middle("overhead_ratio")
        words = mark(case) + binary(value) + (f" · {significant(ratio, 4)}×" if home and ratio else "")
        whisker = (value, peak) if home and peak and peak > value else (None, None)
        rows.append(layout.Row(label, look=looks[case.method], value=value, low=whisker[0], high=whisker[1], text=words,
                               tip=tip(case, label), rule=least if home else None, hollow=case.is_unstable,
                               rule_tip=f"{label}: before and what was requested: {binary(least)}" if least else ""))
    return rows


def published_rows(found, side):
    """The figures of SpeedTorch's README, if the same table was measured here."""
    if not any((case.dtype, case.rows, case.dim) == ("float32", 10**7, 128) for _, case in found):
        return []
    rows = [layout.Row("published 2019, Tesla K80")]
    for one in FIGURES["memory"]["rows"]:
        value = one[side] * 2**30
        rows.append(layout.Row(one["name"], look=LOOK, value=value, text=binary(value),
                               tip=f"{one['name']}, published 2019, with what the process has anyway: "
                                   f"{binary(value)}"))
    return rows


def table_of(found):
    names = [column for column in COLUMNS if any(case.middle(column) is not None for _, case in found)]
    rows = []
    for machine, case in found:
        ratio = case.middle("overhead_ratio")
        rows.append([named(case.method, machine.letter), case.placement, case.device,
                     " ".join(filter(None, [f"{case.rows:,} × {case.dim:,} {case.dtype}", case.further])),
                     *("" if (value := case.middle(column)) is None else binary(value) for column in names),
                     "" if ratio is None else significant(ratio, 4)])
    return Table(["who", "placement", "device", "table", *(COLUMNS[name] for name in names), "added / requested"],
                 rows)


def make(machines, shows_published):
    found = chosen(machines)
    looks, drawn = looks_of(machines), []
    for column, title, side in ((HOST, "host memory", "host"), (DEVICE, "device memory", "device")):
        rows = rows_of(found, column, looks)
        if any(row.value for row in rows):
            drawn.append((title, rows + (published_rows(found, side) if shows_published else [])))
    if not drawn:
        return None, "no report is of the memory suite"
    highest = max(value for _, rows in drawn for row in rows for value in (row.value, row.high, row.rule) if value)
    axis = scales.binary_linear("bytes", highest)
    pictures = []
    for title, rows in drawn:
        words = "; ".join(f"{row.label} {row.text}" for row in rows if row.look)
        pictures.append(layout.row_panel(title, rows, axis, f"{title}: {words}."))
    lead = "Bars: what is in use with the table, by its process and on the device, with what was in use before. The " \
           "grey mark is what was before plus the bytes requested; the factor is what the table added over its bytes. " \
           "A whisker goes to the peak."
    sizes = sorted({case.rows * case.row_bytes for _, case in found})
    fixed = f"a table of {binary(sizes[0])}" if len(sizes) == 1 else ""
    return Figure("memory", "What a table costs in memory", lead, pictures, table_of(found), fixed), ""
