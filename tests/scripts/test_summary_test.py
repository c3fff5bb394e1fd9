"""scripts/lib/test_summary.py: counts, reasons and the closing line, from files as CTest writes them."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from checkout import ROOT

PASSED = '<testcase name="A.Passes" status="run"><system-out>ok</system-out></testcase>'
FAILED = '<testcase name="A.Fails" status="fail"><failure message="Failed"/><system-out>x</system-out></testcase>'
SKIPPED = """<testcase name="A.Skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN      ] A.Skips
a_test.cpp:4: Skipped
no CUDA driver
on this machine

[  SKIPPED ] A.Skips (0 ms)
</system-out></testcase>"""
PYTHON_SKIPPED = """<testcase name="b.test_x" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>test_x (__main__.B.test_x) ... skipped 'pandas is missing'
</system-out></testcase>"""
MISSING = '<testcase name="A.Gone" status="notrun"><skipped message="Unable to find executable"/></testcase>'
WHOLE_PROGRAM = """<testsuites><testsuite name="A">
<testcase name="Passes" status="run" result="completed" classname="A"/>
<testcase name="Skips" status="run" result="skipped" classname="A"><skipped message="a_test.cpp:4&#x0A;no CUDA driver&#x0A;on this machine"/></testcase>
<testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="A"/>
%s</testsuite></testsuites>"""
WHOLE_PROGRAM_FAILURE = ('<testcase name="Fails" status="run" result="completed" classname="A">'
                         '<failure message="x"/></testcase>')

UNITTEST_FILE = """import unittest

class A(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.assertEqual(1, 2)
    def test_raises(self): raise OSError("no such thing")
    def test_fails_in_a_part(self):
        for i in range(3):
            with self.subTest(i=i): self.assertEqual(i, 0)
    def test_passes_in_parts(self):
        for i in range(3):
            with self.subTest(i=i): self.assertEqual(i, i)
    @unittest.skip("no GPU \x07 here")
    def test_skips(self): pass
    def test_long(self): raise AssertionError("was left out")

class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no program")
    def test_x(self): pass
"""


class SummaryTest(unittest.TestCase):
    def summarise(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                stem, suffix = name.rsplit("_", 1)
                file = Path(folder) / f"{stem.replace('__', '/')}.{suffix}"
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            return subprocess.run([sys.executable, ROOT / "scripts/lib/test_summary.py", folder],
                                  capture_output=True, text=True)

    def suite(self, *cases):
        return "<testsuite>" + "".join(cases) + "</testsuite>"

    def test_builds_are_added_up(self):
        done = self.summarise(release_xml=self.suite(PASSED, SKIPPED), asan_xml=self.suite(PASSED, PYTHON_SKIPPED))
        self.assertEqual(done.stdout.splitlines(), [
            "skipped  asan: b.test_x: pandas is missing",
            "skipped  release: A.Skips: no CUDA driver on this machine",
            "2 passed, 0 failed, 2 skipped",
        ])
        self.assertEqual(done.returncode, 0)

    def test_what_long_tests_counted_is_listed(self):
        counted = "12345 executions of npy_fuzz in 600 s of processor time, seed 3, 4 inputs found beside the corpus"
        long = ('<testcase name="%s" status="run"><system-out>INFO: 7 things\n%s\n</system-out></testcase>')
        done = self.summarise(release_xml=self.suite(long % ("npy_fuzz.runs_long", counted),
                                                     long % ("inject.runs_long", "2000 injections, 0 faults"),
                                                     long % ("other", "9 kills")))
        self.assertEqual(done.stdout.splitlines(), [f"counted  npy_fuzz.runs_long: {counted}",
                                                    "counted  inject.runs_long: 2000 injections, 0 faults",
                                                    "3 passed, 0 failed, 0 skipped"])

    def test_programs_run_whole_are_counted_by_their_cases(self):
        program = '<testcase name="a_test" status="run"><system-out>ok</system-out></testcase>'
        done = self.summarise(asan_xml=self.suite(program, PASSED), asan__a_test_xml=WHOLE_PROGRAM % "")
        self.assertEqual(done.stdout.splitlines(), [
            "skipped  asan: A.Skips: no CUDA driver on this machine",
            "skipped  asan: A.DISABLED_Off: disabled in its source",
            "2 passed, 0 failed, 2 skipped",
        ])

    def test_program_run_whole_fails_by_a_case_by_its_end_and_by_writing_nothing(self):
        program = '<testcase name="a_test" status="fail"><failure message="Failed"/><system-out>x</system-out></testcase>'
        for text, failed in ((WHOLE_PROGRAM % WHOLE_PROGRAM_FAILURE, "A.Fails: its output is above"),
                             (WHOLE_PROGRAM % "", "a_test: Failed"), ("cut off <", "a_test.xml")):
            with self.subTest(failed=failed):
                done = self.summarise(asan_xml=self.suite(program), asan__a_test_xml=text)
                self.assertIn(f"failed  asan: {failed}", done.stdout)
                self.assertEqual(done.stdout.count("failed  "), 1)
                self.assertEqual(done.returncode, 1)
        done = self.summarise(asan_xml=self.suite(program))
        self.assertEqual(done.stdout.splitlines()[0], "failed  asan: a_test: Failed")

    def run_unittest(self, folder, *left_out):
        (Path(folder) / "a_test.py").write_text(UNITTEST_FILE)
        return subprocess.run([sys.executable, ROOT / "tests/run_unittest.py", Path(folder) / "a_test.py", *left_out],
                              env={**os.environ, "GTEST_OUTPUT": f"xml:{folder}/"}, capture_output=True, text=True)

    def test_files_of_unittest_are_counted_by_their_methods(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_unittest(folder, "test_long")
            self.assertEqual(done.returncode, 1)
            self.assertIn("OSError: no such thing", done.stderr)
            written = (Path(folder) / "a_test.xml").read_text(encoding="utf-8")
        whole = '<testcase name="a_test" status="fail"><failure message="Failed"/><system-out>x</system-out></testcase>'
        done = self.summarise(release_xml=self.suite(whole), release__a_test_xml=written)
        lines = done.stdout.splitlines()
        self.assertEqual(sorted(lines[:-1]), sorted([
            "skipped  release: a_test.A.test_skips: no GPU ? here",
            *(f"failed  release: a_test.A.test_{name}: its output is above" for name in ("fails", "fails_in_a_part", "raises")),
            "failed  release: setUpClass (a_test.B): its output is above"]))
        self.assertEqual(lines[-1], "2 passed, 4 failed, 1 skipped")

    def test_methods_left_out_of_a_file_of_unittest_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_unittest(folder, "test_lnog")
            self.assertEqual(done.returncode, 1)
            self.assertIn("has no test_lnog", done.stderr)
            self.assertFalse((Path(folder) / "a_test.xml").exists())

    def test_failure_is_named_and_fails(self):
        done = self.summarise(release_xml=self.suite(PASSED, FAILED))
        self.assertEqual(done.stdout.splitlines(), ["failed  release: A.Fails: Failed", "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(done.returncode, 1)

    def test_slowest_tests_and_stages_are_listed(self):
        cases = [f'<testcase name="t{i}" status="run" time="{i}.4"/>' for i in range(12)]
        done = self.summarise(release_xml=self.suite(*cases), asan_xml=self.suite(cases[11]),
                              stages_tsv="release build\t100\t190\nrelease tests\t50\t60\n")
        self.assertEqual(done.stdout.splitlines(), [
            "slowest  release: t11: 11 s", "slowest  asan: t11: 11 s",
            *(f"slowest  release: t{i}: {i} s" for i in range(10, 2, -1)),
            "stage    release build: 100 s, 190 CPU s", "stage    release tests: 50 s, 60 CPU s",
            "stage    in all: 150 s, 250 CPU s", "13 passed, 0 failed, 0 skipped"])

    def test_program_that_is_missing_is_no_skip(self):
        done = self.summarise(release_xml=self.suite(PASSED, MISSING))
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 1 failed, 0 skipped")
        self.assertEqual(done.returncode, 1)

    def test_no_tests_is_an_error(self):
        for files in ({}, {"release_xml": self.suite()}, {"release_xml": "cut off <"}):
            with self.subTest(files=files):
                done = self.summarise(**files)
                self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped")
                self.assertEqual(done.returncode, 1)

    def test_only_skipped_is_an_error(self):
        self.assertEqual(self.summarise(release_xml=self.suite(SKIPPED)).returncode, 1)

    def test_build_that_is_a_test_is_counted(self):
        done = self.summarise(files_build_passed="each file compiles by itself\n")
        self.assertEqual((done.stdout, done.returncode), ("1 passed, 0 failed, 0 skipped\n", 0))

    def test_build_that_failed_is_one_failure(self):
        done = self.summarise(release_xml=self.suite(PASSED), asan_failed="build/asan could not be built\n")
        self.assertEqual(done.stdout.splitlines(),
                         ["failed  asan: build/asan could not be built", "1 passed, 1 failed, 0 skipped"])


if __name__ == "__main__":
    unittest.main()
