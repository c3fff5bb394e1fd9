"""Reports of the program `stbench` as tables of pandas.

    cases = stbench.read_report("report.json")
    cases[cases.status == "ok"].pivot_table("gb_per_s", "method", "placement")
"""

from stbench._report import read_report
from stbench._version import __version__  # noqa: F401

__all__ = ["read_report"]
