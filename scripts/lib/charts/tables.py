"""Tables in HTML; every text is escaped here."""

import re
from html import escape

from charts.words import clean

NUMBER = re.compile(r"^~?[±<]?[\d,.]+(\s?(%|×|s|ms|µs|ns|B|KiB|MiB|GiB|GB/s|B rows|rows?|cores?))?(–[\d,.]+)?( faster| "
                    r"slower)?$")


def cell(text, heading=False):
    if heading:
        return f'<th scope="col">{escape(text)}</th>'
    kind = ' class="n"' if NUMBER.match(text) else ""
    return f"<td{kind}>{escape(text)}</td>"


def table(headings, rows, caption=""):
    head = "".join(cell(heading, True) for heading in headings)
    body = "\n".join(f"<tr>{''.join(cell(text) for text in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll" tabindex="0"><table>{title}<thead><tr>{head}</tr></thead><tbody>\n{body}\n' \
           "</tbody></table></div>"


def value_text(value):
    """A value of the environment in words."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "; ".join(value_text(one) for one in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {value_text(one)}" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) and value >= 10000 else str(value)


def environment(machines):
    """[(name, value on each machine)] of the first report of each."""
    names = {}
    for machine in machines:
        for group, values in machine.reports[0]["environment"].items():
            for name in values:
                names[group, name] = None
    rows = []
    for group, name in names:
        row = [clean(f"{group}: {name.replace('_', ' ')}", 60)]
        for machine in machines:
            values = machine.reports[0]["environment"].get(group, {})
            row.append(clean(value_text(values[name])) if name in values else "")
        rows.append(row)
    return rows


def runs(machine):
    """What each report is."""
    return [[clean(name), clean(report["program"], 60), clean(report["started_at"], 40),
             clean(" ".join(report["argv"])), str(report["seed"]), f"{len(report['cases']):,}",
             clean(report["schema_version"], 20)] for name, report in zip(machine.names, machine.reports)]
