"""Reads reports into pandas."""

import csv
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def read_report(path: str | os.PathLike[str]) -> "pandas.DataFrame":
    """Returns the cases of a report (`--json` or `--csv`) as a pandas.DataFrame, one row per case, with the columns of
    docs/schema.md: texts as strings, whole numbers as integers (Int64 if some are missing), reals as float64.

    A JSON report also has `samples_s`, a list per case, and in `.attrs` all that is known of the run: arguments, seed,
    environment. Raises ImportError without pandas, OSError if the file cannot be read, ValueError if it is no report.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("stbench.read_report() needs pandas, which is not installed: pip install pandas") from error
    path = Path(path)
    run, cases = _of_csv(path) if path.suffix == ".csv" else _of_json(path)
    names = list(dict.fromkeys(name for case in cases for name in case))
    frame = pandas.DataFrame({name: _column(pandas, [case.get(name) for case in cases]) for name in names})
    frame.attrs.update(run)
    return frame


def _of_json(path):
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        cases = report.pop("cases")
        if not all(isinstance(case, dict) and "status" in case for case in cases):
            raise KeyError("status")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: this is no report of stbench: write one with --json FILE") from error
    return report, cases


def _of_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    if rows and "status" not in rows[0]:
        raise ValueError(f"{path}: this is no report of stbench: write one with --csv FILE")
    return {}, [{name: _value(text) for name, text in row.items()} for row in rows]


def _value(text):
    """The text of an integer cell never has a point or an exponent; that of a real number always has one."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _column(pandas, values):
    known = [value for value in values if value is not None]
    kinds = {type(value) for value in known}
    if kinds == {int}:
        return pandas.array(values, dtype="int64" if len(known) == len(values) else "Int64")
    if kinds and kinds <= {int, float}:
        return [math.nan if value is None else float(value) for value in values]
    return values
