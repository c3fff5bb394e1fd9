"""The documentation: each link of each Markdown file leads to a file and a heading, and scripts/docs makes a site of static
files whose every link works from disk, with all public headers, a search, and a light and a dark look."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from browser import Browser, find

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib/docs"))
import cpp_reference  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import python_reference  # noqa: E402

SCRIPT = ROOT / "scripts/docs"
NO_SITE = "mkdocs-material is not installed (scripts/setup --tests brings it)"
NO_BROWSER = "no Chromium on this machine (Debian: chromium-headless-shell or chromium)"
NO_DOXYGEN = "no doxygen on this machine (Debian: doxygen)"
FOLDERS = ("", "docs", "benchmarks", "cmake", "examples", "harness", "python", "reports", "results", "scripts", "speedtorch", "tests")


def markdown_files():
    return sorted({file for folder in FOLDERS for file in (ROOT / folder).glob("**/*.md" if folder else "*.md")})


def anchors(text):
    """The anchors of a Markdown file's headings, as GitHub names them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(next(name for name in (slug, *(f"{slug}-{i}" for i in range(1, 99))) if name not in found))
    return found


def installed_headers():
    return [file for file in sorted((ROOT / "speedtorch").rglob("*.h")) if not file.name.endswith("-inl.h")]


@functools.cache
def site_python():
    return subprocess.run([SCRIPT, "--find-python"], capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def build(folder, **environment):
    return subprocess.run([SCRIPT, "-o", folder], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})


class MarkdownTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="docs test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_links_lead_to_files_and_headings(self):
        for file in markdown_files():
            text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if "://" in link:
                    continue
                path, _, anchor = link.partition("#")
                target = file.parent / path if path else file
                with self.subTest(page=str(file.relative_to(ROOT)), link=link):
                    self.assertTrue(target.exists())
                    self.assertTrue(not anchor or anchor in anchors(target.read_text()), "no such heading")

    def test_each_page_is_in_the_navigation_once(self):
        text = (ROOT / "scripts/lib/docs/mkdocs.yml").read_text()
        shown = re.findall(r"^ +- (\S+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)
        there = [pages.page_of(name) for name in pages.documents()]
        self.assertEqual(sorted(shown), sorted([*there, "tests/emulated_gpu/README.md"]))

    def test_links_are_changed_for_the_site_and_code_is_not(self):
        text = ("[a](../README.md#install) [b](ci.md) [c](../speedtorch/error.h) [d](../examples/gather_rows.cpp) [e](https://x.org/y)\n"
                "[f](../results) [g](#here)\n```text\n[h](../README.md)\n```\n")
        headers = {"speedtorch/error.h": "cpp/speedtorch.md#error-h"}
        self.assertEqual(pages.rewritten("docs/a.md", text, headers),
                         "[a](index.md#install) [b](ci.md) [c](cpp/speedtorch.md#error-h) [d](source/examples/gather_rows.cpp.md) "
                         "[e](https://x.org/y)\n[f](source/results/index.md) [g](#here)\n```text\n[h](../README.md)\n```\n")
        self.assertIn("[c](../../source/speedtorch/error.h.md)",
                      pages.rewritten("tests/emulated_gpu/README.md", "[c](../../speedtorch/error.h)", {}))
        with self.assertRaisesRegex(pages.BrokenLink, r"docs/a\.md links to \.\./none\.h, which does not exist"):
            pages.targets("docs/a.md", "[x](../none.h)")

    def test_the_same_in_both_languages_becomes_tabs(self):
        cpp, python = "```cpp\nint a;\n\nint b;\n```\n", "<!-- test: run -->\n```python\na = 1\n```\n"
        for between in ("", "\n"):
            self.assertEqual(pages.with_tabs(f"before\n\n{cpp}{between}{python}after\n"),
                             'before\n\n=== "C++"\n\n    ```cpp\n    int a;\n\n    int b;\n    ```\n\n'
                             '=== "Python"\n\n    ```python\n    a = 1\n    ```\nafter\n')
        for text in (f"{cpp}\nwords\n\n{python}", f"{python}\n{cpp}", cpp):
            self.assertEqual(pages.with_tabs(text), text)

    def test_a_link_that_leads_nowhere_is_found(self):
        (self.folder / "sub").mkdir()
        (self.folder / "sub/b.html").write_text("<h2 id='there'>B</h2><a href='../a.html'>a</a><a href='#there'>b</a>")
        for link, why in (("sub/b.html#there", ""), ("https://example.org/", ""), ("sub/b.html#gone", "no such anchor"), ("#gone", "no such anchor"),
                          ("gone.html", "no such file"), ("sub/", "no such file"), ("/a.html", "does not work from disk"), ("../a.html", "leaves the site")):
            (self.folder / "a.html").write_text(f"<a href='{link}'>x</a>")
            self.assertEqual([found[1:] for found in links.faults(self.folder)], [(link, why)] if why else [])
        for tag in ("<script src='https://example.org/x.js'>", "<link href='//example.org/x.css'>"):
            (self.folder / "a.html").write_text(tag)
            self.assertEqual([why for _, _, why in links.faults(self.folder)], ["is loaded from elsewhere"])

    def test_python_pages_follow_the_packages(self):
        self.assertEqual(python_reference.make(self.folder / "none"), {})
        for name, text in (("a/__init__.py", '"""A."""\nfrom a.inner import f\nfrom a import nn\nif TYPE_CHECKING:\n    from a.late import g\n'
                            '__all__ = ["f", "g", "nn"]\n'), ("a/late.py", '"""L."""\ndef g(): pass\n'),
                           ("a/inner.py", '"""I."""\ndef f(): pass\ndef helper(): pass\n'), ("a/nn.py", '"""N."""\nclass E: pass\n'),
                           ("a/_own.py", '"""O."""\ndef g(): pass\n'), ("a/deep/__init__.py", '"""D."""\ndef h(): pass\n'),
                           ("native/x.py", "")):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        found = python_reference.make(self.folder)
        self.assertEqual(list(found), ["python/a.md", "python/a.deep.md", "python/a.nn.md"])
        self.assertEqual(found["python/a.md"], "# a\n\nA.\n\n::: a.f\n\n::: a.g\n\n")

    def test_a_folder_with_other_files_is_not_emptied(self):
        if not site_python():
            self.skipTest(NO_SITE)
        (self.folder / "mine.txt").write_text("mine")
        done = build(self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"-o {self.folder}: it exists and is no site that scripts/docs made", done.stderr)
        self.assertEqual((self.folder / "mine.txt").read_text(), "mine")


@unittest.skipUnless(shutil.which("doxygen"), NO_DOXYGEN)
class ReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = cpp_reference.make(shutil.which("doxygen"))

    def test_each_installed_header_and_class_has_a_place(self):
        names = [str(file.relative_to(ROOT)) for file in installed_headers()]
        self.assertEqual(sorted(self.reference.headers), sorted(names))
        classes = 0
        for name in names:
            page, _, anchor = self.reference.headers[name].partition("#")
            text = self.reference.pages[page]
            self.assertIn(f"{{ #{anchor} }}", text)
            for found in re.findall(r"^(?:class|struct)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :.*)? \{", (ROOT / name).read_text(), re.MULTILINE):
                self.assertRegex(text, rf"\n### `[\w:]*{found}` \{{", name)
                classes += 1
        self.assertGreater(classes, 150)

    def test_an_entry_shows_declaration_text_and_links(self):
        text = self.reference.pages["cpp/speedtorch/rows.md"]
        entry = text[text.index("## gather.h {") : text.index("## gpu_rows.h {")]
        self.assertIn("at::Tensor gather_rows(const at::Tensor& table, const RowIndex& index);\n", entry)
        self.assertIn("Returns table\\[index\\] as a new tensor on the table's device: \\[I..., R...\\]", entry)
        self.assertRegex(entry, r"\*\*Throws\*\* as there; \[ShapeError\]\(kernels\.md#ShapeError\), \[IndexError\]\(\S+\) as \[RowIndex\]\(#RowIndex\)")
        self.assertIn("([speedtorch/rows/rows.h](#rows-h))", entry)
        self.assertNotIn("memory\\_;", self.reference.pages["cpp/speedtorch/tables.md"])  # a private member


@unittest.skipUnless(site_python(), NO_SITE)
class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="docs site "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        done = build(cls.folder)
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.messages = done.stderr

    def test_no_link_leads_nowhere_and_nothing_is_loaded_from_elsewhere(self):
        built = {str(file.relative_to(self.folder)) for file in self.folder.rglob("*.html")}
        for page in pages.documents():
            self.assertIn(pages.page_of(page).removesuffix(".md") + ".html", built)
        self.assertEqual([f"{page}: {link}: {why}" for page, link, why in links.faults(self.folder)][:20], [])

    def test_what_is_left_out_is_named(self):
        for name, is_there, what in (("cpp", shutil.which("doxygen"), "no C++ reference: doxygen is missing (Debian: apt-get install doxygen)"),
                                     ("python", True, "no Python reference")):
            self.assertEqual((self.folder / name).is_dir(), bool(is_there))
            self.assertEqual(f"the site has {what}" in self.messages, not is_there)

    def test_the_python_reference_has_what_the_package_exports(self):
        package = ROOT / "python/speedtorch/__init__.py"
        text = (self.folder / "python/speedtorch.html").read_text()
        for name in re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", package.read_text(), re.DOTALL)[1]):
            has_page = (self.folder / f"python/speedtorch.{name}.html").exists()
            self.assertTrue(has_page or f'id="speedtorch.{name}"' in text, name)
        optimizers = (self.folder / "python/speedtorch.optim.html").read_text()
        for name in re.findall(r"^class ([A-Z]\w+)\(", (ROOT / "python/speedtorch/optim.pyi").read_text(), re.MULTILINE):
            self.assertIn(f'id="speedtorch.optim.{name}.step"', optimizers)
        self.assertIn('<a href="../cold-reads.html">docs/cold-reads.md</a>', (self.folder / "python/speedtorch.html").read_text())

    def test_snippets_in_two_languages_are_tabs(self):
        for page in ("library", "placements", "files", "contiguous", "optimizers", "updates", "infinitybatch"):
            text = (self.folder / f"{page}.html").read_text()
            self.assertRegex(text, r">C\+\+</label><label [^>]*>Python</label>", page)

    @unittest.skipUnless(find(), NO_BROWSER)
    def test_it_works_from_disk(self):
        with Browser() as browser:
            backgrounds = []
            for dark in (False, True):
                browser.show(dark=dark)
                browser.open(self.folder / "index.html")
                self.assertEqual([one for one in browser.requests() if not one.startswith(("file:", "data:"))], [])
                self.assertEqual(browser.complaints(), [])
                backgrounds.append(browser.value("getComputedStyle(document.body).backgroundColor"))
            self.assertNotEqual(*backgrounds)
            found = self.searched(browser, "OptimizerFactory")
            self.assertTrue(any("/optimizers.html" in one for one in found), found)
            self.assertEqual(browser.complaints(), [])

    def searched(self, browser, words):
        """The addresses that the search finds."""
        browser.value("document.querySelector('[data-md-component=search-query]').focus()")
        browser.value(f"""(() => {{ const field = document.querySelector('[data-md-component=search-query]');
            field.value = '{words}'; field.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}})); }})()""")
        until = time.monotonic() + 30
        found = []
        while not found and time.monotonic() < until:
            time.sleep(0.1)
            found = browser.value("[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)")
        return found

    def test_a_site_without_doxygen_has_sources_instead(self):
        with tempfile.TemporaryDirectory() as scratch:
            tools, folder = Path(scratch, "bin"), Path(scratch, "site")
            tools.mkdir()
            for path in os.environ["PATH"].split(os.pathsep):
                for tool in Path(path).glob("*") if Path(path).is_dir() else ():
                    if tool.name != "doxygen" and not (tools / tool.name).exists():
                        (tools / tool.name).symlink_to(tool)
            done = build(folder, PATH=str(tools))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the site has no C++ reference: doxygen is missing (Debian: apt-get install doxygen)", done.stderr)
            self.assertFalse((folder / "cpp").exists())
            self.assertIn("source/speedtorch/tables/table.h.html", (folder / "placements.html").read_text())
            self.assertEqual(links.faults(folder)[:20], [])


if __name__ == "__main__":
    unittest.main()
