"""The texts of the page: what to do on this machine, the caveats, how it was measured."""

from collections import Counter

from charts.slices import main_shape, of_shape
from charts.words import PAGES, clean, counted, listed, listed_case, percent, rank, rate, times

VERBS = {"to": "looks up", "from": "writes back"}
SIDES = {"to": "looking up", "from": "writing back"}
ALIKE = 1.05  # between two placements no more than noise on a shared machine
SIMPLEST = ("device", "pinned", "hugepage", "pageable", "libtorch", "mapped")
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


def fastest(cases, wanted):
    return min(filter(wanted, cases), key=lambda case: case.seconds, default=None)


def rival(cases, ours):
    """LibTorch's best in its own tensor, or else in our placement."""
    for placement in ("libtorch", ours.placement):
        theirs = fastest(cases, lambda case: case.role == "libtorch" and case.direction == ours.direction
                         and case.placement == placement)  # noqa: B023
        if theirs:
            return theirs
    return None


def against(ours, theirs):
    """How much faster, unless the intervals overlap or a row is unstable."""
    if not theirs:
        return ""
    intervals = [case.interval() for case in (ours, theirs)]
    known = all(end is not None for interval in intervals for end in interval)
    apart = known and (intervals[0][1] < intervals[1][0] or intervals[1][1] < intervals[0][0])
    if not apart or ours.is_unstable or theirs.is_unstable:
        return ", not decided against LibTorch's best"
    return f", {times(theirs.seconds / ours.seconds)} than LibTorch's best"


def best_place(cases):
    """{direction: our fastest case} in the placement where gather and scatter together take least, or in a simpler
    placement that is as good."""
    places = {}
    for case in cases:
        if case.role == "ours" and case.direction in VERBS:
            there = places.setdefault((case.device, case.placement), {})
            if case.direction not in there or case.seconds < there[case.direction].seconds:
                there[case.direction] = case
    whole = max(map(len, places.values()), default=0)
    took = {place: sum(case.seconds for case in there.values()) for place, there in places.items()
            if len(there) == whole}
    near = [place for place in took if took[place] <= ALIKE * min(took.values())]
    return places[min(near, key=lambda place: (rank(place[1], SIMPLEST), took[place]))] if near else {}


def headline(machine):
    """What to do with a table on this machine, in one sentence."""
    wanted = main_shape(machine)
    cases = of_shape(machine, wanted) if wanted else []
    best = best_place(cases)
    if not best:
        return memory_headline(machine)
    some = next(iter(best.values()))
    if any(case.is_unstable for case in best.values()):
        return "Not decided where to keep such a table: the fastest rows are unstable. Measure again on a quiet machine."
    speeds = []
    for direction in sorted(best, key=list(VERBS).index):
        ours = best[direction]
        speeds.append(f"{VERBS[direction]} {rate(ours.gb_per_s)}{against(ours, rival(cases, ours))}")
    return f"Keep such a table in {PAGES.get(some.placement, some.placement)}: {some.method} {', and '.join(speeds)}."


def memory_headline(machine):
    found = [case for case in machine.cases if case.suite == "memory" and case.middle("overhead_ratio")]
    if not found:
        return "Nothing was measured here that says where a table should live."
    worst = max(found, key=lambda case: case.middle("overhead_ratio"))
    return f"A table costs at most {worst.middle('overhead_ratio'):.3f} times its bytes here " \
           f"({worst.method} in {PAGES.get(worst.placement, worst.placement)})."


def headline_about(machine):
    """The table that the sentence is about, and the speeds as a share of the memory's ceiling."""
    wanted = main_shape(machine)
    if not wanted:
        return ""
    cases = of_shape(machine, wanted)
    best = best_place(cases)
    shares = [f"{percent(share)} of the ceiling {SIDES[direction]}" for direction, case in sorted(best.items())[::-1]
              if (share := case.middle("copy_fraction")) is not None]
    case = next(iter(best.values()), cases[0])
    return f"A table of {case.rows:,} × {case.dim:,} {case.dtype}, {case.batch:,} rows a batch, {case.index_dtype} " \
           f"{case.distribution} indices, on {counted(case.cores, 'core')}" \
           + (f": {listed(shares)}" if shares else "") \
           + (f"; medians over {len(case.cases)} processes." if len(case.cases) > 1 else ".")


def named_reports(machine):
    return zip(machine.names, machine.reports)


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
