"""Runs a file of unittest tests in one process, and writes what became of each as a GoogleTest program does: with
GTEST_OUTPUT=xml:FOLDER/ in the environment the results go to FOLDER/NAME.xml, which scripts/lib/test_summary.py reads.

usage: run_unittest.py FILE [METHOD...]

The methods named are left out."""

import importlib
import os
import sys
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path


class Result(unittest.TextTestResult):
    """What unittest prints, and an element for each test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.suite = xml.etree.ElementTree.Element("testsuite")
        self.begun = {}

    def case_of(self, test):
        """The element of a test; of a class or module whose set-up fails unittest names the set-up."""
        kind, _, name = test.id().rpartition(".")
        for case in self.suite:
            if (case.get("classname"), case.get("name")) == (kind, name):
                return case
        return xml.etree.ElementTree.SubElement(self.suite, "testcase", classname=kind, name=name, result="completed")

    def startTest(self, test):
        super().startTest(test)
        self.begun[test.id()] = time.monotonic()
        self.case_of(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.case_of(test).set("time", f"{time.monotonic() - self.begun[test.id()]:.3f}")

    def note_failure(self, test, message):
        xml.etree.ElementTree.SubElement(self.case_of(test), "failure", message=message[:2000])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note_failure(test, str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.note_failure(test, str(err[1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note_failure(test, f"{subtest}: {err[1]}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note_failure(test, "passed, which was not expected")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        case = self.case_of(test)
        case.set("result", "skipped")
        xml.etree.ElementTree.SubElement(case, "skipped", message=f"Skipped\n{reason}")


def tests_of(suite, left_out):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test, left_out)
        elif test.id().rpartition(".")[2] not in left_out:
            yield test


def write(suite, name):
    kind, _, folder = os.environ.get("GTEST_OUTPUT", "").partition(":")
    if kind == "xml":
        Path(folder).mkdir(parents=True, exist_ok=True)
        for case in suite:  # XML has no place for other control characters
            for note in case:
                note.set("message", "".join(c if c.isprintable() or c == "\n" else "?" for c in note.get("message")))
        xml.etree.ElementTree.ElementTree(suite).write(Path(folder) / f"{name}.xml", encoding="utf-8", xml_declaration=True)


def main():
    file, left_out = Path(sys.argv[1]), set(sys.argv[2:])
    sys.path.insert(0, str(file.parent))
    sys.argv[:] = [str(file)]
    found = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(file.stem))
    tests = list(tests_of(found, left_out))
    known = {test.id().rpartition(".")[2] for test in tests_of(found, ())}
    if not tests or left_out - known:
        sys.exit(f"{file}: has no {', '.join(left_out - known) or 'tests'}")
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(unittest.TestSuite(tests))
    write(result.suite, file.stem)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
