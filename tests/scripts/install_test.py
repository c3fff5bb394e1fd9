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


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=600, **options)
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
        for name in ("mapped_table", "optimizer_factory", "infinity_batch"):
            shutil.copy(ROOT / f"examples/{name}.cpp", examples)
        shutil.copytree(ROOT / "tests/consumer", self.folder / "consumer")
        for name in ("error.h", "kernels/error.h", "kernels/rows/rows.h", "rows/rows.h"):  # the project's own
            own = self.folder / "consumer" / name
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text("#error the library took a header of the project\n")
        build = self.folder / "build"
        run("cmake", "-S", self.folder / "consumer", "-B", build, "-G", "Ninja", f"-DEXAMPLES={examples}",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DTorch_DIR={TORCH}", "-DCMAKE_CXX_FLAGS=-O0")
        run("cmake", "--build", build)
        table = self.folder / "table.npy"
        self.assertEqual(run(build / "mapped_table", table), "row 7 was updated 1 times\n")
        self.assertEqual(run(build / "mapped_table", table), "row 7 was updated 2 times\n")
        self.assertEqual(run(build / "optimizer_factory"), "400 steps, every element within 0.1 of 1: yes\n")
        self.assertEqual(run(build / "infinity_batch"), "more than 95 % are right\n")

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
