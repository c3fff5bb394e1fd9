"""The texts of the page: the conclusions of the reports, the caveats, how it was measured."""

from collections import Counter

from charts.words import clean, counted, listed_case

LONGEST = 60  # lines of one list
HOW = (
    "Every number comes from rows that were compared, bit by bit, with a reference copy, before the first and after "
    "the last sample; a wrong result has no number.",
    "The methods of one comparison group ran in interleaved, seeded rounds, so that a drift of the machine's speed "
    "meets all of them; index sets rotate, so that the same rows are not hot; the destination is poisoned outside the "
    "timed part.",
    "A time is the median of the samples; its interval is the order-statistic 95 % interval. A row is unstable where "
    "that is wider than ±10 %, or where it is faster than the ceiling and caches cannot explain it.",
    "The ceiling is measured, never nominal: the same number of bytes, contiguous, over the same path, in the same "
    "rounds. GB are 10^9 bytes of payload a second; KiB, MiB and GiB are powers of two.",
)


def named_reports(machine):
    return zip(machine.names, machine.reports)


def conclusions(machine):
    """[(file, sentences)] of the reports that have a conclusion: the program's own, and no other is drawn here."""
    return [(clean(name, 60), [clean(sentence, 1000) for sentence in report["conclusion"]])
            for name, report in named_reports(machine) if report["conclusion"]]


def without_conclusion(machine):
    """The files of reports that are older than the field."""
    return [clean(name, 60) for name, report in named_reports(machine) if report["conclusion"] is None]


def warnings_of(machine):
    """The warnings of the reports, and the caveats about them."""
    found = []
    for name, report in named_reports(machine):
        found += [f"{clean(name)}: {clean(warning)}" for warning in report["warnings"]]
        if report["interrupted"]:
            found.append(f"{clean(name)}: the run was interrupted; only the cases that were finished are here.")
        build = report["environment"].get("build", {})
        if build.get("git_dirty"):
            found.append(f"{clean(name)}: built from sources with changes that no revision names.")
        if build.get("build_type") not in (None, "Release"):
            found.append(f"{clean(name)}: a {clean(str(build['build_type']), 40)} build; its speed says little.")
        if throttled := sum(case["throttled"] or 0 for case in report["cases"]):
            found.append(f"{clean(name)}: {counted(throttled, 'sample')} taken while the device was throttled.")
    processes = len(machine.reports)
    if processes == 1:
        found.append("One process: on a shared machine, two of the same can differ by half; five show how much.")
    return found


def grouped_reasons(machine, status):
    """[(reason, how many cases, some of them)], the most frequent reason first."""
    counts, examples = Counter(), {}
    for _, report in named_reports(machine):
        for case in report["cases"]:
            if case["status"] == status:
                reason = clean(case["reason"]) or "no reason given"
                counts[reason] += 1
                examples.setdefault(reason, clean(listed_case(case)))
    return [(reason, count, examples[reason]) for reason, count in counts.most_common()]


def unstable_rows(machine):
    """(number of unstable cases, one line per case with its number of processes and the first reason)."""
    lines = {}
    for _, report in named_reports(machine):
        for case in report["cases"]:
            if case["status"] == "unstable":
                lines.setdefault(clean(listed_case(case)), []).append(clean(case["reason"]))
    made = [(line, f"{reasons[0]}" + (f" (in {len(reasons)} processes)" if len(reasons) > 1 else ""))
            for line, reasons in lines.items()]
    left = len(made) - LONGEST
    rest = [(f"and {counted(left, 'further case')}", "see the reports")] if left > 0 else []
    return len(made), made[:LONGEST] + rest
