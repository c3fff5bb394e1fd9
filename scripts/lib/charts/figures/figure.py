"""A figure: panels on the same scales, a sentence that says how to read them, and its numbers as a table."""

from dataclasses import dataclass, field

from charts import theme
from charts.words import percent, rate, span, times


@dataclass
class Table:
    headings: list
    rows: list  # of texts


@dataclass
class Figure:
    name: str  # of its file, and its address in the page
    title: str
    lead: str  # how to read it
    pictures: list
    table: Table
    fixed: str = ""  # what is the same in all of it
    columns: int = 2
    more: list = field(default_factory=list)  # the same for other cases, folded away in the page


def looks_of(machines):
    return theme.Looks({case.method for machine in machines for case in machine.cases})


def named(text, letter):
    return f"{text} {letter}" if letter else text


def dash_of(machines, letter):
    letters = [machine.letter for machine in machines]
    return theme.DASHES[letters.index(letter) % len(theme.DASHES)]


def tip(case, letter="", head=""):
    """The description of a mark: method, speed, interval, comparison."""
    low, high = case.speeds()
    parts = [f"{named(case.method, letter)}{head}: {rate(case.gb_per_s)} ({span(case.seconds)})"]
    if low is not None and high is not None:
        kind = "95 % interval" if len(case.cases) == 1 else f"{len(case.cases)} processes"
        parts.append(f"{kind} {rate(low)[:-5]}–{rate(high)}")
    if (share := case.middle("copy_fraction")) is not None and case.role != "ceiling":
        parts.append(f"{percent(share)} of the ceiling")
    if (ratio := case.middle("speedup")) and case.role != "libtorch":
        parts.append(f"{times(ratio)} than LibTorch's best")
    if case.is_unstable:
        parts.append("unstable")
    return "; ".join(parts)


def mark(case):
    return "~" if case.is_unstable else ""
