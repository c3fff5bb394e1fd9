"""A small checkout to try the scripts in: our scripts, a made-up LibTorch, and a PATH that the test decides on."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
#include <cstdio>
#include <cstdlib>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) std::printf("[%s]", argv[i]);
  std::printf(" spin %s\\n", std::getenv("GOMP_SPINCOUNT") ? std::getenv("GOMP_SPINCOUNT") : "unset");
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_custom_target(revision COMMAND ${CMAKE_COMMAND} -E true COMMENT "Looking up the git revision")
add_executable(stbench main.cpp)
add_dependencies(stbench revision)
"""


def write(path, text, executable=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(0o755)


def make_torch(folder, version="2.11.0", cuda_major=None):
    """The files by which the set-up knows a LibTorch; with CUDA where a major version is given."""
    for name in ("lib/libtorch_cpu.so", "include/ATen/ATen.h", "share/cmake/Torch/TorchConfig.cmake"):
        write(folder / name, "")
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    text = "".join(f"#define TORCH_VERSION_{name} {value}\n" for name, value in parts)
    write(folder / "include/torch/headeronly/version.h", text)
    if cuda_major:
        write(folder / "lib/libc10_cuda.so", f"\0libcudart.so.{cuda_major}\0")
    return folder


def make_nvcc(path, version):
    write(path, f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n", executable=True)
    return path


class CheckoutTest(unittest.TestCase):
    def setUp(self):
        # A name with a space: the scripts have to quote.
        self.folder = Path(tempfile.mkdtemp(prefix="stbench test "))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "check out"
        self.cache = self.folder / "cache"
        self.root.mkdir()
        for name in ("stbench", "test", "CMakePresets.json"):
            shutil.copy(ROOT / name, self.root)
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        self.torch = make_torch(self.folder / "libtorch")
        self.bin = self.make_path(without={"apt-get", "sudo", "nvcc"})

    def make_path(self, without):
        """A folder with the machine's commands except some."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        folder.chmod(0o755)
        for command in list(Path("/usr/bin").iterdir()) + list(Path("/bin").iterdir()):
            if command.name not in without and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
        return folder

    def run_script(self, name, *arguments, as_user=(), path=None, **variables):
        environment = {
            "PATH": str(path or self.bin),
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.cache),
            "LC_ALL": "C.UTF-8",
            **variables,
        }
        return subprocess.run(
            [*as_user, str(self.root / name), *map(str, arguments)],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=500,
        )

    def set_up(self, *arguments, **variables):
        return self.run_script("scripts/setup", "--torch", self.torch, *arguments, **variables)

    def cmake_values(self):
        return (self.root / "build/setup.cmake").read_text()

    def assert_refused(self, done, *texts):
        """Exit status 2, at most three lines, nothing on standard output, the texts named."""
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        for text in texts:
            self.assertIn(str(text), done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 3, done.stderr)


def nobody():
    """The words that run a command as a user without rights; none where the tests have no rights themselves."""
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
