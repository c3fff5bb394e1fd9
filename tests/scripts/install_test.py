"""The installed library: an outside project finds it, builds an example and runs it; and each of its headers stands alone."""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STBENCH_BUILD", ""))
TORCH = os.environ.get("STBENCH_TORCH_DIR", "")


# What the build finds the other libraries with: development files, which an outside project need not have.
WITHOUT_DEVELOPMENT_FILES = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("PkgConfig", "ZLIB", "CUDAToolkit")]
DEVELOPMENT_HEADERS = r"#include <(?:hwy/|zlib|liburing|cuda)"


def finish(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=600, **options)


def run(*command, **options):
    done = finish(*command, **options)
    if done.returncode:
        raise AssertionError(f"{shlex.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="speedtorch install "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", "speedtorch")

    def test_an_outside_project_builds_and_runs_examples(self):
        examples = self.folder / "examples"  # copies: nothing of the sources is to be found from there
        examples.mkdir()
        for name in ("mapped_table", "infinity_batch"):
            shutil.copy(ROOT / f"examples/{name}.cpp", examples)
        shutil.copytree(ROOT / "tests/consumer", self.folder / "consumer")
        for name in ("error.h", "kernels/error.h", "kernels/rows/rows.h", "rows/rows.h"):  # the project's own
            own = self.folder / "consumer" / name
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text("#error the library took a header of the project\n")
        build = self.folder / "build"
        run("cmake", "-S", self.folder / "consumer", "-B", build, "-G", "Ninja", f"-DEXAMPLES={examples}",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DTorch_DIR={TORCH}", "-DCMAKE_CXX_FLAGS=-O0", *WITHOUT_DEVELOPMENT_FILES)
        run("cmake", "--build", build)
        linked = set(re.findall(r"\blib(?:hwy|z|uring|cudart)\.(?:so|a)[.\d]*", (build / "build.ninja").read_text()))
        self.assertIn("libz.so.1", linked)
        self.assertEqual([name for name in linked if not re.search(r"\.so\.\d", name)], [])
        table = self.folder / "table.npy"
        self.assertEqual(run(build / "mapped_table", table), "row 7 was updated 1 times\n")
        self.assertEqual(run(build / "mapped_table", table), "row 7 was updated 2 times\n")
        self.assertEqual(run(build / "infinity_batch"), "more than 95 % are right\n")

    def test_no_header_for_host_code_includes_those_of_other_libraries(self):
        found = {str(file.relative_to(self.prefix / "include/speedtorch")) for file in self.prefix.rglob("*.h")
                 if re.search(DEVELOPMENT_HEADERS, file.read_text(encoding="utf-8"))}
        self.assertEqual(found, {"kernels/cuda/device.h"})

    def configure(self, torch, prefix=None):
        """What CMake says about an outside project that cannot be configured, without line breaks."""
        project, build = self.folder / "outside", Path(tempfile.mkdtemp(dir=self.folder))
        project.mkdir(exist_ok=True)
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(outside LANGUAGES CXX)\n"
                                                "find_package(speedtorch REQUIRED)\n")
        done = finish("cmake", "-S", project, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix or self.prefix}",
                      *([f"-DTorch_DIR={torch}"] if torch else []),
                      env={name: value for name, value in os.environ.items() if not name.startswith("Torch")})
        self.assertNotEqual(done.returncode, 0)
        return " ".join(done.stderr.split())

    def make_torch(self, version, cuda):
        """The files of a LibTorch by which it is found; the folder for Torch_DIR."""
        top = Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("include/ATen/ATen.h", "lib/libtorch_cpu.so", "lib/libc10.so", "share/cmake/Torch/TorchConfig.cmake",
                     *(["lib/libc10_cuda.so"] if cuda else [])):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).touch()
        header = top / "include/torch/headeronly/version.h"
        header.parent.mkdir(parents=True)
        header.write_text("".join(f"#define TORCH_VERSION_{part} {number}\n"
                                  for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))))
        return top / "share/cmake/Torch"

    def test_an_error_about_libtorch_says_what_to_set_and_where_it_is(self):
        help_text = ('Name LibTorch\'s folder that holds TorchConfig.cmake: -DTorch_DIR=DIR (now: "{}"). A Python that has torch prints it: '
                     "python3 -c \"print(__import__('torch').utils.cmake_prefix_path + '/Torch')\"")
        for value in ("", "/no/such/folder"):
            said = self.configure(value)
            self.assertIn("Could NOT find LibTorch", said)
            self.assertIn(help_text.format(value), said)
            self.assertNotIn("scripts/setup", said)
        where = self.make_torch("2.99.0", cuda=True)
        said = self.configure(where)
        self.assertIn('Found unsuitable version "2.99.0", but required is exact version', said)
        self.assertIn(help_text.format(where), said)
        self.assertRegex(said, r"The library was built with LibTorch 2\.\d+\.\d+ and needs this version")

    def test_other_things_that_are_missing_are_named(self):
        config = (self.prefix / "lib/cmake/speedtorch/speedtorchConfig.cmake").read_text()
        if "set(speedtorch_HAS_CUDA ON)" in config:
            version = re.search(r"find_dependency\(LibTorch (\S+) EXACT\)", config)[1]
            said = self.configure(self.make_torch(version, cuda=False))
            self.assertRegex(said, r"it was built for a LibTorch with CUDA, and the one in \S.*/lib is CPU-only")
        other = self.folder / "other prefix"
        shutil.copytree(self.prefix, other)
        (other / "lib/cmake/speedtorch/speedtorchConfig.cmake").write_text(config.replace("libz.so.1", "libz.so.99"))
        self.assertIn("libz.so.99 is missing (Debian: zlib1g); -Dspeedtorch_z_LIBRARY=FILE names one in another folder",
                      self.configure(TORCH, other))

    def test_nothing_that_is_installed_names_the_sources_or_the_build(self):
        for file in self.prefix.rglob("*"):
            if file.suffix in (".cmake", ".h"):
                text = file.read_text(encoding="utf-8")
                self.assertNotIn(str(ROOT), text, file.name)
                self.assertNotIn(str(BUILD), text, file.name)

    def test_all_headers_compile_in_either_order(self):
        command, names = self.installed_headers()
        for order in (names, names[::-1]):
            self.assertEqual(self.syntax_errors(command, order), "")

    def test_each_header_stands_alone(self):
        command, names = self.installed_headers()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, wrong in zip(names, pool.map(lambda name: self.syntax_errors(command, [name, name]), names)):
                with self.subTest(name):
                    self.assertEqual(wrong, "")

    def installed_headers(self):
        """The command that compiles standard input with the installed headers, and their names."""
        headers = self.prefix / "include"
        names = sorted(str(path.relative_to(headers)) for path in headers.rglob("*.h"))
        self.assertIn("speedtorch/optim/sparse_rows.h", names)
        self.assertIn("speedtorch/kernels/steps/update_options.h", names)
        return self.compile_command(headers), names

    @staticmethod
    def compile_command(headers):
        """As a file of the library is compiled, with the installed headers instead of the sources."""
        commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
        entry = next(one for one in commands if "/speedtorch.dir/" in one["command"])
        words = shlex.split(entry["command"])
        words = words[next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang)[-\d.]*$", word)):]
        kept = [word for word in words[: words.index("-o")] if word != f"-I{ROOT}"]
        return [*kept, f"-I{headers}", "-fsyntax-only", "-x", "c++", "-"]

    @staticmethod
    def syntax_errors(command, names):
        source = "".join(f'#include "{name}"\n' for name in names)
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, timeout=300)
        return done.stderr if done.returncode else ""


if __name__ == "__main__":
    unittest.main()
