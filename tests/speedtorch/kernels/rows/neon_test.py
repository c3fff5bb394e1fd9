"""The host kernels as an Arm processor (Grace, Graviton) runs them: compiled for it here, run by qemu."""

import os
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
CHECK = "tests/speedtorch/kernels/moves_check.cpp"
# Of Highway, an Arm processor's library is not there, its headers are: one instruction set then, chosen by the compiler.
# isa.cpp chooses between several and needs the library. The check runs no steps of optimizers. So both are only parsed.
NOT_LINKED = ("speedtorch/kernels/isa.cpp", "speedtorch/kernels/steps/")
OPTIONS = ("-std=c++20", "-O1", "-DHWY_COMPILE_ONLY_STATIC")


def highway_headers():
    """Where pkg-config finds Highway's headers, or None."""
    if not shutil.which("pkg-config"):
        return None
    done = subprocess.run(["pkg-config", "--variable=includedir", "libhwy"], capture_output=True, text=True, check=False)
    headers = Path(done.stdout.strip() or "/usr/include") / "hwy"
    return headers if (headers / "highway.h").exists() else None


def missing():
    for command, package in ((COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if not shutil.which(command):
            return f"no {command} on this machine (Debian: {package})"
    return "" if highway_headers() else "pkg-config knows no Highway headers"


def call(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


class NeonTest(unittest.TestCase):
    @unittest.skipIf(missing(), missing())
    def test_every_width_and_alignment_moves_as_the_plain_loop(self):
        with tempfile.TemporaryDirectory() as folder:
            # The folder above Highway's has this machine's headers too, which are not Arm's.
            (Path(folder) / "include").mkdir()
            (Path(folder) / "include/hwy").symlink_to(highway_headers())

            def compile_one(source):
                target = f"{folder}/{Path(source).stem}.o"
                what = ["-fsyntax-only"] if source.startswith(NOT_LINKED) else ["-c", "-o", target]
                done = call(COMPILER, *OPTIONS, "-I", str(ROOT), "-isystem", f"{folder}/include", *what, source)
                self.assertEqual(done.returncode, 0, f"{source}:\n{done.stderr}")
                return target

            sources = [CHECK, *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "speedtorch/kernels").rglob("*.cpp")))]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = dict(zip(sources, pool.map(compile_one, sources)))
            of_check = [target for source, target in objects.items() if not source.startswith(NOT_LINKED)]
            linked = call(COMPILER, "-static", *of_check, "-o", f"{folder}/check")
            self.assertEqual(linked.returncode, 0, linked.stderr)
            done = call(EMULATOR, f"{folder}/check")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"^NEON: \d{6,} trials")


if __name__ == "__main__":
    unittest.main()
