"""Sums up CTest's JUnit files of one folder: the slowest tests, the time of each stage, what the long tests counted, the
skipped with their reasons, the failed, and the closing line.

usage: test_summary.py FOLDER

FOLDER holds NAME.xml for each run of CTest, NAME/PROGRAM.xml for each GoogleTest program and file of unittest that CTest ran
whole in it, NAME.failed with one line for each step that gave no results, and NAME.passed for a build that is itself a test.
stages.tsv has a line per stage: its name, its seconds, and the CPU seconds of all its processes.
Exit status 0 where something ran and nothing failed, else 1.
"""

import heapq
import re
import sys
import xml.etree.ElementTree
from pathlib import Path


def skip_reason(output):
    """The reason for skipping: GoogleTest's text after `Skipped`, unittest's after `skipped`."""
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


def read_program(file, name):
    """Yields (name, state, reason) for each case of the XML file of a GoogleTest program."""
    try:
        cases = list(xml.etree.ElementTree.parse(file).getroot().iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        yield f"{name}: {file.name}", "failed", f"its results cannot be read: {error}"
        return
    for case in cases:
        full = f"{name}: {case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None:
            yield full, "failed", "its output is above"
        elif case.get("result") == "completed":
            yield full, "passed", ""
        elif case.get("status") == "notrun":
            yield full, "skipped", "disabled in its source"
        elif case.get("result") == "skipped":
            yield full, "skipped", " ".join(note(case, "skipped").partition("\n")[2].split()) or "no reason given"
        else:
            yield full, "failed", "did not run"


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
        program = file.parent / file.stem / f"{case.get('name')}.xml"
        if program.exists():
            found = list(read_program(program, file.stem))
            yield from found
            # Apart from its cases a program can fail at its exit, for example by a leak.
            if case.get("status") == "run" or any(state == "failed" for _, state, _ in found):
                continue
        # GoogleTest prints the bytes of a parameter without a printer, which says nothing.
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
    for state in ("passed", "failed"):
        results += [(file.stem, state, file.read_text().strip()) for file in sorted(folder.glob(f"*.{state}"))]
    return results or [("all", "failed", "no tests ran")]


def readable_cases(files):
    """Yields (file, its cases) for each XML file. read_results reports unreadable ones."""
    for file in files:
        try:
            yield file, list(xml.etree.ElementTree.parse(file).getroot().iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            continue


def slowest(folder, count=10):
    """The lines of the slowest tests over all builds. A program that ran whole counts by its cases."""
    seconds = []
    for file, cases in readable_cases((*folder.glob("*.xml"), *folder.glob("*/*.xml"))):
        of = ": ".join(file.relative_to(folder).with_suffix("").parts)
        seconds += ((float(case.get("time", 0)), f"{of}: {case.get('name')}") for case in cases
                    if not (folder / of / f"{case.get('name')}.xml").exists())
    return [f"slowest  {name}: {taken:.0f} s" for taken, name in heapq.nlargest(count, seconds) if taken >= 1]


COUNTED = re.compile(r"^(?:all: )?\d+ (?:executions|injections|kills|mutants|planted faults)\b.*$", re.MULTILINE)


def counts(folder):
    """The lines in which tests labelled `long` report how much they ran."""
    for _, cases in readable_cases(sorted(folder.glob("*.xml"))):
        for case in cases:
            if case.get("name").endswith(".runs_long"):
                for line in COUNTED.findall(case.findtext("system-out") or ""):
                    yield f"counted  {case.get('name')}: {line}"


def stages(folder):
    """The lines of the stages, and of their sum."""
    file = folder / "stages.tsv"
    rows = [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []
    if rows:
        rows.append(["in all", sum(int(row[1]) for row in rows), sum(int(row[2]) for row in rows)])
    return [f"stage    {name}: {wall} s, {cpu} CPU s" for name, wall, cpu in rows]


def main():
    folder = Path(sys.argv[1])
    results = collect(folder)
    for line in (*slowest(folder), *stages(folder), *counts(folder)):
        print(line)
    for state in ("skipped", "failed"):
        for name, found, reason in results:
            if found == state:
                print(f"{state}  {name}: {reason}")
    count = {state: sum(found == state for _, found, _ in results) for state in ("passed", "failed", "skipped")}
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
