"""Sums up CTest's JUnit files of one folder: the skipped with their reasons, the failed, and the closing line.

usage: test_summary.py FOLDER

FOLDER holds NAME.xml for each run of CTest, and NAME.failed with one line for each step that gave no results.
Exit status 0 where something ran and nothing failed, else 1.
"""

import re
import sys
import xml.etree.ElementTree
from pathlib import Path


def skip_reason(output):
    """What the test said of skipping: GoogleTest's text after `Skipped`, unittest's after `skipped`."""
    gtest = re.search(r": Skipped\n(.*?)\n*(?:\n\n|\[  SKIPPED \]|$)", output, re.DOTALL)
    if gtest and gtest[1].strip():
        return " ".join(gtest[1].split())
    unittest = re.search(r"skipped ['\"](.+)['\"]", output)
    if unittest:
        return unittest[1]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def note(case, tag):
    element = case.find(tag)
    return (element.get("message") or "") if element is not None else ""


def read_results(file):
    """Yields (name, state, reason) for each test of one JUnit file; the state is passed, failed or skipped."""
    try:
        root = xml.etree.ElementTree.parse(file).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        yield file.stem, "failed", f"its results cannot be read: {error}"
        return
    cases = list(root.iter("testcase"))
    if not cases:
        yield file.stem, "failed", "no tests were found"
    for case in cases:
        # GoogleTest's value of a parameter that cannot be printed says nothing: its bytes.
        name = f"{file.stem}: {case.get('name').split('  # GetParam()')[0]}"
        output = case.findtext("system-out") or ""
        # CTest calls a test whose program is missing "skipped" too; only a test that ran can have skipped itself.
        message = note(case, "skipped") or note(case, "failure")
        if case.get("status") == "run":
            yield name, "passed", ""
        elif case.get("status") == "disabled":
            yield name, "skipped", "disabled in its source"
        elif case.get("status") == "notrun" and message.startswith("SKIP_"):
            yield name, "skipped", skip_reason(output)
        else:
            yield name, "failed", message or ("its output is above" if case.get("status") == "fail" else "did not run")


def collect(folder):
    results = []
    for file in sorted(folder.glob("*.xml")):
        results.extend(read_results(file))
    for file in sorted(folder.glob("*.failed")):
        results.append((file.stem, "failed", file.read_text().strip()))
    return results or [("all", "failed", "no tests ran")]


def main():
    results = collect(Path(sys.argv[1]))
    for state in ("skipped", "failed"):
        for name, found, reason in results:
            if found == state:
                print(f"{state}  {name}: {reason}")
    count = {state: sum(found == state for _, found, _ in results) for state in ("passed", "failed", "skipped")}
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
