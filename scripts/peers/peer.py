"""Shared by all peers of stbench: the protocol on standard input and output, and the shared memory.

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
    """Reserves standard output for the protocol; what libraries print goes to standard error."""
    lines = os.fdopen(os.dup(1), "w", encoding="ascii", errors="replace", newline="\n")
    os.dup2(2, 1)
    return lines


LINES = claim_output()


def say(*words):
    print(*(str(word).replace("\n", " ") for word in words), file=LINES, flush=True)


def missing(what):
    """Ends the peer because something that it needs is missing."""
    say("missing", what)
    sys.exit(0)


def set_affinity(cpus):
    """Sets the affinity of all threads, because a library's workers keep that of their start."""
    for thread in os.listdir("/proc/self/task") if cpus else []:
        os.sched_setaffinity(int(thread), cpus)


def map_shared(pid, fd, size, huge_pages):
    """Maps memory of stbench with its pages present, so that no sample includes a page fault."""
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


def shared_torch_tensor(cell, spec):
    """The tensor of stbench that `spec` describes; used as a method of cells that are no Cell."""
    import torch

    size = Cell.item_size(spec["dtype"])
    for count in spec["shape"]:
        size *= count
    memory = map_shared(cell.request["pid"], spec["fd"], size, huge_pages=False)
    return torch.frombuffer(memory, dtype=getattr(torch, spec["dtype"])).view(spec["shape"])


def version_of(package):
    import importlib.metadata

    return importlib.metadata.version(package)


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
        """Called first."""

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


class Table:
    """A table that the memory suite measures from outside: allocated, filled, checked, held and freed on request.

    A peer's Table has make(size), which returns memory of its own kind, write(memory, begin, values) and
    read(memory, begin, end) on bytes of it as NumPy's uint8, and device_figures() where it uses a device.
    """

    CHUNK = 1 << 22
    WARM_UP = 4 * CHUNK  # the allocator keeps the second chunk, which it gives from its heap
    BLOCKS = 64  # that are compared with the fill, beside the first and the last

    def __init__(self, request):
        import numpy

        self.np, self.request, self.memory = numpy, request, None
        set_affinity(request["cpus"])
        small = self.make(self.WARM_UP)  # what libraries take for themselves is no part of the table
        self.fill(small, self.WARM_UP)
        self.differing(small, 1, self.WARM_UP)

    def device_figures(self):
        return {}

    def fill_of(self, begin, end):
        """The fill's bytes from begin to end: each 8-byte word differs, by its position and the seed."""
        first, last = begin // 8, -(-end // 8)
        words = self.np.arange(first, last, dtype=self.np.uint64)
        words += self.np.uint64(self.request["seed"] % 2**63)
        words *= self.np.uint64(0x9E3779B97F4A7C15)
        return words.view(self.np.uint8)[begin - first * 8 : end - first * 8]

    def fill(self, memory, size):
        for begin in range(0, size, self.CHUNK):
            end = min(size, begin + self.CHUNK)
            self.write(memory, begin, self.fill_of(begin, end))

    def differing(self, memory, rows, width):
        """(rows compared, rows that differ, the first of these in words), for blocks of rows with the first and the last."""
        block = max(1, (1 << 18) // width)
        starts = {0, max(0, rows - block), *range(0, rows, max(block, rows // self.BLOCKS))}
        compared, differ, first, done = 0, 0, "", 0
        for start in sorted(starts):
            start, end = max(start, done), min(rows, start + block)
            if start >= end:
                continue
            done = end
            found = self.read(memory, start * width, end * width) != self.fill_of(start * width, end * width)
            wrong = self.np.flatnonzero(found.reshape(-1, width).any(axis=1))
            if len(wrong) and not first:
                first = f"row {start + int(wrong[0])} of the table"
            compared, differ = compared + end - start, differ + len(wrong)
        return compared, differ, first

    def allocate(self):
        rows, width = self.request["touched_rows"], self.request["row_bytes"]
        begin = time.perf_counter()
        self.memory = self.make(self.request["rows"] * width)
        made = time.perf_counter()
        self.fill(self.memory, rows * width)
        seconds = {"pin_s" if self.request["placement"] == "pinned" else "allocate_s": made - begin,
                   "fill_s": time.perf_counter() - made}
        compared, differ, first = self.differing(self.memory, rows, width)
        return {"verified_rows": compared, "mismatches": differ, "first": first, **seconds, **self.device_figures()}

    def free(self):
        self.memory = None
        gc.collect()
        return self.device_figures()


def answer_about_table(kind, cells, word, rest):
    if word == "hold":
        cells["table"] = kind(json.loads(" ".join(rest)))
        return f"ready {json.dumps(cells['table'].device_figures())}"
    if word == "allocate":
        return f"held {json.dumps(cells['table'].allocate())}"
    return f"freed {json.dumps(cells['table'].free())}"


def answer(kind, table, cells, line):
    word, *rest = line.split(" ", 2)
    if table and word in ("hold", "allocate", "free"):
        return answer_about_table(table, cells, word, rest)
    if word == "prepare":
        cells[rest[0]] = kind(json.loads(rest[1]))
        return "ready"
    if word == "sample":
        number, first, repeat = line.split(" ")[1:]
        return f"seconds {cells[number].sample(int(first), int(repeat)):.9e}"
    if word == "read":
        cells[rest[0]].read(int(rest[1]))
        return "read"
    if word == "release":
        cells.pop(rest[0], None)
        gc.collect()  # also where a library made a cycle: the memory is gone when the answer says so
        return "released"
    return f"error unknown request {word!r}"


def serve(kind, versions, table=None):
    """Answers request by request until `quit` or the end of the input; `kind` is the peer's Cell, `table` its Table."""
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
            say(answer(kind, table, cells, line))
        except Exception as error:  # whatever a library throws is this case's failure, and stbench's to report
            say("error", f"{type(error).__name__}: {error}")
