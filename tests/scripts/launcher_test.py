"""./stbench: sets up and builds once, then only starts the program; what it says never mixes with the program's output."""

import os
import unittest

from checkout import PROGRAM, PROJECT, CheckoutTest, write


class LauncherTest(CheckoutTest):
    def setUp(self):
        super().setUp()
        write(self.root / "CMakeLists.txt", PROJECT)
        write(self.root / "main.cpp", PROGRAM)

    def start(self, *arguments, **variables):
        return self.run_script("stbench", *arguments, Torch_DIR=str(self.torch), **variables)

    def test_first_start_sets_up_and_builds_and_the_second_does_neither(self):
        first = self.start("--json", "-", "two words")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, "[--json][-][two words] spin 5000\n")
        self.assertIn("stbench: building", first.stderr)
        second = self.start("x")
        self.assertEqual((second.stdout, second.stderr, second.returncode), ("[x] spin 5000\n", "", 0))

    def test_changed_source_is_built_again_without_setting_up(self):
        self.start()
        source = self.root / "main.cpp"
        source.write_text(PROGRAM.replace(" spin ", " changed "))
        later = source.stat().st_mtime + 5
        os.utime(source, (later, later))
        done = self.start()
        self.assertEqual(done.stdout, " changed 5000\n")
        self.assertIn("stbench: building", done.stderr)
        self.assertNotIn("LibTorch", done.stderr)

    def test_libtorch_that_has_gone_is_set_up_again(self):
        self.start()
        (self.torch / "lib/libtorch_cpu.so").unlink()
        done = self.start()
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no headers, libraries", done.stderr)

    def test_spinning_that_the_user_chose_is_kept(self):
        self.start()
        self.assertEqual(self.start(GOMP_SPINCOUNT="7").stdout, " spin 7\n")
        self.assertEqual(self.start(OMP_WAIT_POLICY="PASSIVE").stdout, " spin unset\n")

    def test_build_that_fails_ends_with_status_2(self):
        write(self.root / "main.cpp", "int main() { return nothing; }\n")
        done = self.start()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("error: ", done.stderr)
        self.assertIn("the build failed", done.stderr)


class TestOptionsTest(CheckoutTest):
    """./test: options that would be ignored or mean nothing are refused before anything is set up."""

    def test_wrong_options_are_refused_with_what_is_right(self):
        for words, what in ((("--part", "fuzz"), "add --long"), (("--seed", "3"), "add --long"),
                            (("--long", "--part", "fuzzy"), "choose fuzz, inject, kills, mutants, emulated, sanitizers, files or rest"),
                            (("--long", "--seed", "0"), "--seed 0: not a seed"), (("--long", "--seed", "x"), "--seed x: not a seed"),
                            (("--long", "--part", "rest", "--quick"), "exclude each other"),
                            (("--long", "--part", "rest", "--only", "x"), "exclude each other"), (("--jobs", "0"), "--jobs 0")):
            done = self.run_script("test", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
