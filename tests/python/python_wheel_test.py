"""What a wheel contains, as `cmake --install --component python` puts it into a folder: the program and the packages run there,
beside torch, and where torch has no CUDA. scripts/wheel packs the same files."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

import stbench

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ["STBENCH_BUILD"]
SITE_PACKAGES = Path(torch.__file__).parents[1]
# What every Linux has, by the rules of manylinux, beside torch's own.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libgcc_s.so.1", "libstdc++.so.6",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def text_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="stbench wheel "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.site = cls.folder / "site"
        subprocess.run(["cmake", "--install", BUILD, "--component", "python", "--prefix", cls.site], check=True, stdout=subprocess.DEVNULL)
        cls.program = cls.site / "stbench/bin/stbench"
        cls.module, = (cls.site / "speedtorch").glob("_native.*.so")
        cls.binaries = [cls.program, cls.module]
        cls.bundled = {file.name for file in (cls.site / "stbench.libs").iterdir()}

    def run_program(self, *words, program=None, **variables):
        kept = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        command = [program] if program else [sys.executable, "-m", "stbench"]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, cwd=self.folder, env={**kept, **variables})

    def test_has_all_sources_and_nothing_of_this_machine(self):
        sources = {file.relative_to(ROOT / "python") for folder in ("speedtorch", "stbench") for file in (ROOT / "python" / folder).rglob("*.py*")
                   if "__pycache__" not in file.parts}
        self.assertGreater(len(sources), 8)
        self.assertEqual({file for file in sources if not (self.site / file).is_file()}, set())
        self.assertTrue(os.access(self.program, os.X_OK))
        for file in self.binaries:
            dynamic = text_of("readelf", "-d", file)
            path = re.search(r"\(RPATH\).*\[(.*)\]", dynamic)[1]
            self.assertTrue(all(part.startswith("$ORIGIN/../") for part in path.split(":")), path)
            self.assertNotIn("RUNPATH", dynamic)
            self.assertNotIn(str(ROOT).encode(), file.read_bytes())

    def test_both_packages_have_the_version_of_the_program(self):
        told = text_of(sys.executable, "-c", "import sys, torch; sys.path.insert(0, sys.argv[1]); import speedtorch, stbench; "
                       "print(speedtorch.__version__, stbench.__version__, speedtorch.__file__.startswith(sys.argv[1]))", self.site)
        version = re.search(r"project\(stbench VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
        self.assertEqual(told.split(), [version, version, "True"])
        done = self.run_program("--version", PYTHONPATH=str(self.site))
        self.assertIn(f"stbench {version}", done.stdout)

    def test_needs_torch_and_what_it_brings_alone(self):
        torchs = {file.name for file in (SITE_PACKAGES / "torch/lib").iterdir()}
        needed = set()
        for file in [*self.binaries, *(self.site / "stbench.libs" / name for name in self.bundled)]:
            needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", text_of("readelf", "-d", file)))
        self.assertIn("libtorch_python.so", needed)
        self.assertEqual(needed - torchs - self.bundled - SYSTEM, set())

    def test_the_module_shows_its_entry_alone(self):
        shown = [line.split()[-1] for line in text_of("nm", "-D", "--defined-only", self.module).splitlines()]
        self.assertIn("PyInit__native", shown)
        self.assertEqual([name for name in shown if "speedtorch" in name], [])
        self.assertLess(len(shown), 250)

    def test_the_program_and_its_reports(self):
        csv, json = self.folder / "t.csv", self.folder / "t.json"
        # torch is not beside this package, so the launcher names its folder.
        done = self.run_program("--suite", "transfer", "--rows", "5k", "--dim", "16", "--batch", "1k", "--samples", "3", "--placement",
                                "pageable", "--peers", "numpy", "--csv", csv, "--json", json, PYTHONPATH=str(self.site))
        self.assertEqual(done.returncode, 0, done.stderr)
        cases = stbench.read_report(json)
        self.assertTrue(set(cases.status) <= {"ok", "unstable", "waived"})
        self.assertIn("numpy", set(cases.method[cases.status != "waived"]))
        self.assertEqual(cases.attrs["program"].split()[0], "stbench")
        self.assertEqual((cases["rows"].dtype.name, cases.median_s.dtype.name, cases.verified_rows.dtype.kind), ("int64", "float64", "i"))
        self.assertEqual([len(one) for one in cases.samples_s], list(cases.samples))
        again = stbench.read_report(csv)
        self.assertEqual(set(cases.columns) - set(again.columns), {"samples_s"})
        for name in again.columns:
            self.assertEqual(again[name].isna().tolist(), cases[name].isna().tolist(), name)
            self.assertEqual(again[name].dropna().tolist(), cases[name].dropna().tolist(), name)
        report = self.folder / "none.json"
        report.write_text("[1]")
        with self.assertRaisesRegex(ValueError, "no report of stbench"):
            stbench.read_report(report)

    def test_the_program_finds_torch_beside_it(self):
        beside = self.folder / "copied"
        shutil.copytree(self.site / "stbench", beside / "stbench")
        shutil.copytree(self.site / "stbench.libs", beside / "stbench.libs")
        for name in ("torch", "nvidia"):
            if (SITE_PACKAGES / name).exists():
                (beside / name).symlink_to(SITE_PACKAGES / name)
        done = self.run_program("--version", program=beside / "stbench/bin/stbench")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_program_runs_where_torch_has_no_cuda(self):
        place = self.folder / "host"
        shutil.copytree(self.site / "stbench", place / "stbench")
        shutil.copytree(self.site / "stbench.libs", place / "stbench.libs")
        (place / "torch/lib").mkdir(parents=True)
        libraries = [file for file in (SITE_PACKAGES / "torch/lib").iterdir() if not re.search("cuda|nvrtc|nvshmem", file.name)]
        libraries += (SITE_PACKAGES / "nvidia").glob("cu*/lib/libcupti.so*")  # a host's torch does not need it; this one does
        for file in libraries:
            (place / "torch/lib" / file.name).symlink_to(file)
        done = self.run_program("--suite", "transfer", "--preset", "small", program=place / "stbench/bin/stbench", LD_DEBUG="libs")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        loaded = set(re.findall(r"calling init: (.*)", done.stderr))
        self.assertIn("libtorch_cpu.so", {Path(name).name for name in loaded})
        self.assertFalse([name for name in loaded if "torch_cuda" in name])
        if "libc10_cuda.so" in self.bundled:
            stand_ins = [name for name in loaded if re.search(r"libc10_cuda|libcudart", name)]
            self.assertEqual(len(stand_ins), 2)
            self.assertTrue(all("stbench.libs" in name for name in stand_ins), stand_ins)

    def test_stand_ins_have_all_that_is_taken_from_cuda(self):
        if "libc10_cuda.so" not in self.bundled:
            self.skipTest("this build has no CUDA kernels")
        given = {line.split()[-1].partition("@")[0] for name in ("libc10_cuda.so", next(one for one in self.bundled if "cudart" in one))
                 for line in text_of("nm", "-D", "--defined-only", self.site / "stbench.libs" / name).splitlines()}
        for file in self.binaries:
            taken = {line.split()[-1].partition("@")[0] for line in text_of("nm", "-D", "--undefined-only", file).splitlines()}
            wanted = {name for name in taken if re.match(r"_ZN?K?3c104cuda|_ZNK3c104cuda|cuda[A-Z]|__cuda", name)}
            self.assertGreater(len(wanted), 20)
            self.assertEqual(wanted - given, set())

    def test_a_wheel_without_the_licence_is_refused(self):
        finish = module_of(ROOT / "scripts/lib/finish_wheel.py")
        about = self.folder / "stbench-1.0.dist-info"
        (about / "licenses").mkdir(parents=True)
        with self.assertRaisesRegex(SystemExit, "stbench-1.0.dist-info/licenses/LICENSE is not the text of LICENSE"):
            finish.require_license(about)
        shutil.copy(ROOT / "LICENSE", about / "licenses")
        finish.require_license(about)
        (about / "licenses/LICENSE").write_text("another")
        with self.assertRaises(SystemExit):
            finish.require_license(about)

    def test_the_tag_is_that_of_the_newest_symbol(self):
        finish = module_of(ROOT / "scripts/lib/finish_wheel.py")
        found = re.fullmatch(r"(?:manylinux_(\d+)_(\d+)|linux)_\w+", finish.platform_tag(self.binaries))
        self.assertIsNotNone(found)
        if found[1]:
            self.assertLessEqual(finish.newest(self.binaries, "GLIBC"), (int(found[1]), int(found[2])))
        self.assertEqual(finish.platform_tag([])[:16], "manylinux_2_34_x")
        self.assertEqual(finish.torch_range("2.11.0"), "torch<2.12,>=2.11")

    def test_the_script_names_what_it_does_not_know(self):
        done = subprocess.run([ROOT / "scripts/wheel", "--pyton", "python3"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unknown option: --pyton", done.stderr)

    def test_the_console_script_is_the_launcher(self):
        from stbench import _program

        self.assertIn(f'stbench = "stbench._program:{_program.main.__name__}"', (ROOT / "pyproject.toml").read_text())
        given = _program.environment({"GOMP_SPINCOUNT": "7", "LD_LIBRARY_PATH": "/mine"})
        self.assertEqual((given["GOMP_SPINCOUNT"], given["STBENCH_PYTHON"]), ("7", sys.executable))
        self.assertTrue(given["LD_LIBRARY_PATH"].endswith(":/mine"))
        self.assertTrue(Path(given["STBENCH_PEERS"], "numpy_peer.py").is_file())
        self.assertEqual(_program.torch_folders()[0], SITE_PACKAGES / "torch/lib")


if __name__ == "__main__":
    unittest.main()
