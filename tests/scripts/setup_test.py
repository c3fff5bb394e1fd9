"""scripts/setup: what it asks for, what it finds, what it refuses. Nothing is installed or fetched here."""

import os
import shutil
import subprocess
import unittest

from checkout import ROOT, CheckoutTest, make_nvcc, make_torch, nobody, write


class SetupTest(CheckoutTest):
    @unittest.skipUnless(shutil.which("apt-get"), "no apt-get on this machine")
    def test_without_root_the_command_for_the_administrator_is_printed(self):
        path = self.make_path(without={"ninja", "pkg-config", "sudo"})
        (self.root / "build").mkdir()
        self.cache.mkdir()
        for folder in (self.root / "build", self.cache):
            folder.chmod(0o777)
        done = self.run_script("scripts/setup", as_user=nobody(), path=path)
        self.assert_refused(done, "ninja-build")
        self.assertIn("  sudo apt-get install -y ninja-build pkg-config", done.stderr.splitlines())
        self.assertFalse((self.root / "build/setup.state").exists())

    def test_without_apt_the_missing_is_named(self):
        path = self.make_path(without={"ninja", "apt-get"})
        self.assert_refused(self.run_script("scripts/setup", path=path), "missing: ninja-build", "package manager")

    def test_second_run_changes_nothing(self):
        first = self.set_up("--cuda", "none")
        self.assertEqual(first.returncode, 0, first.stderr)
        file = self.root / "build/setup.cmake"
        before = file.read_text(), file.stat().st_mtime_ns
        second = self.run_script("scripts/setup")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual((file.read_text(), file.stat().st_mtime_ns), before)
        self.assertIn("as asked (--cuda none)", second.stderr)  # the wish was remembered

    def test_torch_dir_of_the_environment_is_used(self):
        done = self.run_script("scripts/setup", Torch_DIR=str(self.torch / "share/cmake/Torch"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"set(Torch_DIR [==[{self.torch}/share/cmake/Torch]==]", self.cmake_values())

    def test_named_libtorch_that_is_none_is_refused(self):
        self.assert_refused(self.run_script("scripts/setup", Torch_DIR="/no where"), "/no where", "TorchConfig.cmake")

    def test_old_libtorch_is_refused(self):
        old = make_torch(self.folder / "old", version="2.3.1")
        self.assert_refused(self.run_script("scripts/setup", "--torch", old), "2.3.1", "2.7 or later")

    def test_cpu_only_libtorch_builds_the_host_part_and_says_so(self):
        done = self.set_up()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("host rows only", done.stderr)
        self.assertIn("set(STBENCH_CUDA [==[OFF]==]", self.cmake_values())

    def test_cuda_asked_of_a_cpu_only_libtorch_is_refused(self):
        done = self.set_up("--cuda", "wheels")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--cuda wheels: this LibTorch is CPU-only", done.stderr)

    def test_toolkit_of_another_major_version_is_passed_over(self):
        make_torch(self.torch, cuda_major=13)
        wrong = make_nvcc(self.folder / "cuda 12/bin/nvcc", "12.9")
        right = make_nvcc(self.folder / "cuda 13/bin/nvcc", "13.0")
        done = self.set_up(CUDACXX=str(wrong), CUDA_HOME=str(right.parents[1]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("CUDA toolkit 12.9", done.stderr)
        self.assertIn(f"set(CMAKE_CUDA_COMPILER [==[{right}]==]", self.cmake_values())
        self.assertNotIn("set(STBENCH_CUDA [==[", self.cmake_values())

    def test_wheels_in_the_cache_are_used_when_asked_for(self):
        make_torch(self.torch, cuda_major=13)
        system = make_nvcc(self.folder / "system/nvcc", "13.0")
        cached = make_nvcc(self.cache / "stbench/cuda-13.0/nvidia/cu13/bin/nvcc", "13.0")
        done = self.set_up("--cuda", "wheels", CUDACXX=str(system))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"[==[{cached}]==]", self.cmake_values())

    def test_architectures_reach_cmake(self):
        make_torch(self.torch, cuda_major=13)
        nvcc = make_nvcc(self.folder / "nvcc", "13.0")
        for wish, value in ((), "STBENCH_CUDA_ARCH [==[native]==]"), (("default",), "STBENCH_CUDA_ARCH [==[default]==]"), (
                ("80-real;90",), "CMAKE_CUDA_ARCHITECTURES [==[80-real;90]==]"), (("native",), "STBENCH_CUDA_ARCH [==[native]==]"):
            with self.subTest(wish):
                done = self.set_up(*(["--cuda-arch", *wish] if wish else ()), CUDACXX=str(nvcc))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line for line in self.cmake_values().splitlines() if "ARCH" in line],
                                 [f'set({value} CACHE STRING "" FORCE)'])

    def architectures(self, capabilities, choice="native", known="sm_75 sm_80 sm_90 sm_120"):
        """The code that CMake chooses for GPUs of these capabilities, with a compiler for the known ones."""
        tools = self.folder / "tools"
        answer = f"printf '{capabilities}'" if capabilities else "exit 9"
        write(tools / "nvidia-smi", f"#!/bin/sh\n{answer}\n", executable=True)
        write(tools / "nvcc", "#!/bin/sh\n" + "".join(f"echo {code}\n" for code in known.split()), executable=True)
        write(self.folder / "ask.cmake", f'include("{ROOT}/cmake/Cuda.cmake")\nstbench_cuda_architectures(list "{tools}/nvcc")\n'
              'message(NOTICE "code ${list}")\n')
        done = subprocess.run(["cmake", f"-DSTBENCH_CUDA_ARCH={choice}", "-P", self.folder / "ask.cmake"], capture_output=True,
                              text=True, check=False, env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.split("code ")[-1].strip()

    def test_code_is_made_for_the_gpus_that_are_there_and_ptx_for_others(self):
        portable = "75-virtual;90-virtual"
        for capabilities, chosen in (
            ("", portable), ("9.0\\n", portable + ";90-real"), ("12.0\\n8.0\\n12.0\\n", portable + ";120-real;80-real"),
            ("7.0\\n", portable),
            ("13.0\\n", portable),  # newer than the compiler
        ):
            with self.subTest(capabilities):
                self.assertEqual(self.architectures(capabilities), chosen)
        self.assertEqual(self.architectures("8.0\\n", known=""), portable + ";80-real")  # a compiler that does not tell
        self.assertEqual(self.architectures("8.0\\n", choice="default"), "75;80-real;86-real;89-real;90;100")

    def test_peers_need_the_python_of_a_torch(self):
        self.assert_refused(self.set_up("--cuda", "none", "--peers"), "--peers: the LibTorch in", "has no Python")

    def test_bad_options_are_refused(self):
        for arguments, texts in (
            (("--cudaa", "none"), ("--cudaa", "--help")),
            (("--cuda", "some"), ("--cuda some", "auto, system, wheels or none")),
            (("--cuda",), ("--cuda needs a value",)),
            (("--cuda-arch", "ninety"), ("--cuda-arch ninety", "90")),
            (("--bundle", "no such.tar"), ("no such.tar", "scripts/bundle")),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_script("scripts/setup", *arguments), *texts)


if __name__ == "__main__":
    unittest.main()
