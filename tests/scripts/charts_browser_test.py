"""A page of scripts/charts in a headless Chromium: nothing is fetched, nothing complains, every chart is drawn with its
labels inside, light and dark differ, marks say what they are, and no text of a report runs."""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

from browser import Browser, find
from charts_program import MISSING, RESULTS, charts, committed, is_there, memory_report, other_machine, small

NO_BROWSER = "no Chromium on this machine (Debian: chromium-headless-shell or chromium)"
PAGE = RESULTS / "charts.html"

# [chart, text] of each label that stands out of its panel, and how many labels and marks each chart has.
LOOK = """
(() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const charts = [...document.querySelectorAll("svg.chart")];
  return charts.map((chart) => {
    const panel = chart.closest(".panel").getBoundingClientRect();
    const labels = [...chart.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const outside = labels.filter((text) => {
      const box = text.getBoundingClientRect();
      return box.width === 0 || box.left < panel.left || box.right > panel.right || box.top < panel.top ||
        box.bottom > panel.bottom;
    });
    const marks = [...chart.querySelectorAll(".role-mark > [aria-label]")].filter((mark) => {
      const box = mark.getBoundingClientRect();
      return box.left >= panel.left - 1 && box.right <= panel.right + 1;
    });
    return {alt: chart.getAttribute("aria-label"), labels: labels.length, marks: marks.length,
            all: chart.querySelectorAll(".role-mark > [aria-label]").length,
            outside: outside.map((text) => text.textContent)};
  });
})()
"""
COLOURS = """
[...document.querySelectorAll("svg.chart [fill], svg.chart [stroke]")].flatMap((one) =>
  ["fill", "stroke"].filter((name) => one.hasAttribute(name)).map((name) => [one.getAttribute(name),
    getComputedStyle(one)[name]]))
"""
HOSTILE = ("<script>window.ran=1</script>", "</script><script>window.ran=2</script>",
           "</style><img src=x onerror=ran=3>", "\" onmouseover=\"window.ran=4\" x=\"", "' autofocus onfocus=window.ran=5 '", "javascript:window.ran=6",
           "datum['x']; window.ran=7", "${window.ran=8}", "{{constructor.constructor('window.ran=9')()}}",
           "a.b[0]\\['c']", "]]><svg onload=window.ran=10>", "<a href=\"https://example.com/x\">y</a>",
           "url(https://example.com/x.png)", "&lt;b&gt;&#x3c;", "{\"signal\": \"window.ran=11\"}", "=HYPERLINK(\"x\")",
           "\u202egnp.\u0000\u001b[31m\ud800")


@unittest.skipUnless(find(), NO_BROWSER)
class BrowserTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="charts test "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.browser = self.enterContext(Browser()) if hasattr(self, "enterContext") else self.entered(Browser())

    def entered(self, manager):
        self.addCleanup(manager.__exit__, None, None, None)
        return manager.__enter__()

    def drawn(self, reports):
        """A page of these reports, {name: report}."""
        for name, report in reports.items():
            (self.folder / name).write_text(json.dumps(report))
        done = charts(*(self.folder / name for name in reports), "-o", self.folder / "page.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "page.html"

    def assert_whole(self, least):
        """Every chart is drawn, its labels inside its panel; nothing was fetched, nothing complained."""
        found = self.browser.value(LOOK)
        self.assertGreaterEqual(len(found), least)
        for chart in found:
            self.assertTrue(chart["alt"].endswith("."), chart)
            self.assertGreater(chart["labels"], 3, chart["alt"])
            self.assertGreater(chart["marks"], 1, chart["alt"])
            self.assertEqual(chart["marks"], chart["all"], chart["alt"])
            self.assertEqual(chart["outside"], [], chart["alt"])
        self.assert_quiet()

    def assert_quiet(self):
        self.assertEqual(self.browser.requests(), [])
        self.assertEqual(self.browser.complaints(), [])

    def test_the_committed_page_is_whole_wide_and_narrow_in_light_and_dark(self):
        for width, dark in ((1600, False), (1280, True), (800, False), (390, True), (320, False)):
            with self.subTest(width=width, dark=dark):
                self.browser.show(width, 900, dark)
                self.browser.open(PAGE)
                self.assert_whole(30)
                self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)

    def test_every_colour_of_a_chart_changes_with_the_theme(self):
        seen = {}
        for dark in (False, True):
            self.browser.show(dark=dark)
            self.browser.open(PAGE)
            seen[dark] = dict(self.browser.value(COLOURS))
        self.assertGreater(len(seen[False]), 6)
        for colour, light in seen[False].items():
            if colour not in ("none", "transparent"):
                self.assertNotEqual(light, seen[True][colour], colour)

    def test_the_button_changes_the_theme(self):
        self.browser.show(dark=False)
        self.browser.open(PAGE)
        paper = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
        light = self.browser.value(paper)
        self.assertEqual(self.browser.value("document.getElementById('theme').textContent"), "Dark")
        self.browser.value("document.getElementById('theme').click()")
        self.assertNotEqual(self.browser.value(paper), light)
        self.browser.value("document.getElementById('theme').click()")
        self.assertEqual(self.browser.value(paper), light)
        self.assert_quiet()

    def test_paper_is_light_also_for_who_likes_dark(self):
        self.browser.show(dark=False)
        self.browser.open(PAGE)
        paper = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
        light = self.browser.value(paper)
        self.browser.show(dark=True, media="print")
        self.assertEqual(self.browser.value(paper), light)

    def test_a_mark_says_what_it_is(self):
        self.browser.show()
        self.browser.open(PAGE)
        where = self.browser.value("""(() => {
          const mark = document.querySelectorAll("#placements .role-mark > [aria-label]")[0];
          mark.scrollIntoView({block: "center"});
          const box = mark.getBoundingClientRect();
          return {x: box.left + box.width / 2, y: box.top + box.height / 2, text: mark.getAttribute("aria-label")};
        })()""")
        self.browser.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        self.browser.move(where["x"], where["y"])
        tip = "(() => { const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent; })()"
        self.assertEqual(self.browser.value(tip), where["text"])
        self.assertRegex(where["text"], r"^speedtorch in \w+: [\d.]+ GB/s \([\d.]+ ms\); 95 % interval")
        self.browser.move(3, 3)
        self.assertEqual(self.browser.value(tip), "")
        self.assert_quiet()

    @unittest.skipUnless(is_there(), MISSING)
    def test_overlaid_reports_and_memory_are_whole(self):
        one = small(committed(), "hugepage", "libtorch")
        for case in one["cases"]:
            case["latency_curve"] = "0:1e-06 0.5:2e-06 0.99:1e-05 1:0.0001"
        page = self.drawn({"one.json": one, "other.json": other_machine(one), "memory.json": memory_report()})
        for width in (1280, 390):
            self.browser.show(width, 900)
            self.browser.open(page)
            self.assert_whole(11)

    @unittest.skipUnless(is_there(), MISSING)
    def test_no_text_of_a_report_runs(self):
        self.browser.show()
        self.browser.open(self.drawn(hostile()))
        self.assert_whole(6)
        drawn = self.browser.value("[...document.querySelectorAll('svg.chart text')].map((one) => one.textContent)"
                                   ".join()")
        for hostile_text in (HOSTILE[0], HOSTILE[1], HOSTILE[9], HOSTILE[13], HOSTILE[14]):
            self.assertIn(hostile_text[:20], drawn)
        self.assertIsNone(self.browser.value("window.ran"))
        self.assertEqual(self.browser.value("document.scripts.length"), 1)
        self.assertEqual(self.browser.value("document.querySelectorAll('style').length"), 1)
        strange = "img, iframe, object, embed, form, input, base, link, foreignObject, use, image, animate, set"
        self.assertEqual(self.browser.value(f"document.querySelectorAll('{strange}').length"), 0)
        handlers = "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())" \
                   ".filter((name) => name.startsWith('on'))"
        self.assertEqual(self.browser.value(handlers), [])
        links = "[...document.querySelectorAll('[href]')].map((one) => one.getAttribute('href'))"
        self.assertTrue(all(link.startswith("#") for link in self.browser.value(links)))
        text = self.browser.value("document.body.textContent")
        for hostile_text in HOSTILE[:-1]:
            self.assertIn(hostile_text[:30], text)

    def test_the_policy_stops_what_would_run_all_the_same(self):
        """The test before would not notice a page that lets scripts in as long as none gets in: here one does."""
        page = self.folder / "page.html"
        planted = "<script>window.ran=1</script><img src='https://example.com/x'><p onclick='window.ran=2'>x</p></main>"
        page.write_text(PAGE.read_text().replace("</main>", planted, 1))
        self.browser.open(page)
        self.browser.value("document.querySelector('p[onclick]').click()")
        self.assertIsNone(self.browser.value("window.ran"))
        self.assertGreaterEqual(len(self.browser.complaints()), 3)


def hostile():
    """Reports with a hostile text wherever there is one, {file name: report}."""
    texts = iter(HOSTILE * 40)
    report = small(committed(), "hugepage", "pageable")
    for case in report["cases"]:
        method, placement = case["method"], case["placement"]
        if method == "advanced":
            case["method"] = HOSTILE[0] if placement == "hugepage" else HOSTILE[9]
        if method == "index_select" and placement == "pageable":
            case.update(method=HOSTILE[13] if case["direction"] == "to" else HOSTILE[14])
        case.update(reason=next(texts), status="unstable", pages_got=next(texts))
        case["placement"] = HOSTILE[1] if placement == "pageable" else placement
        case["later"] = HOSTILE[4]
    waived = [{**report["cases"][0], "method": text, "status": "waived", "reason": text, "median_s": None,
               "samples_s": []} for text in HOSTILE]
    report["cases"] += waived
    report["axes"] = [*report["axes"], "later"]
    report.update(warnings=list(HOSTILE), conclusion=list(HOSTILE), argv=list(HOSTILE), program=HOSTILE[0], started_at=HOSTILE[1])
    report["environment"]["cpu"].update(model=HOSTILE[2], caches=list(HOSTILE), **{text: text for text in HOSTILE[:-1]})
    report["environment"][HOSTILE[3]] = {HOSTILE[4]: {HOSTILE[5]: [HOSTILE[6]]}}
    other = other_machine(report, HOSTILE[1])
    return {"<img src=x onerror=ran=12>.json": report, "b'\"&.json": other}


if __name__ == "__main__":
    unittest.main()
