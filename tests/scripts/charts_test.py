"""scripts/charts: its command line, what it draws of which reports, and that the committed charts are of the committed
reports. What a browser makes of a page is in charts_browser_test.py."""

import copy
import json
import re
import shutil
import stat
import statistics
import struct
import sys
import tempfile
import unittest
from html import escape, unescape
from pathlib import Path
from xml.etree import ElementTree

from charts_program import (MACHINE, MISSING, RESULTS, ROOT, charts, committed, is_there, memory_report, other_machine, small)

sys.path.insert(0, str(ROOT / "scripts/lib"))
import reports  # noqa: E402
from charts import scales, slices, theme, words  # noqa: E402
from charts.machines import Machine, Measured  # noqa: E402


def rows_of(page, heading):
    """The cells of each row of the first table below a heading."""
    table = page[page.index(f">{escape(heading)}</h2>"):]
    table = table[table.index("<table>"):table.index("</table>")]
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in table.split("<tr>")[2:]]


class PlainTest(unittest.TestCase):
    """Without drawing anything."""

    def test_numbers_in_words(self):
        self.assertEqual([words.significant(value) for value in (20.27, 7.4, 1250.4, 0.0252, 9.999, 0, None)],
                         ["20.3", "7.40", "1,250", "0.0252", "10.0", "0", ""])
        self.assertEqual([words.binary(value) for value in (16, 512, 4096, 5 * 2**30, 5.12e9)],
                         ["16 B", "512 B", "4 KiB", "5 GiB", "4.77 GiB"])
        self.assertEqual([words.span(value) for value in (2.5, 0.0033, 1.5e-6, 2e-8)],
                         ["2.50 s", "3.30 ms", "1.50 µs", "20.0 ns"])
        self.assertEqual([words.times(value) for value in (1.78, 0.13, 20)],
                         ["1.8× faster", "7.7× slower", "20× faster"])

    def test_texts_lose_what_must_not_be_shown(self):
        self.assertEqual(words.clean("a\nb\x00c\u202ed\ud800"), "a b\ufffdc\ufffdd\ufffd")
        self.assertEqual(len(words.clean("x" * 10_000)), 300)

    def test_axes_hold_their_values_and_end_at_ticks(self):
        for highest in (0.7, 1, 19.9, 28.3, 50, 51, 999):
            axis = scales.linear("", highest)
            self.assertGreaterEqual(axis.high, 0.999 * highest)
            self.assertEqual((axis.ticks[0], axis.ticks[-1]), (0, axis.high))
            self.assertTrue(3 <= len(axis.ticks) <= 7, axis.ticks)
        for lowest, highest in ((0.09, 240), (2.2, 200), (1, 1), (0.0252, 47.9), (3, 4)):
            axis = scales.logarithmic("", lowest, highest)
            self.assertLessEqual(axis.low, 1.001 * lowest)
            self.assertGreaterEqual(axis.high, 0.999 * highest)
            self.assertTrue(axis.ticks and axis.low < axis.high)
        axis = scales.powers_of_two("", 16, 4096)
        self.assertEqual(axis.ticks, [16, 64, 256, 1024, 4096])
        self.assertAlmostEqual(axis.part(256), 0.5)

    def test_names_beside_lines_do_not_touch(self):
        for wanted in ([10, 10, 10], [0, 1, 2, 100], [175, 174, 90], [50]):
            places = scales.spread(wanted, 13, 0, 175)
            for one, other in zip(sorted(places), sorted(places)[1:]):
                self.assertGreaterEqual(other - one, 13 - 1e-9)
            self.assertTrue(all(0 <= place <= 175 for place in places), places)
        self.assertEqual(scales.spread([40, 100], 13, 0, 175), [40, 100])

    def test_colours_can_be_read_in_light_and_dark(self):
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

        def contrast(one, other):
            low, high = sorted((luminance(one), luminance(other)))
            return (high + 0.05) / (low + 0.05)

        letters = set(theme.DARK) - {theme.GRID, theme.PAPER}
        self.assertLessEqual({look.colour for look in (*theme.LOOKS.values(), *theme.OTHERS)}, letters)
        for colour in letters:
            self.assertGreaterEqual(contrast(colour, theme.PAPER), 4.5, colour)
            self.assertGreaterEqual(contrast(theme.DARK[colour], theme.DARK[theme.PAPER]), 4.5, colour)

    def test_methods_differ_in_shape_and_not_by_colour_alone(self):
        shapes = [theme.LOOKS[name].shape for name in ("speedtorch", "index_select", "advanced", "staged", "hybrid")]
        self.assertEqual(len(set(shapes)), len(shapes))

    def test_the_published_figures_are_those_of_speedtorchs_table(self):
        published = json.loads((ROOT / "scripts/lib/charts/published.json").read_text())["transfer"]
        code = (ROOT / "tests/reports/statistics/speedtorch_ratios_test.cpp").read_text()
        rows = re.findall(r'\{"(to|from|sum)", "(\w+)", ([\d.]+), ([\d.]+),', code)
        self.assertEqual(len(rows), 6)
        by_name = {row["name"]: row for row in published["rows"]}
        for direction, placement, ours, theirs in rows:
            self.assertEqual(by_name[f"SpeedTorch({placement})"][direction], float(ours))
            self.assertEqual(by_name[f"Pytorch({placement})"][direction], float(theirs))

    def test_ragged_rows_fill_no_whole_lines(self):
        ragged = [slices.is_ragged(Measured({"dtype": "bytes", "dim": dim})) for dim in (16, 32, 64, 128, 160, 260, 656, 1152)]
        self.assertEqual(ragged, [False, False, False, False, True, True, True, False])

    def test_a_slice_differs_in_one_thing_only(self):
        machine = Machine("one")
        machine.add("kernels-1.json", reports.read(RESULTS / "kernels-1.json"))
        found = slices.slices([machine], "batch", ("rows",), fewest=3)
        self.assertTrue(found)
        for one in found:
            for name in ("row_bytes", "cores", "index_dtype", "dtype", "cache", "callers", "isa"):
                self.assertEqual(len({getattr(case, name) for case in one.cases}), 1, name)


@unittest.skipUnless(is_there(), MISSING)
class ChartsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="charts test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, report):
        path = self.folder / name
        path.write_text(json.dumps(report))
        return path

    def page(self, *reports, options=(), left_out=None):
        paths = [self.write(f"r{number}.json", report) for number, report in enumerate(reports)]
        done = charts(*paths, *options, "-o", self.folder / "page.html", validates=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        if left_out is not None:
            self.assertEqual(done.stderr.count("left out"), left_out, done.stderr)
        return (self.folder / "page.html").read_text()

    def refused(self, *arguments, texts=()):
        done = charts(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertLessEqual(len(done.stderr.splitlines()), 3, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_mistakes_are_named(self):
        good = self.write("good.json", small(committed(), "hugepage"))
        bad = self.write("bad.json", {"cases": []})
        empty = self.write("empty.json", {**committed(), "cases": []})
        page = self.folder / "page.html"
        self.refused(good, texts=["-o FILE", "--svg DIR"])
        self.refused(bad, "-o", page, texts=["bad.json", "it has no schema_version"])
        self.refused(self.folder / "none.json", "-o", page, texts=["none.json", "No such file"])
        self.refused(good, good, "-o", page, texts=["the same report as"])
        self.refused(empty, "-o", page, texts=["empty.json", "nothing to draw"])
        self.refused(good, "--png", self.folder, "--only", "pie", texts=["pie", "row-width"])
        self.refused(good, "-o", self.folder, texts=["cannot be written"])
        self.refused("--colour", texts=["--help"])
        twice = small(committed(), "hugepage")
        self.refused(self.write("twice.json", {**twice, "cases": twice["cases"] * 2}), "-o", page,
                     texts=["cases[10] is the same case as cases[0]"])
        self.assertFalse(page.exists())

    def test_a_page_keeps_its_mode_and_a_link_stays(self):
        page, link = self.folder / "page.html", self.folder / "link.html"
        page.write_text("old")
        page.chmod(0o640)
        link.symlink_to(page)
        done = charts(self.write("r.json", small(committed(), "hugepage")), "-o", link)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<html", page.read_text(encoding="utf-8"))
        self.assertTrue(link.is_symlink())
        self.assertEqual(stat.S_IMODE(page.stat().st_mode), 0o640)

    def test_the_page_has_the_numbers_of_the_report(self):
        report = small(committed(), "hugepage", "libtorch")
        page = self.page(report, left_out=7)
        rows = rows_of(page, "Where the table lives, and who moves its rows")
        self.assertEqual(len(rows), len(report["cases"]))
        for case in report["cases"]:
            row, = (row for row in rows if row[:3] == [case["direction"], case["method"], case["placement"]])
            self.assertAlmostEqual(float(row[3].removesuffix(" ms")), 1e3 * case["median_s"],
                                   delta=6 * case["median_s"])
            self.assertAlmostEqual(float(row[5]), case["gb_per_s"], delta=0.006 * case["gb_per_s"])
            self.assertEqual(row[8], f"{case['verified_rows']:,}")
        self.assertIn(f"<h1>{MACHINE}</h1>", page)

    def test_the_conclusion_is_the_reports_own(self):
        older = {key: value for key, value in small(committed(), "hugepage").items() if key != "conclusion"}
        report = {**older, "conclusion": ["Keep it <here>.", "It gains 1.2×."]}
        page = self.page(report)
        self.assertIn('<p class="conclusion">Keep it &lt;here&gt;.</p>\n<p class="conclusion">It gains 1.2×.</p>', page)
        self.assertNotIn("written before", page)
        other = {**report, "started_at": "2026-11-22T00:00:00Z", "conclusion": ["Keep it there."]}
        page = self.page(report, other, other_machine(older))  # two processes of one machine: each concludes by itself
        for text in ("A: r0.json: Keep it &lt;here&gt;.", "A: r1.json: Keep it there.", "r2.json: written before reports held"):
            self.assertIn(text, page)
        nothing = self.page({**report, "conclusion": []})
        self.assertNotIn('class="conclusion"', nothing)
        self.assertNotIn("written before", nothing)

    def test_processes_of_one_machine_are_put_together(self):
        one = small(committed(), "hugepage")
        others = [other_machine(one, one["environment"]["cpu"]["model"], factor) for factor in (1.5, 2.0)]
        for number, other in enumerate(others):
            other["started_at"] = f"2026-11-2{number}T00:00:00Z"
        page = self.page(one, *others)
        ours = next(case for case in one["cases"] if case["method"] == "speedtorch" and case["direction"] == "to")
        middle = statistics.median(factor * ours["median_s"] for factor in (1, 1.5, 2))
        row = rows_of(page, "Where the table lives, and who moves its rows")[0]
        self.assertEqual(row[3], words.span(middle))
        self.assertEqual(row[4], f"±{100 * 0.5 / 1.5:.1f} %")
        self.assertNotIn("speedtorch A", page)
        self.assertIn("speedtorch C", self.page(one, *others, options=["--each"]))

    def test_reports_of_two_machines_are_overlaid(self):
        one = small(committed(), "hugepage")
        page = self.page(one, other_machine(one))
        for text in ("speedtorch A", "speedtorch B", f"A: {MACHINE}", "B: Made-up 9000", "index_select B"):
            self.assertIn(text, page)

    def test_another_build_is_not_the_same_machine(self):
        one = small(committed(), "hugepage")
        other = copy.deepcopy(one)
        other["environment"]["build"]["git_revision"] = "0" * 40
        self.assertIn("speedtorch B", self.page(one, other))

    def test_memory_is_drawn_beside_the_published_figures(self):
        page = self.page(memory_report(), left_out=9)
        for text in ("4.96 GiB", "1.600×", "Cupy PinnedCPU", "9.93 GiB", "device memory"):
            self.assertIn(text, page)
        rows = rows_of(page, "What a table costs in memory")
        self.assertEqual(len(rows), 5)
        self.assertIn("4.77 GiB", rows[0])

    def test_figures_of_a_gpu_need_a_gpu_or_the_option(self):
        cpu, memory = self.write("cpu.json", small(committed(), "hugepage")), memory_report()
        memory["cases"] = [case for case in memory["cases"] if case["device"] == "cpu"]
        self.assertNotIn("Cupy PinnedCPU", self.page(memory))
        self.assertIn("Cupy PinnedCPU", self.page(memory, options=["--published"]))
        for options in ([], ["--published"]):
            done = charts(cpu, "--svg", self.folder, "--only", "published", *options)
            self.assertEqual((done.returncode, (self.folder / "published.svg").exists()), (0, bool(options)), done.stderr)

    def test_ratios_are_those_of_the_rounds(self):
        report = small(committed(), "hugepage", "libtorch")
        rows = rows_of(self.page(report), "Against LibTorch's best, round by round")
        self.assertEqual([row[:4] for row in rows], [[direction, placement, "speedtorch", "r0.json"]
                                                     for direction in ("to", "from") for placement in ("libtorch", "hugepage")])
        for direction, placement, _, _, rounds, middle, least, most in rows:
            cell = {case["method"]: case for case in report["cases"]
                    if (case["direction"], case["placement"]) == (direction, placement)}
            best = min((cell["index_select"], cell["advanced"]), key=lambda case: case["median_s"])
            ratios = [b / a for a, b in zip(cell["speedtorch"]["samples_s"], best["samples_s"])]
            self.assertEqual(int(rounds), len(ratios))
            self.assertEqual([middle, least, most], [f"{words.significant(value)}×" for value in (
                statistics.median(ratios), min(ratios), max(ratios))])

    def test_ratios_of_other_rounds_are_none_and_doubtful_ones_marked(self):
        report = small(committed(), "hugepage")
        for case in report["cases"]:
            case["status"] = "unstable" if case["method"] == "speedtorch" and case["direction"] == "to" else "ok"
            if case["direction"] == "from":
                case["group"] = 1000 if case["method"] == "speedtorch" else 1001
        rows = rows_of(self.page(report), "Against LibTorch's best, round by round")
        self.assertEqual([row[0] for row in rows], ["to"])
        self.assertTrue(rows[0][5].startswith("~"))

    def test_the_latency_is_a_distribution(self):
        report = small(committed(), "hugepage")
        self.assertNotIn('id="latency-distribution"', self.page(report))
        for case in report["cases"]:
            case["batch"], scale = 64, 2 if case["method"] == "advanced" else 1
            if case["method"] not in ("copy", "stream"):
                case["latency_curve"] = f"0:{scale}e-06 0.5:{2 * scale}e-06 0.9:{3 * scale}e-06 0.99:{scale}e-05 1:{scale}e-04"
        page = self.page(report)
        rows = rows_of(page, "Latency as a distribution")
        self.assertEqual(len(rows), 6)
        for row in rows:
            slow, fast = (("2.00 µs", "4.00 µs", "6.00 µs", "20.0 µs", "200 µs", "200 µs"),
                          ("1.00 µs", "2.00 µs", "3.00 µs", "10.0 µs", "100 µs", "100 µs"))
            self.assertEqual(tuple(row[4:]), slow if row[2] == "advanced" else fast, row)
        self.assertIn("99 % of the calls within 20.0 µs", page)

    def test_doubts_are_shown(self):
        report = small(committed(), "hugepage")
        report["cases"][0].update(status="unstable", reason="too wide by far")
        report["cases"].append({**report["cases"][1], "status": "waived", "method": "staged", "reason": "no GPU here",
                                "median_s": None, "samples_s": []})
        report["cases"].append({**report["cases"][1], "status": "wrong", "method": "magic", "reason": "rows differ",
                                "median_s": None, "samples_s": []})
        report.update(warnings=["the machine was warm"], interrupted=True)
        page = self.page(report)
        for text in ("too wide by far", "no GPU here", "rows differ", "1 wrong", "the machine was warm",
                     "the run was interrupted", "~", "Charts left out", "no report is of the memory suite"):
            self.assertIn(text, page)

    def test_pictures_are_drawn_and_hold_nothing_else(self):
        report = self.write("r.json", small(committed(), "hugepage"))
        done = charts(report, "--svg", self.folder / "s", "--png", self.folder / "p", "--only", "placements")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in (self.folder / "s").iterdir()], ["placements.svg"])
        root = ElementTree.parse(self.folder / "s/placements.svg").getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        texts = {line: element for element in root.iter("{http://www.w3.org/2000/svg}text") for line in element.itertext()}
        revision = committed()["environment"]["build"]["git_revision"]
        self.assertIn(f"{MACHINE} · stbench 0.1.0 {revision[:12]}", texts)  # the picture stands alone
        for tick in ("0", "5", "10", "15", "20"):
            self.assertEqual(texts[tick].get("text-anchor"), "middle", tick)  # below its line
        self.assertIn("speedtorch", texts)
        png = (self.folder / "p/placements.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", png[16:24])
        self.assertTrue(800 < width < 2000 and 200 < height < 2000, (width, height))

    def svg(self, report, name):
        """The source of that figure."""
        done = charts(self.write("r.json", report), "--svg", self.folder / "svg", "--only", name, validates=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "svg" / f"{name}.svg").read_text()

    def test_an_unstable_ceiling_is_dashed_and_its_interval_a_band(self):
        report = small(committed(), "hugepage")
        band = f'fill="{theme.CEILING}" opacity="{theme.BAND}"'
        steady = self.svg(report, "placements")
        self.assertEqual(('stroke-dasharray="3,2"' in steady, band in steady), (False, True))
        for case in report["cases"]:
            if case["method"] in ("copy", "stream"):
                case.update(status="unstable", reason="wide", ci_low_s=None, ci_high_s=None)
        doubtful = self.svg(report, "placements")
        self.assertEqual(('stroke-dasharray="3,2"' in doubtful, band in doubtful), (True, False))

    def test_row_widths_are_on_logarithmic_axes_ragged_ones_apart_and_the_ceiling_a_band(self):
        drawing = self.svg(committed("kernels-1"), "row-width")
        for text in (">speedtorch<", ">speedtorch ragged<", ">index_select ragged<", ">0.5<", ">1<", ">50<"):
            self.assertTrue(text in drawing, text)
        self.assertEqual(drawing.count('class="mark-area'), 4)  # one per panel

    def test_the_committed_charts_are_of_the_committed_reports(self):
        made = [self.folder / "charts.html", *(self.folder / "charts" / path.name
                                               for path in (RESULTS / "charts").iterdir())]
        self.assertGreater(len(made), 1)
        names = ",".join(path.stem for path in made[1:])
        done = charts(*sorted(RESULTS.glob("kernels-*.json")), RESULTS / "transfer.json", "-o", made[0],
                      "--png", made[1].parent, "--only", names)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in made:
            old = RESULTS / path.relative_to(self.folder)
            self.assertTrue(old.read_bytes() == path.read_bytes(),
                            f"{old.relative_to(ROOT)} is not of these reports; docs/charts.md says how to draw it anew")
            if path.suffix == ".png":
                self.assertLess(path.stat().st_size, 200_000)
        page = made[0].read_text()
        distributions = re.search(r'<section id="latency-distribution".*?</section>', page, re.DOTALL)[0]
        self.assertLess(len(page.encode()) - len(distributions.encode()), 2_000_000)
        self.assertLess(len(distributions.encode()), 1_200_000)  # its points are the heaviest part of a page


if __name__ == "__main__":
    unittest.main()
