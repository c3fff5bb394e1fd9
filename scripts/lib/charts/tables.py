"""Tables in HTML; every text is escaped here."""

import re
from html import escape

from charts.words import clean

NUMBER = re.compile(r"^~?[±<]?[\d,.]+(\s?(%|×|s|ms|µs|ns|B|KiB|MiB|GiB|GB/s|B rows|rows?|cores?))?(–[\d,.]+)?( faster| "
                    r"slower)?$")


def cell(text, is_number):
    return f'<td class="n">{escape(text)}</td>' if is_number else f"<td>{escape(text)}</td>"


def table(headings, rows):
    """Aligns columns of numbers and their headings to the right."""
    numbers = [any(row[i] for row in rows) and all(NUMBER.match(row[i]) or not row[i] for row in rows)
               for i in range(len(headings))]
    head = "".join(f'<th scope="col"{" class=n" if right else ""}>{escape(heading)}</th>'
                   for heading, right in zip(headings, numbers))
    body = "\n".join(f"<tr>{''.join(cell(text, right) for text, right in zip(row, numbers))}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n' \
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
