"""The ends and ticks of an axis, and the places of the names beside it."""

import math
from dataclasses import dataclass


@dataclass
class Axis:
    """A scale: title, ends, ticks. For `bytes` and `count` the ticks are powers of two."""

    title: str
    low: float
    high: float
    ticks: list
    kind: str = "linear"  # log, bytes, count

    @property
    def is_log(self):
        return self.kind != "linear" and self.low > 0

    def part(self, value):
        """The position of a value on the axis, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(title, highest):
    """From 0 to a round number, in four to six steps."""
    step = 10.0 ** math.floor(math.log10(highest / 4)) if highest > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if highest / (step * factor) <= 5)
    count = math.ceil(highest / step * 0.999) or 1
    return Axis(title, 0, count * step, [step * i for i in range(count + 1)])


def logarithmic(title, lowest, highest):
    """From 1, 2 or 5 times a power of ten to another; ticks at decades, and at 2 and 5 if there are few."""
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    steps = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    low = max(step for step in steps if step <= lowest * 1.001)
    high = min(step for step in steps if step >= highest * 0.999 and step > low)
    ticks = [step for step in steps if low <= step <= high]
    if len(ticks) > 9:
        ticks = [tick for tick in ticks if is_decade(tick)]
    return Axis(title, low, high, ticks, "log")


def is_decade(value):
    return math.isclose(math.log10(value), round(math.log10(value)), abs_tol=1e-9)


def powers_of_two(title, lowest, highest, kind="bytes"):
    first, last = math.floor(math.log2(lowest)), math.ceil(math.log2(highest))
    step = max(1, math.ceil((last - first) / 6))
    ticks = [2**power for power in range(first, max(last, first + 1) + 1, step)]
    return Axis(title, min(lowest, ticks[0]), max(highest, ticks[0] * 2), ticks, kind)


def binary_linear(title, highest):
    """Bytes from 0 up, ticks at multiples of a power of two."""
    step = 2.0 ** math.floor(math.log2(highest / 3)) if highest > 0 else 1.0
    step *= 2 if highest / step > 5 else 1
    count = math.ceil(highest / step * 0.999) or 1
    return Axis(title, 0, count * step, [step * i for i in range(count + 1)], "bytes")


def spread(wanted, gap, low, high):
    """Places as near to the wanted ones as possible, at least `gap` apart, inside [low, high] if there is room."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks = []  # [sum of wanted minus offset, count]: rows that touch move as one
    for i in order:
        blocks.append([[i], wanted[i]])
        while len(blocks) > 1 and start(blocks[-2], gap) + gap * len(blocks[-2][0]) > start(blocks[-1], gap):
            last = blocks.pop()
            merged = blocks[-1][0] + last[0]
            blocks[-1] = [merged, sum(wanted[j] for j in merged) / len(merged)]
    places = [0.0] * len(wanted)
    for members, centre in blocks:
        first = min(max(start((members, centre), gap), low), max(low, high - gap * (len(members) - 1)))
        for offset, i in enumerate(members):
            places[i] = first + gap * offset
    return places


def start(block, gap):
    members, centre = block
    return centre - gap * (len(members) - 1) / 2
