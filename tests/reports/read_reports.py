"""Reads a report with Python's own csv and json, checks that both say the same, and prints every cell of the JSON.

usage: read_reports.py REPORT.csv REPORT.json
The lines are those of dump_cases() in random_report.cpp, and then the samples.
"""

import csv
import json
import struct
import sys


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def bits(number):
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def shown(value):
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text " + value.encode().hex()
    if isinstance(value, float):
        return f"real {bits(value):016x}"
    assert type(value) is int, value
    return f"int {value}"


def unguarded(cell):
    """Without the apostrophe that keeps a spreadsheet from running a text."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def same(cell, value):
    if value is None:
        return cell == ""
    if isinstance(value, str):
        return unguarded(cell) == value
    if isinstance(value, float):
        return bits(float(cell)) == bits(value)
    return int(cell) == value


def main(csv_path, json_path):
    with open(csv_path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file, strict=True))
    header = [unguarded(name) for name in header]
    with open(json_path, encoding="utf-8") as file:
        report = json.load(file, parse_constant=refuse)
    assert len(rows) == len(report["cases"])
    for i, (row, case) in enumerate(zip(rows, report["cases"])):
        assert header + ["samples_s"] == list(case), "the names and their order"
        assert len(row) == len(header)
        for name, cell in zip(header, row):
            assert same(cell, case[name]), (i, name, cell, case[name])
        fixed, further = header[:28], sorted(header[28:], key=lambda name: name.encode())
        for name in fixed + further:
            print(i, name.encode().hex(), shown(case[name]))
    for i, case in enumerate(report["cases"]):
        print(i, "samples", *(f"{bits(sample):016x}" for sample in map(float, case["samples_s"])))
    print("seed", report["seed"])


if __name__ == "__main__":
    main(*sys.argv[1:])
