"""What every peer of stbench has in common: the lines on standard input and output, and the shared memory.

docs/peers.md has the words. A peer makes a Cell a case and calls serve(); stbench starts it with --peers NAME.
"""

import ctypes
import gc
import json
import mmap
import os
import sys
import time

PROTOCOL = 1
PR_SET_PDEATHSIG, SIGKILL = 1, 9
MADV_POPULATE_WRITE = 23


def claim_output():
    """The standard output for the lines alone: what a library prints goes where its errors go."""
    lines = os.fdopen(os.dup(1), "w", encoding="ascii", errors="replace", newline="\n")
    os.dup2(2, 1)
    return lines


LINES = claim_output()


def say(*words):
    print(*(str(word).replace("\n", " ") for word in words), file=LINES, flush=True)


def missing(what):
    """Ends the peer: what it needs is not here."""
    say("missing", what)
    sys.exit(0)


def set_affinity(cpus):
    """Of all threads: a library's workers keep the one that they were started with."""
    for thread in os.listdir("/proc/self/task") if cpus else []:
        os.sched_setaffinity(int(thread), cpus)


def map_shared(pid, fd, size, huge_pages):
    """Maps memory of stbench's, with its pages present: a fault must not be part of a sample."""
    own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        memory = mmap.mmap(own, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(own)
    if huge_pages:
        memory.madvise(mmap.MADV_HUGEPAGE)
    try:
        memory.madvise(MADV_POPULATE_WRITE)
    except OSError:  # Linux before 5.14
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = memory[page]
    return memory


class Cell:
    """One case: a direction, a table, an output, and values and index of each set.

    A peer's Cell has attach(memory, dtype, shape), which makes a tensor of its own kind over shared memory, and the
    operations to(number) and back(number) on the set of that number.
    """

    def __init__(self, request):
        self.request = request
        self.configure(request["threads"], request["device"])
        set_affinity(request["cpus"])
        self.index = [self.tensor(one) for one in request["index"]]
        self.values = [self.tensor(one) for one in request["values"]]
        self.model = self.tensor(request["model"])
        self.table = self.tensor(request["table"])
        # Names: a cell that holds methods of its own would hold itself, and its memory, for ever.
        self.steps = {"to": ("to",), "from": ("back",), "round_trip": ("back", "to")}[request["direction"]]

    def configure(self, threads, device):
        """Before anything else."""

    def before(self, sets):
        """Untimed, before a sample of these sets."""

    def finish(self):
        """Timed: returns when all work is done."""

    def after(self):
        """Untimed, after a sample."""

    def tensor(self, spec):
        size = self.item_size(spec["dtype"])
        for count in spec["shape"]:
            size *= count
        memory = map_shared(self.request["pid"], spec["fd"], size, self.request["huge_pages"])
        return self.attach(memory, spec["dtype"], spec["shape"])

    @staticmethod
    def item_size(dtype):
        return int("".join(filter(str.isdigit, dtype))) // 8

    def sample(self, first, repeat):
        """Seconds of `repeat` operations over rotating sets."""
        count = len(self.index)
        self.before(sorted({(first + k) % count for k in range(min(repeat, count))}))
        steps, number = [getattr(self, name) for name in self.steps], first
        self.finish()
        begin = time.perf_counter_ns()  # CLOCK_MONOTONIC, as stbench's own
        for _ in range(repeat):
            for step in steps:
                step(number)
            number = number + 1 if number + 1 < count else 0
        self.finish()
        seconds = (time.perf_counter_ns() - begin) / 1e9
        self.after()
        return seconds


def answer(kind, cells, line):
    word, *rest = line.split(" ", 2)
    if word == "prepare":
        cells[rest[0]] = kind(json.loads(rest[1]))
        return "ready"
    if word == "sample":
        number, first, repeat = line.split(" ")[1:]
        return f"seconds {cells[number].sample(int(first), int(repeat)):.9e}"
    if word == "release":
        cells.pop(rest[0], None)
        gc.collect()  # also where a library made a cycle: the memory is gone when the answer says so
        return "released"
    return f"error unknown request {word!r}"


def serve(kind, versions):
    """Answers line by line until `quit` or the end of the input; `kind` is the peer's Cell."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    cells = {}
    versions = {"python": ".".join(map(str, sys.version_info[:3])), **versions}
    say("hello", json.dumps({"protocol": PROTOCOL, "versions": versions}))
    gc.disable()
    gc.freeze()  # what was imported is not searched at each release
    for line in sys.stdin:
        line = line.rstrip("\n")
        if line == "quit":
            return
        try:
            say(answer(kind, cells, line))
        except Exception as error:  # whatever a library throws is this case's failure, and stbench's to report
            say("error", f"{type(error).__name__}: {error}")
