"""Verdicts on speed goals from one ratio per process, and their table, for the scripts that judge goals.

A goal has what Goal has."""

import functools
import math
import statistics
import textwrap
from dataclasses import dataclass, field

FEWEST = 5  # processes
WIDTH = 130  # of the text


@functools.cache
def t_quantile(df, p=0.975):
    """A quantile of Student's distribution, by bisection of its integral (Simpson's rule)."""
    scale = math.gamma((df + 1) / 2) / (math.sqrt(df * math.pi) * math.gamma(df / 2))

    def cumulated(t, steps=400):
        h = t / steps
        density = [scale * (1 + (i * h) ** 2 / df) ** (-(df + 1) / 2) for i in range(steps + 1)]
        return 0.5 + h / 3 * (density[0] + density[-1] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2]))

    low, high = 0.0, 700.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cumulated(middle) < p else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Goal:
    id: str
    what: str
    must: float
    aim: float
    budgets: tuple = ()  # of a goal that counts something instead of comparing speeds


@dataclass
class Judgement:
    goal: object
    where: str
    verdict: str
    mean: float = None
    low: float = None
    high: float = None
    notes: list = field(default_factory=list)


def judge_ratios(goal, where, ratios):
    """The verdict on one ratio per process."""
    logs = [math.log(value) for value in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < FEWEST:
        lacking = FEWEST - len(logs)
        return Judgement(goal, where, "too few", math.exp(mean),
                         notes=[f"{lacking} more process{'es are' if lacking > 1 else ' is'} needed"])
    half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    verdict = "missed" if high < goal.must else "met" if low >= goal.must else "open"
    return Judgement(goal, where, verdict, math.exp(mean), low, high, ["aim met"] if low >= goal.aim else [])


def counted(count, noun):
    return f"{count} {noun}{'' if count == 1 else 's'}"


def number(value, goal):
    if value is None:
        return ""
    return f"{value:.2f}" if not goal.budgets else "more" if value == math.inf else f"{value}"


def rows_of(judgements):
    for one in judgements:
        interval = "–".join(number(value, one.goal) for value in (one.low, one.high) if value is not None)
        most = "<= " if one.goal.budgets else ""
        yield (one.goal.id, one.goal.what, one.where, f"{most}{one.goal.must:g}", f"{most}{one.goal.aim:g}",
               number(one.mean, one.goal), interval, one.verdict, "; ".join(one.notes))


HEADINGS = ("goal", "ratio", "where", "must", "aim", "measured", "95 %", "verdict")


def as_text(rows):
    """Text that does not fit behind the verdict goes below it."""
    widths = [max(len(row[i]) for row in [HEADINGS, *rows]) for i in range(len(HEADINGS) - 1)]
    lines = []
    for *cells, verdict, notes in [(*HEADINGS, ""), *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + f"  {verdict}"
        if not notes or len(line) + 2 + len(notes) <= WIDTH:
            lines.append(": ".join(filter(None, [line, notes])))
            continue
        indent = " " * (widths[0] + 4)
        lines += [line, *textwrap.wrap(notes, WIDTH, initial_indent=indent, subsequent_indent=indent,
                                       break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines)


def as_markdown(rows):
    joined = [(*cells, ": ".join(filter(None, [verdict, notes]))) for *cells, verdict, notes in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [HEADINGS, ("---",) * len(HEADINGS), *joined])


def print_verdicts(judgements, markdown=False):
    """Returns the exit status: 1 if a goal is missed, else 0."""
    print((as_markdown if markdown else as_text)(list(rows_of(judgements))))
    return 1 if any(one.verdict == "missed" for one in judgements) else 0
