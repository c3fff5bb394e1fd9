"""CITATION.cff: the keys of the Citation File Format, and the project's own version and licence."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of the format's version 1.2.0: what a file must have, and what else it may have.
REQUIRED = {"cff-version", "message", "title", "authors"}
OPTIONAL = {"abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license", "license-url",
            "preferred-citation", "references", "repository", "repository-artifact", "repository-code", "type", "url",
            "version"}


class CitationTest(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        self.values = dict(re.findall(r"^([\w-]+):[ ]*(.*)$", self.text, re.MULTILINE))

    def test_has_the_keys_of_the_format(self):
        keys = re.findall(r"^([\w-]+):", self.text, re.MULTILINE)
        self.assertEqual(len(keys), len(set(keys)))
        self.assertLessEqual(REQUIRED, set(keys))
        self.assertLessEqual(set(keys), REQUIRED | OPTIONAL)
        self.assertEqual(self.values["cff-version"], "1.2.0")
        self.assertIn(self.values["type"], ("software", "dataset"))
        self.assertRegex(self.text, r"\nauthors:\n  - name: \S")
        for line in self.text.splitlines():  # each line is a key, an item, or goes on with a text
            self.assertRegex(line, r"^([\w-]+:|  - |  \S)")

    def test_is_this_project(self):
        project = re.search(r"project\(stbench\s+VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(self.values["version"], project[1])
        self.assertIn(f"{self.values['license']} License", (ROOT / "LICENSE").read_text(encoding="utf-8"))

    def test_is_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no PyYAML in this Python; the keys are looked at all the same")
        self.assertEqual(set(yaml.safe_load(self.text)), set(self.values))


if __name__ == "__main__":
    unittest.main()
