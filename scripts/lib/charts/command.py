"""The command line of scripts/charts."""

import argparse
import sys
from functools import partial
from pathlib import Path

import reports
from charts import machines
from whole_file import write_file

NAMES = ("placements", "ratios", "row-width", "batch", "latency", "latency-distribution", "cores", "samples", "memory",
         "published")
EXAMPLES = """
  scripts/charts t.json -o t.html                  open t.html in any browser
  scripts/charts base.json new.json -o both.html   several machines, builds or days, overlaid
  scripts/charts results/*/kernels-*.json --png figures --svg figures

Reports of one program on one machine count as processes of one measurement; --each draws each by itself.
"""


class UsageError(Exception):
    """A mistake of the user; the text has one to three lines."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message}; scripts/charts --help explains")


def parse(arguments):
    parser = Parser(prog="scripts/charts", description="Charts of stbench's reports: a page that opens from disk "
                    "without a network, or pictures.", epilog=EXAMPLES,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="REPORT", type=Path, help="JSON reports (stbench --json FILE)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the page, HTML")
    parser.add_argument("--svg", metavar="DIR", type=Path, help="each figure as an SVG in this folder")
    parser.add_argument("--png", metavar="DIR", type=Path, help="each figure as a PNG in this folder")
    parser.add_argument("--each", action="store_true", help="each report by itself, none put together with others")
    parser.add_argument("--published", action="store_true", help="the figures that SpeedTorch's README published in 2019, "
                        "which are of a GPU, also where no GPU was measured")
    parser.add_argument("--only", metavar="NAME,...", help="of the pictures, these only: " + ", ".join(NAMES))
    options = parser.parse_args(arguments)
    if not (options.output or options.svg or options.png):
        raise UsageError("nothing to write: name a page with -o FILE, or a folder with --svg DIR or --png DIR")
    options.only = options.only.split(",") if options.only else None
    if unknown := set(options.only or ()) - set(NAMES):
        raise UsageError(f"--only {sorted(unknown)[0]}: no such figure; there are {', '.join(NAMES)}")
    return options


def kinds(shows_published=False):
    """(title, make function) of each figure. Altair takes most of a second to load, so mistakes are reported before."""
    from charts.figures import glance, latencies, memory, published, ratios, samples, sweeps
    return (("Where the table lives", glance.make), ("Against LibTorch's best", ratios.make),
            ("Bandwidth by row width", sweeps.by_width), ("Bandwidth by batch", sweeps.by_batch),
            ("Latency of small batches", latencies.by_batch), ("Latency as a distribution", latencies.distribution),
            ("Core scaling", sweeps.by_cores), ("All samples", samples.make),
            ("Memory", partial(memory.make, shows_published=shows_published)),
            ("Beside the published figures", partial(published.make, shows_published=shows_published)))


def figures_of(found, shows_published):
    """The figures, and (title, reason) of those left out."""
    made, missing = [], []
    for title, make in kinds(shows_published or any(machine.has_gpu for machine in found)):
        figure, why = make(found)
        if figure:
            made.append(figure)
        else:
            missing.append((title, why))
    return made, missing


def write(path, content):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def write_pictures(options, figures, found):
    from charts import render
    for figure in figures:
        if options.only and figure.name not in options.only:
            continue
        if options.svg:
            write(options.svg / f"{figure.name}.svg", render.figure_svg(figure, found).encode())
        if options.png:
            write(options.png / f"{figure.name}.png", render.figure_png(figure, found))


def run(arguments):
    options = parse(arguments)
    found = machines.gather(machines.load(options.reports), options.each)
    figures, missing = figures_of(found, options.published)
    if not figures:
        raise UsageError(f"{options.reports[0]}: nothing to draw: " + missing[0][1])
    write_pictures(options, figures, found)
    if options.output:
        from charts import page
        write(options.output, page.write(found, figures, missing).encode())
    for title, why in missing:
        print(f"charts: left out: {title}: {why}", file=sys.stderr)


def main(arguments):
    """Exit status 2 for a mistake of the user, with a message of one to three lines."""
    try:
        run(arguments)
    except (UsageError, reports.ReportError) as error:
        print(f"charts: {error}", file=sys.stderr)
        return 2
    return 0
