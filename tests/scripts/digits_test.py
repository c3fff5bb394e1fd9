"""examples/digits: batches beyond the cap reach the accuracy of the uncapped run, on scikit-learn's digits and from
files of MNIST's format; docs/infinitybatch.md shows the example that is built."""

import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(folder, epochs):
    ran = subprocess.run([os.environ["STBENCH_DIGITS"], folder, str(epochs)], capture_output=True, text=True, timeout=300)
    return ran.returncode, ran.stdout, ran.stderr


def accuracies(text):
    found = re.search(r"accuracy ([\d.]+), ([\d.]+) MB at most; without the cap: ([\d.]+)", text)
    return [float(number) for number in found.groups()]


def idx(values, sizes):
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes) + bytes(values)


class Digits(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("sklearn"), "scikit-learn is not installed")
    def test_real_digits_beyond_the_cap_are_learnt_as_without_it(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "examples/digits/export.py", folder], check=True)
            status, text, error = run(folder, 30)
        self.assertEqual((status, error), (0, ""))
        self.assertIn("plain batch: out of memory", text)
        capped, megabytes, uncapped = accuracies(text)
        self.assertGreater(uncapped, 0.9)
        self.assertLessEqual(abs(capped - uncapped), 0.015)
        self.assertLessEqual(megabytes, 4.2)

    def test_files_of_mnists_format_are_read(self):
        """Two patterns of 28x28, with noise."""
        with tempfile.TemporaryDirectory() as folder:
            classes = [i % 2 for i in range(400)]
            images = [
                (200 if (row < 14) == (kind == 0) else 20) + (i * 7 + row * 3 + column) % 30
                for i, kind in enumerate(classes) for row in range(28) for column in range(28)
            ]
            Path(folder, "train-images-idx3-ubyte").write_bytes(idx(images, (400, 28, 28)))
            Path(folder, "train-labels-idx1-ubyte").write_bytes(idx(classes, (400,)))
            status, text, error = run(folder, 4)
        self.assertEqual((status, error), (0, ""))
        self.assertIn("320 digits", text)
        self.assertGreater(accuracies(text)[0], 0.95)

    def test_a_folder_without_digits_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            status, _, error = run(folder, 1)
        self.assertEqual(status, 2)
        self.assertIn("images.npy", error)

    def test_the_document_shows_the_example_that_is_built(self):
        text = (ROOT / "docs/infinitybatch.md").read_text()
        self.assertIn("```cpp\n" + (ROOT / "examples/infinity_batch.cpp").read_text() + "```\n", text)


if __name__ == "__main__":
    unittest.main()
