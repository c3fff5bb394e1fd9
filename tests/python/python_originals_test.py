"""speedtorch.compat beside the originals, which pip fetches if it has a network: the same names and parameters, and the same
training where the original is right. Without a network python_compat_test.py alone holds it to their published texts."""

import ast
import copy
import inspect
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import torch
from torch import nn

from speedtorch.compat import SpeedTorch, contiguous_params

# Nothing else is run than what was read.
ORIGINALS = """\
contiguous-params==1.0.0 --hash=sha256:b1d2b684ace8ecddf81357d1f0cf07dc55be773b08839c1fbd472ff40e56ca0f
SpeedTorch==0.1.6 --hash=sha256:c7c3eb0efaae6d8b2e917398a8ed5427fc92784525f2f3f70b498cfb27029445
"""
# Allocators of CuPy, which is not used here.
OF_CUPY = {"PMemory", "PMemoryMM"}
# Its body names variables that do not exist, so nobody can have called it; ours is that of DataGadget.
BROKEN = ("DataGadgetMM", "getData")


class OriginalsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "originals.txt").write_text(ORIGINALS, encoding="utf-8")
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "0", "--timeout", "10",
             "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", "originals.txt"],
            cwd=cls.folder, capture_output=True, text=True, check=False)
        if "DO NOT MATCH THE HASHES" in fetched.stderr:
            raise AssertionError(fetched.stderr)
        if fetched.returncode != 0:
            raise unittest.SkipTest(f"pip cannot fetch the originals: {(fetched.stderr.strip() or 'no message').splitlines()[-1]}")
        for wheel in cls.folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(cls.folder)

    def trained(self, contiguous, make):
        """The README's loop. Gradients are zeroed in place: with None, torch's default since 2.0, the original stops training."""
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        before = copy.deepcopy(list(model.parameters()))
        parameters = contiguous(model.parameters())
        optimizer = make(parameters.contiguous())
        for x in torch.randn(20, 1, 8):
            model(x).sum().backward()
            nn.utils.clip_grad_norm_(parameters.contiguous(), 0.1)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            parameters.assert_buffer_is_valid()
        for a, b in zip(before, model.parameters()):
            self.assertFalse(torch.equal(a, b))
        return list(model.parameters())

    def test_contiguous_params_trains_as_the_original(self):
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        import contiguous_params as original  # pylint: disable=import-outside-toplevel,import-error

        self.assertTrue(original.__file__.startswith(str(self.folder)))
        for make in (
            lambda given: torch.optim.SGD(given, lr=1e-2, momentum=0.9),
            lambda given: torch.optim.Adam(given, lr=1e-2),
            lambda given: torch.optim.RMSprop(given, lr=1e-2),
        ):
            ours, theirs = (self.trained(each.ContiguousParams, make) for each in (contiguous_params, original))
            for a, b in zip(ours, theirs):
                self.assertTrue(torch.allclose(a, b, rtol=0, atol=1e-6))
        self.assertLessEqual({name for name in vars(original.ContiguousParams) if name[0] != "_"}, set(dir(contiguous_params.ContiguousParams)))

    def test_speedtorch_has_each_class_and_parameter_of_the_original(self):
        """The original cannot be imported without CuPy, so its text is read."""
        compared = 0
        for file in (self.folder / "SpeedTorch").glob("*.py"):
            for kind in ast.parse(file.read_text(encoding="utf-8")).body:
                if not isinstance(kind, ast.ClassDef) or kind.name[0] == "_" or kind.name in OF_CUPY:
                    continue
                for method in kind.body:
                    public = isinstance(method, ast.FunctionDef) and (method.name == "__init__" or method.name[0] != "_")
                    if public and (kind.name, method.name) != BROKEN:
                        with self.subTest(f"{kind.name}.{method.name}"):
                            theirs = [one.arg for one in method.args.args if one.arg != "self"]
                            own = inspect.signature(getattr(getattr(SpeedTorch, kind.name), method.name)).parameters
                            ours = [name for name in own if name != "self"]
                            self.assertEqual(ours[: len(theirs)], theirs)
                            compared += 1
        self.assertGreater(compared, 70)


if __name__ == "__main__":
    unittest.main()
