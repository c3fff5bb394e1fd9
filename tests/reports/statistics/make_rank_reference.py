#!/usr/bin/env python3
"""Writes tests/data/rank_statistics.json: what SciPy says of pairs of samples, and of Student's law.

  tests/reports/statistics/make_rank_reference.py            writes the file
  tests/reports/statistics/make_rank_reference.py --check    compares it with the SciPy of this Python

The interval of the shift is not SciPy's: it is found by writing all differences down and
counting the ways to each U by polynomials, which is another way than the program's.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy
import scipy
from scipy import special, stats

FILE = Path(__file__).resolve().parents[2] / "data" / "rank_statistics.json"


def samples(generator, n, shift, ties):
    numbers = generator.standard_t(4, n) * 0.05 + shift
    return numpy.round(numbers, 2 if ties else 12).tolist()


def interval(first, second):
    """The ends of the 95 % interval of the shift by the exact law of U without ties, or None."""
    differences = sorted(b - a for a, b in itertools.product(first, second))
    n, m = len(first), len(second)
    counts = exact_counts(n, m)
    total = sum(counts)
    tail, rank = 0.0, 0
    for count in counts:
        tail += count / total
        if tail > 0.025:
            break
        rank += 1
    return None if rank == 0 else [differences[rank - 1], differences[-rank]]


def exact_counts(n, m):
    """How many ways give each U: the Gaussian binomial coefficient, by multiplying polynomials."""
    numerator = numpy.array([1], dtype=object)
    for i in range(1, n + 1):
        factor = numpy.zeros(m + i + 1, dtype=object)
        factor[0], factor[m + i] = 1, -1
        numerator = numpy.convolve(numerator, factor)
    for i in range(1, n + 1):
        quotient = numerator.copy()
        for k in range(i, len(quotient)):
            quotient[k] += quotient[k - i]
        numerator = quotient
    return numerator[: n * m + 1].tolist()


def pair(generator, n, m, shift, ties):
    first, second = samples(generator, n, 0, ties), samples(generator, m, shift, ties)
    exact = n + m <= 50 and min(n, m) <= 20
    if exact and ties:
        count = stats.permutation_test(
            (second, first), lambda x, y: stats.mannwhitneyu(x, y).statistic, permutation_type="independent",
            n_resamples=numpy.inf, alternative="two-sided")
        p = count.pvalue
    else:
        p = stats.mannwhitneyu(second, first, method="exact" if exact else "asymptotic").pvalue
    return {
        "first": first, "second": second, "exact": exact,
        "u": float(stats.mannwhitneyu(second, first).statistic), "p": float(p),
        "shift": float(numpy.median(numpy.subtract.outer(second, first))),
        "interval": interval(first, second) if exact else None,
    }


def reference():
    generator = numpy.random.default_rng(20261121)
    sizes = [(1, 1), (1, 5), (3, 3), (5, 5), (4, 7), (11, 11), (20, 20), (11, 31), (21, 21), (31, 31), (61, 40)]
    pairs = [pair(generator, n, m, shift, False) for n, m in sizes for shift in (0, 0.04, 0.3)]
    pairs += [pair(generator, n, m, 0.03, True) for n, m in ((4, 4), (5, 6), (31, 31), (61, 61))]
    return {
        "generator": f"tests/reports/statistics/make_rank_reference.py with SciPy {scipy.__version__}, NumPy {numpy.__version__}",
        "pairs": pairs,
        "student": [{"t": t, "freedom": freedom, "p": float(2 * stats.t.sf(t, freedom))}
                    for t in (0.1, 1.0, 2.5, 6.0, 30.0) for freedom in (0.7, 1.0, 4.0, 9.5, 60.0, 1e6)],
        "polygamma": [{"x": x, "digamma": float(special.digamma(x)), "trigamma": float(special.polygamma(1, x))}
                      for x in (0.05, 0.5, 1.0, 2.5, 11.9, 12.0, 80.0)],
    }


def close(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[k], other[k]) for k in one if k != "generator")
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-3)
    return one == other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.check:
        FILE.write_text(json.dumps(reference(), indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
        return 0
    same = close(json.loads(FILE.read_text(encoding="utf-8")), json.loads(json.dumps(reference())))
    print("the file is what SciPy says" if same else "the file differs from what SciPy says")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
