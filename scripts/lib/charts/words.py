"""Texts for people: numbers with units, names of cases, and safe texts from reports."""

import math
import re
import unicodedata

from reports import shortened

PAGES = {"libtorch": "a LibTorch tensor", "pageable": "4 KiB pages", "hugepage": "huge pages",
         "mapped": "a mapped file", "pinned": "pinned memory", "device": "device memory"}
DIRECTIONS = ("to", "from", "sum", "round_trip", "consume")
PLACEMENTS = tuple(PAGES)


def clean(text, length=300):
    """A safe form of a text: no control, surrogate or direction characters, on one line, limited length."""
    spaced = re.sub(r"[\t\r\n\f\v]+", " ", text)
    kept = "".join(one if unicodedata.category(one) not in ("Cc", "Cs", "Cf", "Co", "Cn") else "\ufffd"
                   for one in spaced[: 4 * length])
    return shortened(kept, length)


def significant(value, digits=3):
    """20.3, 7.40, 1,250: this many digits, and never an exponent."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def binary(count):
    """Bytes at powers of two: 512 B, 4 KiB, 4.77 GiB."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**power:
            value = count / 2**power
            return f"{value:,.0f} {unit}" if value == int(value) else f"{significant(value)} {unit}"
    return f"{count:,.0f} B"


def rate(value):
    return f"{significant(value)} GB/s"


def span(seconds):
    """A time in the unit that suits it."""
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{significant(seconds / scale)} {unit}"
    return f"{significant(seconds / 1e-9)} ns"


def times(ratio):
    """In the program's words: 1.8× faster, 7.7× slower."""
    against = ratio if ratio >= 1 else 1 / ratio
    return f"{against:.2g}× {'faster' if ratio >= 1 else 'slower'}" if against < 10 else \
        f"{against:,.0f}× {'faster' if ratio >= 1 else 'slower'}"


def percent(fraction):
    return f"{100 * fraction:.0f}\u00a0%"  # on one line


def counted(count, noun):
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words):
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def shape(case):
    """131,072 of 1,000,000 × 128 float32 rows."""
    element = "B" if case.dtype == "bytes" else case.dtype
    width = f"{case.dim:,} B" if element == "B" else f"{case.dim:,} {element}"
    return f"{case.batch:,} of {case.rows:,} × {width} rows"


def rank(value, order):
    """A sort key: known names in their order, then the rest by name."""
    return (order.index(value), "") if value in order else (len(order), str(value))


def listed_case(case):
    """One line about a case that was not measured well."""
    return (f"{case['direction']} {case['placement']} · {case['method']} · {case['device']} · "
            f"{case['batch']:,} of {case['rows']:,} × {case['dim']:,} {case['dtype']} · {case['index_dtype']} · "
            f"cores {case['cores']}")
