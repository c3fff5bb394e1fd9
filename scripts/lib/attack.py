"""Shared by scripts/inject and scripts/kill-storm: the commands that write files, and what must be true afterwards."""

import csv
import errno
import fnmatch
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120  # a command that takes longer hangs: each takes about one
OLD = "what was here before\n"

# The first system call of main(), in stbench and in file_program. Earlier calls in a log belong to the start of the C
# library, LibTorch and OpenMP, not to this project.
BEGIN = "fcntl(0, F_GETFD"

# The system's error texts. A message with only such a text does not name the thing.
BARE = {os.strerror(number) for number in errno.errorcode} | {"std::bad_alloc"}

RUN = ("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--method", "speedtorch,copy", "--rows", "1k",
       "--batch", "100", "--cores", "1", "--device", "cpu", "--samples", "3")
REPORTS = ("r.json", "r.csv", "t.json")
RUN_REPORTS = (*RUN, "--json", "r.json", "--csv", "r.csv", "--trace", "t.json")
COMPARISONS = ("c.json", "c.csv", "c.md")
COMPARE = ("compare", "a.json", "a.json", "--json", "c.json", "--csv", "c.csv", "--markdown", "c.md")
BASELINE = "baselines/main/1.json"


@dataclass(frozen=True)
class Job:
    """A command, and the files that it writes in its working directory."""
    name: str
    program: str  # stbench, file_program or word2vec
    words: tuple
    files: tuple = ()  # "x-*.json": a file whose name depends on the machine
    replaces: bool = False  # the files exist before
    same: bool = True  # files and output are the same bytes in each run; else files are checked by their format
    fresh: bool = False  # the program refuses existing files
    lines: tuple = ()  # of the files, those that grow by lines: an interrupted command leaves the first of them
    check: tuple = ()  # the words of a command for what is left, which must succeed; the files are then changed in place
    spared: tuple = ()  # calls that do not fail
    kept: tuple = ()  # files that an interrupted command may leave, and that `check` removes


def library(kind, file, **options):
    return Job(kind, "file_program", (kind, file), (file,), **options)


TEXT = str(ROOT / "tests/data/us-constitution.txt")
VECTORS = ("v.checkpoint", "v.npy", "v.txt")


def row_cache(writes, **options):
    return library(f"row_cache_{writes}", "t.npy", check=(f"cached_{writes}", "t.npy"), **options)


# GNU's OpenMP ends a program for which it can start no thread. LibTorch's c10d does so too, or waits for ever.
THREADS = ("clone", "clone3", "mmap", "mprotect")
# Calls of LibTorch by which ranks meet and talk. Its libuv ends the process if a pipe to itself fails.
GROUP = (*THREADS, "socket", "bind", "listen", "accept4", "connect", "recvmsg", "poll", "pipe2", "write")
SHARDS = tuple(f"shards/{name}" for name in ("shard-0.npy", "shard-1.npy", "manifest.json"))
STATES = tuple(f"states/{name}" for name in ("exp_avg.npy", "exp_inf.npy", "steps.npy", "optimizer.txt"))
JOBS = {job.name: job for job in (
    Job("run", "stbench", RUN_REPORTS, REPORTS, same=False),
    Job("run-over", "stbench", RUN_REPORTS, REPORTS, replaces=True, same=False),
    Job("baseline", "stbench", (*RUN, "--save-baseline", "main"), (BASELINE,), same=False),
    Job("baseline-over", "stbench", (*RUN, "--save-baseline", "main"), (BASELINE,), replaces=True, same=False),
    Job("processes", "stbench", (*RUN, "--processes", "2", "--save-baseline", "main"), (BASELINE, "baselines/main/2.json"),
        same=False),
    Job("events", "stbench", (*RUN, "--events", "e.jsonl", "--benchmark_out", "b.json"), ("e.jsonl", "b.json"), replaces=True,
        same=False, lines=("e.jsonl",)),
    Job("calibrate", "stbench", ("calibrate", *RUN, "--processes", "3"), ("baselines/calibration-*.json",), same=False),
    Job("compare", "stbench", COMPARE, COMPARISONS, replaces=True),
    Job("history", "stbench", ("history", "a.json", "a.json", "--csv", "h.csv"), ("h.csv",), replaces=True),
    Job("show", "stbench", ("show", "a.json")),
    Job("show-csv", "stbench", ("show", "a.csv")),
    Job("dry-run", "stbench", (*RUN, "--dry-run")),
    Job("list", "stbench", ("list",)),
    Job("schema", "stbench", ("schema",)),
    Job("man", "stbench", ("man",)),
    Job("completion", "stbench", ("completion", "bash")),
    Job("doctor", "stbench", ("doctor", "--json"), same=False),
    library("save_npy", "t.npy", replaces=True),
    library("save_torch", "t.pt", replaces=True),
    library("checkpoint", "c.pt", replaces=True, same=False),  # LibTorch's optimizers save addresses
    library("contiguous", "o.pt", replaces=True),
    library("mapped", "m.npy", fresh=True),
    library("shared", "s.npy", fresh=True),
    row_cache("through"),
    row_cache("back", kept=(".t.npy.journal",)),
    Job("factory", "file_program", ("factory", "states"), STATES, fresh=True),
    Job("sharded", "file_program", ("sharded", "shards"), SHARDS, fresh=True, spared=GROUP),
    Job("word2vec", "word2vec", (TEXT, "--out", "v", "--dim", "8", "--steps", "2"), VECTORS,
        spared=THREADS),
    Job("tune", "file_program", ("tune", "-"), ("cache/speedtorch/plan-*",), same=False),
)}


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_", "BENCHMARK_"))}
    # With a spin count the program does not restart itself. No line is so long that it is wrapped.
    return kept | {"GOMP_SPINCOUNT": "5000", "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C", "COLUMNS": "1000"} | changes


@dataclass
class Outcome:
    status: int | None  # minus the signal that ended it; None if it hung
    out: str
    err: str
    files: dict = field(default_factory=dict)  # name: bytes
    seconds: float = 0  # from its start to its end


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Unusable(RuntimeError):
    """A command fails undisturbed, or cannot be observed."""


class Bench:
    """The programs, the input files of commands, and the results of each job's undisturbed command."""

    def __init__(self, program, file_program, word2vec):
        self.programs = {"stbench": str(program), "file_program": str(file_program), "word2vec": str(word2vec)}
        self.root = Path(tempfile.mkdtemp(prefix="stbench-attack-"))
        self.inputs = {}
        self.whole = {}  # by the job's name
        folder = self.folder()
        done = self.run((self.programs["stbench"], *RUN, "--json", "a.json", "--csv", "a.csv"), folder)
        if done.status != 0:
            raise Unusable(f"a run without a fault fails: {done.err}")
        self.inputs = contents(folder)

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def folder(self):
        return Path(tempfile.mkdtemp(dir=self.root))

    def command(self, job):
        return (self.programs[job.program], *job.words)

    def run(self, command, folder, kill_after=None, keep=True):
        """Runs the command in the folder. TMPDIR is in it too, so leftovers there are found, and so is the user's cache."""
        (folder / "tmp").mkdir(exist_ok=True)
        begun = time.monotonic()
        own = environment(TMPDIR=str(folder / "tmp"), XDG_CACHE_HOME=str(folder / "cache"))
        process = subprocess.Popen(command, cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=SECONDS if kill_after is None else kill_after)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = None if kill_after is None else -signal.SIGKILL
        seconds = time.monotonic() - begun
        return Outcome(status, out.decode(errors="replace"), err.decode(errors="replace"), contents(folder) if keep else {},
                       seconds)

    def files(self, job, found=()):
        """The names of the job's files. One that depends on the machine is among `found`, or is that of its undisturbed run."""
        learned = self.whole[job.name].files if job.name in self.whole else ()
        return [(fnmatch.filter(found, name) or fnmatch.filter(learned, name) or [name])[0] for name in job.files]

    def before(self, job):
        """Prepares the folder for the job's command: a file that is replaced has an earlier version."""
        files = dict(self.inputs) if job.program == "stbench" else {}
        return files | (dict.fromkeys(job.files, OLD.encode()) if job.replaces else {})

    def prepared(self, job):
        folder = self.folder()
        put(folder, self.before(job))
        return folder

    def learn(self, job, prefix=()):
        """Runs the job undisturbed and keeps its files and output, for comparison."""
        folder = self.prepared(job)
        done = self.run((*prefix, *self.command(job)), folder)
        self.whole[job.name] = done
        if done.status != 0 or any(name not in done.files for name in self.files(job)):
            raise Unusable(f"{job.name}, undisturbed: exit status {done.status}, files {sorted(done.files)}: {done.err}")
        if faults := faults_of(self, job, done, folder):
            raise Unusable(f"{job.name}, undisturbed: {'; '.join(faults)}")
        shutil.rmtree(folder)


def is_whole(name, content, like):
    """True if a file or text of a run is complete: it has as many cases or lines as that of another run."""
    try:
        if name.endswith(".pt"):
            archive, wanted = (zipfile.ZipFile(io.BytesIO(one)) for one in (content, like))
            return archive.testzip() is None and len(archive.namelist()) == len(wanted.namelist())
        text, other = content.decode(), like.decode()
        if name.endswith(".csv"):
            rows, others = (list(csv.reader(io.StringIO(one, newline=""), strict=True)) for one in (text, other))
            # If each case failed, columns that need a time are missing.
            return (text.endswith("\n") and len(rows) == len(others) and set(rows[0]) <= set(others[0])
                    and all(len(row) == len(rows[0]) for row in rows))
        if name.endswith(".jsonl"):
            return are_events(content) and text.endswith("\n") and json.loads(text.splitlines()[-1])["event"] == "end"
        if not name.endswith(".json"):
            return text.endswith("\n") == other.endswith("\n") and text.count("\n") == other.count("\n")
        report, wanted = json.loads(text), json.loads(other)
        return report.keys() == wanted.keys() and len(report.get("cases", [])) == len(wanted.get("cases", []))
    except (ValueError, zipfile.BadZipFile):
        return False


def are_events(content):
    """True if a file has lines of --events and at most a part of one behind them."""
    try:
        return all("event" in json.loads(line) for line in content.split(b"\n")[:-1])
    except ValueError:
        return False


def faults_of_files(bench, job, found):
    """Faults of the job's files: each must be the old one, or the new one and whole. Also returns the new ones."""
    old, whole = bench.before(job), bench.whole[job.name].files
    faults, new = [], []
    for name, like in zip(bench.files(job, found), bench.files(job)):
        content = found.get(name)
        if content == whole[like] or (content is not None and not job.same and is_whole(name, content, whole[like])):
            new.append(name)
        elif content != old.get(name) and not may_be_part(job, name, content):
            faults.append(f"{name} is {'missing' if content is None else 'torn'}")
    if job.fresh and 0 < len(new) < len(job.files):
        faults.append(f"of {len(job.files)} files that appear together only {', '.join(new)} did")
    return faults, new


def may_be_part(job, name, content):
    """True if an interrupted command may leave this of a file. What `check` reads is judged there."""
    return content is not None and (bool(job.check) or (name in job.lines and are_events(content)))


def faults_of_rest(bench, job, folder):
    """Faults that the job's check finds in what a command left, disturbed or not."""
    if not job.check:
        return []
    done = bench.run((bench.programs[job.program], *job.check), folder, keep=False)
    faults = [] if done.status == 0 else [f"{' '.join(job.check)}, then: exit status {done.status}: {done.err.strip()[-200:]}"]
    return faults + [f"left behind by {job.check[0]}: {name}" for name in job.kept if (folder / name).exists()]


def is_temporary(bench, job, name):
    """True for a leftover that a killed process may have of the job's files or their folder."""
    stems = {part for file in bench.files(job) for part in (Path(file).name, Path(file).parent.name) if part}
    stems |= {"stbench-processes", "stbench-memory"}
    pattern = "|".join(map(re.escape, sorted(stems)))
    return any(re.fullmatch(rf"\.(?:{pattern})\.new-[0-9a-f]{{16}}", part) for part in Path(name).parts)


def other_names(bench, job, folder):
    """What is in the folder at the end and belongs neither to the job's files nor to those before."""
    found = names(folder)
    known = set(bench.before(job)) | set(bench.files(job, found)) | set(job.kept)
    return sorted(found - known - {str(parent) for name in known for parent in Path(name).parents} - {"tmp", "baselines"})


def faults_of_end(bench, job, done, stderr_was_hit=False):
    """Faults of exit status, messages and output, for an end without a signal."""
    if done.status is None:
        return [f"hangs: still running after {SECONDS} s"]
    if done.status < 0 or done.status >= 128:
        return [f"ended by signal {-done.status if done.status < 0 else done.status - 128}"]
    failed = 3 if job.program == "file_program" else 2
    if done.status not in (0, failed):
        return [f"exit status {done.status}"]
    if done.status == 0:
        printed = bench.whole[job.name].out
        kind = "text.json" if printed.startswith("{") else "text"
        whole = done.out == printed if job.same else is_whole(kind, done.out.encode(), printed.encode())
        return [] if whole or job.program != "stbench" else ["exit status 0, and not all of its text was printed"]
    if stderr_was_hit:
        return []
    said = re.findall(r"^(?:stbench|speedtorch|memory|libtorch|word2vec): (.*)", done.err, re.MULTILINE)
    said += re.findall(r"^  failed (.*)", done.out, re.MULTILINE)  # the table's line of a case that failed
    if not said:
        return ["no message"]
    return [f"a message that names nothing: {line}" for line in said if line.strip() in BARE]


def faults_of(bench, job, done, folder, stderr_was_hit=False, removal_was_hit=False):
    """All faults of a command that was disturbed and not killed."""
    faults = faults_of_end(bench, job, done, stderr_was_hit)
    of_files, new = faults_of_files(bench, job, done.files)
    faults += of_files
    faults += [f"left behind: {name}" for name in other_names(bench, job, folder)
               if not (removal_was_hit and is_temporary(bench, job, name))]
    if done.status == 0 and len(new) < len(job.files):
        faults.append(f"exit status 0 without {', '.join(sorted(set(bench.files(job)) - set(new)))}")
    return faults + faults_of_rest(bench, job, folder)


def chosen(text):
    unknown = [name for name in text.split(",") if name not in JOBS]
    if unknown:
        raise SystemExit(f"no such job: {', '.join(unknown)}; there are {', '.join(JOBS)}")
    return [JOBS[name] for name in text.split(",")]


def part(text):
    """"2/5" as (2, 5)."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not match or int(match[1]) > int(match[2]):
        raise SystemExit(f"--part {text}: write K/N, such as 2/5")
    return int(match[1]), int(match[2])


def share(number, which):
    """The part's share of the whole number; the parts add up."""
    k, n = which
    return number * k // n - number * (k - 1) // n


def add_options(parser, number):
    binaries = ROOT / "build" / "release" / "bin"
    parser.add_argument("--number", type=int, default=number, help=f"over all parts ({number})")
    parser.add_argument("--seed", type=int, default=1, help="seed of all choices (1)")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="K/N", help="the K-th of N parts; each draws separately")
    parser.add_argument("--jobs", type=chosen, default=list(JOBS.values()), metavar="LIST", help=f"of {', '.join(JOBS)} (all)")
    parser.add_argument("--program", type=Path, default=binaries / "stbench", metavar="PATH", help="stbench")
    parser.add_argument("--file-program", type=Path, default=binaries / "file_program", metavar="PATH")
    parser.add_argument("--word2vec", type=Path, default=binaries / "example_word2vec", metavar="PATH")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--at-once", type=int, default=cores, metavar="N", help=f"commands at a time ({cores})")


def in_parallel(at_once, work, items):
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items)


class Strace:
    """Runs commands under strace. `reason` says why it cannot; empty if it can."""

    def __init__(self):
        self.reason = ""
        if not shutil.which("strace"):
            self.reason = "strace is missing (Debian: strace)"
            return
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
        if done.returncode:
            self.reason = f"strace cannot trace here: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}"

    @staticmethod
    def command(calls, log, injected=""):
        traced = f"trace={','.join(calls)},fcntl"
        quick = () if "signal=" in injected else ("--seccomp-bpf",)  # with it strace 6.1 injects errors, but sends no signal
        return ("strace", "-f", *quick, "-qq", "-o", str(log), "-e", traced, "-e", "signal=none",
                *(("-e", f"inject={injected}") if injected else ()))


@dataclass(frozen=True)
class Point:
    """The n-th call of this kind that a thread makes, after main() has begun."""
    call: str
    number: int


def points(log, calls):
    """The points of a log, in order. A number that another thread reaches before main() begins does not count."""
    counts, begun, early, found = {}, False, {}, []
    for line in log.splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not match:
            continue
        thread, call, rest = match.groups()
        begun = begun or f"{call}({rest}".startswith(BEGIN)
        counts[thread, call] = counts.get((thread, call), 0) + 1
        if not begun:
            early[call] = counts[thread, call]
        elif call in calls and counts[thread, call] > early.get(call, 0):
            found.append(Point(call, counts[thread, call]))
    if not begun:
        raise Unusable("the log does not show where the program begins")
    return list(dict.fromkeys(found))
