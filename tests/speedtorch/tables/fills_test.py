"""The random fills against their definition (speedtorch/tables/fills.h) computed anew with NumPy's own Philox, around the
positions where 32 bits end, and as distributions."""

import os
import statistics
import subprocess
import unittest

try:
    import numpy as np
except ImportError:
    np = None

PROGRAM = os.environ["STBENCH_FILL_WINDOW"]
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATING = ("float16", "bfloat16", "float32", "float64")
POSITIONS = (0, 1, 2, 3, 2**31 - 5, 2**31, 2**32 - 3, 2**32, 2**33 + 1, 2**40 + 2, 2**62)


def storage(dtype):
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def windows(requests):
    """The elements of each request (kind, dtype, a, b, seed, first, count), bfloat16 as its bits."""
    lines = "".join(" ".join(map(str, request)) + "\n" for request in requests)
    done = subprocess.run([PROGRAM], input=lines.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    at, found = 0, []
    for request in requests:
        element, count = storage(request[1]), request[-1]
        found.append(np.frombuffer(done.stdout, element, count, at))
        at += count * element.itemsize
    assert at == len(done.stdout)
    return found


def words(seed, first, count, attempt=0):
    skip = first % 4
    generator = np.random.Philox(key=seed, counter=[first // 4, 0, 0, attempt])
    return generator.random_raw(skip + count)[skip:]


def units(seed, first, count):
    return (words(seed, first, count) >> np.uint64(11)) * 2.0**-53


def bfloat16_bits(values):
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(values, dtype):
    """As float64; of bfloat16, whose bits they are."""
    if dtype == "bfloat16":
        values = (np.asarray(values).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values).astype(np.float64)


def rounded(values, dtype):
    if dtype == "bfloat16":
        return bfloat16_bits(values)
    return values if dtype == "float64" else np.asarray(values, np.float32).astype(dtype)


def bounds(low, high, dtype):
    """The least number of the dtype from `low` on and the greatest below `high`."""
    if dtype in ("float16", "bfloat16"):
        every = np.arange(2**16, dtype=np.uint16)
        with np.errstate(invalid="ignore"):  # some of them are no numbers
            every = widened(every if dtype == "bfloat16" else every.view(np.float16), dtype)
        return every[every >= low].min(), every[every < high].max()
    a, b = np.dtype(dtype).type(low), np.dtype(dtype).type(high)
    least = a if a >= low else np.nextafter(a, a.dtype.type(np.inf))
    return float(least), float(b if b < high else np.nextafter(b, b.dtype.type(-np.inf)))


def expected_uniform(dtype, low, high, seed, first, count):
    values = low + (high - low) * units(seed, first, count)
    return rounded(np.clip(values, *bounds(low, high, dtype)), dtype)


def expected_integers(low, high, seed, first, count):
    span, numbers = high - low, []
    for i, word in enumerate(words(seed, first, count).tolist()):
        attempt = 0
        while word * span % 2**64 < 2**64 % span:
            attempt += 1
            word = int(words(seed, first + i, 1, attempt)[0])
        numbers.append(low + (word * span >> 64))
    return numbers


def expected_normal(mean, std, seed, first, count):
    start = first - first % 2
    pairs = words(seed, start, count + first % 2 + 1)
    first_words, second_words = pairs[0 : len(pairs) // 2 * 2 : 2], pairs[1::2]
    length = np.sqrt(-2 * np.log(((first_words >> np.uint64(11)) + np.uint64(1)) * 2.0**-53))
    angle = 2 * np.pi * ((second_words >> np.uint64(11)) * 2.0**-53)
    both = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1).reshape(-1)
    return mean + std * both[first % 2 :][:count]


def distance_of_distributions(values, cumulative):
    """Kolmogorov's and Smirnov's statistic times the root of n: above 1.95 in one case of a thousand."""
    ordered, n = np.sort(values.astype(float)), len(values)
    exact, steps = cumulative(ordered), np.arange(n + 1) / n
    return max(np.max(exact - steps[:-1]), np.max(steps[1:] - exact)) * n**0.5


def normal_cumulative(mean, std):
    """At a million places between which it is as good as straight."""
    places = np.linspace(-9, 9, 1_000_001)
    known = np.fromiter(map(statistics.NormalDist().cdf, places), float, len(places))
    return lambda values: np.interp((values - mean) / std, places, known)


@unittest.skipIf(np is None, "needs NumPy")
class FillsTest(unittest.TestCase):
    def test_uniform_is_its_definition_at_every_position(self):
        requests = [
            ("uniform", dtype, low, high, seed, first, 1001)
            for dtype in FLOATING
            for low, high in ((0.0, 1.0), (-0.1, 0.1), (1.0, 1.001 if dtype == "float64" else 1.5), (-3e4, -2.5e4))
            for first, seed in zip(POSITIONS, (0, 1, 7, 2**63, 2**64 - 1) * 3)
        ]
        for request, found in zip(requests, windows(requests)):
            _, dtype, low, high, seed, first, count = request
            self.assertTrue((found == expected_uniform(dtype, low, high, seed, first, count)).all(), request)
            values = widened(found, dtype)
            self.assertTrue(((values >= low) & (values < high)).all(), request)

    def test_uniform_float64_is_that_of_numpy(self):
        (found,) = windows([("uniform", "float64", -2.5, 7.5, 42, 0, 100_000)])
        self.assertTrue((found == np.random.Generator(np.random.Philox(key=42)).uniform(-2.5, 7.5, 100_000)).all())

    def test_uniform_integers_are_their_definition_at_every_position(self):
        requests = []
        for dtype in INTEGERS:
            least, most = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            spans = [(least, most + 1 if most < 2**63 - 1 else most), (most // 2, most)]
            if dtype in ("int64", "uint64"):
                spans.append((least, least + 3 * 2**62))  # a fourth of the words is drawn again
            requests += [
                ("uniform", dtype, low, high, 3, first, 301) for low, high in spans for first in POSITIONS if low < high
            ]
        for request, found in zip(requests, windows(requests)):
            _, _, low, high, seed, first, count = request
            self.assertEqual(found.tolist(), expected_integers(low, high, seed, first, count), request)

    def test_normal_is_its_definition_at_every_position(self):
        requests = [
            ("normal", dtype, mean, std, seed, first, 1001)
            for dtype in FLOATING
            for mean, std in ((0.0, 1.0), (-5.0, 0.01), (3.0, 0.0))
            for first, seed in zip(POSITIONS, (0, 1, 7, 2**63, 2**64 - 1) * 3)
        ]
        steps = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 1e-13}
        for request, found in zip(requests, windows(requests)):
            _, dtype, mean, std, seed, first, count = request
            expected = expected_normal(mean, std, seed, first, count)
            error = np.abs(widened(found, dtype) - expected)
            self.assertLessEqual((error / (np.abs(expected) * steps[dtype] + 1e-7 * (dtype == "float16") + 1e-14)).max(),
                                 1.0, request)

    def test_windows_meet(self):
        for kind, dtype in (("uniform", "float32"), ("uniform", "int64"), ("normal", "float64"), ("normal", "bfloat16")):
            a, b = (0.0, 1.0) if kind == "normal" else (-100, 100)
            cuts = (0, 1, 3, 4, 5, 11, 300_001, 300_002)
            whole, *parts = windows(
                [(kind, dtype, a, b, 5, 2**31 - 7, cuts[-1])]
                + [(kind, dtype, a, b, 5, 2**31 - 7 + begin, end - begin) for begin, end in zip(cuts, cuts[1:])]
            )
            self.assertTrue((np.concatenate(parts) == whole).all(), (kind, dtype))

    def test_distributions_are_what_their_names_say(self):
        n = 1_000_000
        uniform, normal, small, large = windows([
            ("uniform", "float32", -1.0, 3.0, 11, 0, n),
            ("normal", "float32", 2.0, 0.5, 12, 0, n),
            ("uniform", "int8", -100, 27, 13, 0, n),
            ("uniform", "int64", -(2**62), 2**63 - 1, 14, 0, n),
        ])
        self.assertLess(distance_of_distributions(uniform, lambda x: (x + 1) / 4), 1.95)
        self.assertLess(distance_of_distributions(normal, normal_cumulative(2, 0.5)), 1.95)
        self.assertLess(distance_of_distributions(large / 2.0**62, lambda x: (x + 1) / 3), 1.95)
        counts, even = np.bincount(small.astype(int) + 100, minlength=127), n / 127
        self.assertLess(((counts - even) ** 2 / even).sum(), 126 + 3.1 * (2 * 126) ** 0.5 + 4)  # chi-square, 0.1 %
        self.assertAlmostEqual(normal.mean(dtype=float), 2.0, delta=4 * 0.5 / n**0.5)
        self.assertAlmostEqual(normal.std(dtype=float), 0.5, delta=4 * 0.5 / (2 * n) ** 0.5)
        standard = (normal.astype(float) - normal.mean(dtype=float)) / normal.std(dtype=float)
        self.assertAlmostEqual((standard**3).mean(), 0.0, delta=4 * (6 / n) ** 0.5)
        self.assertAlmostEqual((standard**4).mean(), 3.0, delta=4 * (24 / n) ** 0.5)

    def test_neighbours_and_seeds_are_independent(self):
        n = 200_000
        for kind, a, b in (("uniform", 0.0, 1.0), ("normal", 0.0, 1.0)):
            one, other = windows([(kind, "float64", a, b, 21, 0, n), (kind, "float64", a, b, 22, 0, n)])
            pairs = [(one, other)] + [(one[:-lag], one[lag:]) for lag in (1, 2, 3, 4, 128)]
            for left, right in pairs:
                self.assertLess(abs(np.corrcoef(left, right)[0, 1]), 4.5 / n**0.5, kind)


if __name__ == "__main__":
    unittest.main()
