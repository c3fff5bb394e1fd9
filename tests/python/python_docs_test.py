"""The Python examples of the documents run as they stand."""

import builtins
import importlib.util
import os
import re
import tempfile
import unittest
from pathlib import Path

import speedtorch
from speedtorch import errors, optim

ROOT = Path(__file__).resolve().parents[2]


class DocsTest(unittest.TestCase):
    def test_the_examples_run_in_order(self):
        pages = {page.name: re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
                 for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
        self.assertGreater(len(pages["python.md"]), 5)
        self.assertEqual(len(pages["README.md"]), 1)
        for name, blocks in pages.items():
            with tempfile.TemporaryDirectory() as folder, self.subTest(name):
                if any("from safetensors" in block for block in blocks) and not importlib.util.find_spec("safetensors"):
                    self.skipTest("safetensors is not installed")
                before = os.getcwd()
                os.chdir(folder)
                try:
                    names = {}
                    for block in blocks:
                        exec(compile(block, name, "exec"), names)
                finally:
                    os.chdir(before)

    def test_the_stubs_name_what_is_there(self):
        for module in (errors, optim):
            stub = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
            named = set(re.findall(r"^class (\w+)\(", stub, re.MULTILINE))
            self.assertEqual(named - {"_Fused"}, set(module.__all__))
        for name in speedtorch.__all__:
            self.assertTrue(hasattr(speedtorch, name), name)
        self.assertLessEqual({*speedtorch.__all__, "__version__", "compat"}, set(dir(speedtorch)))
        self.assertNotIn("torch", dir(speedtorch))

    def test_the_table_of_errors_is_right(self):
        text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`\w+Error`.*) \| `(\w+)` \|$", text, re.MULTILINE)
        told = {name: base for names, base in rows for name in re.findall(r"\w+", names)}
        self.assertEqual(set(told) | {"Error"}, set(errors.__all__))
        for name, base in told.items():
            self.assertTrue(issubclass(getattr(errors, name), errors.Error))
            self.assertTrue(issubclass(getattr(errors, name), getattr(builtins, base)), name)


if __name__ == "__main__":
    unittest.main()
