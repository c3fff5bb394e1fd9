"""tests/data/emulated_gpu_faults.json: each fault of scripts/emulated-faults can still be planted."""

import collections
import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = json.loads((ROOT / "tests/data/emulated_gpu_faults.json").read_text())


class FaultsTest(unittest.TestCase):
    def test_each_text_is_once_in_its_file(self):
        for fault in FAULTS:
            with self.subTest(fault=fault["name"]):
                self.assertEqual((ROOT / fault["file"]).read_text().count(fault["old"]), 1)
                self.assertNotEqual(fault["old"], fault["new"])

    def test_each_kind_has_three_or_more(self):
        kinds = collections.Counter(fault["kind"] for fault in FAULTS)
        self.assertEqual((len(kinds), min(kinds.values()) >= 3, len(FAULTS) >= 30), (10, True, True), kinds)

    def test_the_table_has_their_numbers(self):
        kinds = {}
        for fault in FAULTS:
            counted = kinds.setdefault(fault["kind"], [0, 0, 0])
            for k, one in enumerate((True, fault["found_first"], fault["found_by"])):
                counted[k] += bool(one)
        readme = (ROOT / "tests/emulated_gpu/README.md").read_text()
        table = re.findall(r"^\| ([a-z -]+) \| (\d+) \| (\d+) \| (\d+) \|$", readme, re.MULTILINE)
        self.assertEqual({kind: [int(n) for n in numbers] for kind, *numbers in table}, kinds)

    def test_each_is_found_or_its_miss_is_explained(self):
        for fault in FAULTS:
            with self.subTest(fault=fault["name"]):
                self.assertNotEqual(bool(fault["found_by"]), bool(fault.get("missed")))


if __name__ == "__main__":
    unittest.main()
