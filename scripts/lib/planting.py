"""For scripts/mutants and scripts/emulated-faults: copies of the sources, in which one fault at a time is planted and built."""

import contextlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_PROCESSES = 100  # of one command: a program with a fault may start itself without end


def bound(seconds):
    """Limits a process: a fault may allocate or compute forever. A busy machine does not change processor time."""
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    resource.setrlimit(resource.RLIMIT_DATA, (half, half))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def processes_of(mark):
    """All that inherited the mark in their environment, whatever has become of their parents."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def kill_all(mark):
    """Until none is left: what is killed may have started another just now."""
    while found := processes_of(mark):
        for one in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        time.sleep(0.01)


def run(*command, timeout=None, cpu_seconds=None, environment=None):
    """The finished process, with its output as text; None if it took longer or started too many processes. Then all of them end."""
    end = time.monotonic() + (timeout or math.inf)
    mark = uuid.uuid4().hex
    marked = {**os.environ, **(environment or {}), "STBENCH_PLANTED_RUN": mark}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=marked, preexec_fn=(lambda: bound(cpu_seconds)) if cpu_seconds else None) as process:
        while True:
            try:
                process.stdout_text, _ = process.communicate(timeout=0.5)
                return process
            except subprocess.TimeoutExpired:
                if time.monotonic() > end or len(processes_of(mark)) > MOST_PROCESSES:
                    kill_all(mark)
                    return None


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Worker:
    """A copy of the sources, and the programs built from it."""

    def __init__(self, folder, files, programs, configure):
        """`files`: those in which faults are planted. Each is compiled by itself, not in a batch."""
        self.sources = folder / "sources"
        self.build_folder = self.sources / "build" / "release"  # as in the checkout, so that ccache reuses its compilations
        for old in self.sources.iterdir() if self.sources.exists() else ():
            if old.name != "build":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        for name in run("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard").stdout_text.splitlines():
            target = self.sources / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        for name in files:  # the build of an earlier run may contain its fault
            (self.sources / name).touch()
        known = ROOT / "build" / "setup.cmake"
        done = run("cmake", *(("-C", str(known)) if known.exists() else ()), "-S", str(self.sources), "-B", str(self.build_folder),
                   "-G", "Ninja", f"-DSTBENCH_ALONE={';'.join(files)}", *configure)
        if done.returncode:
            sys.exit(done.stdout_text[-3000:])
        built = self.build(programs)
        if built.returncode:
            sys.exit(built.stdout_text[-3000:])

    def build(self, programs):
        return run("ninja", "-C", str(self.build_folder), *sorted(programs),
                   environment={"CCACHE_BASEDIR": str(self.sources), "CCACHE_NOHASHDIR": "1",
                                "CCACHE_SLOPPINESS": "pch_defines,time_macros"})

    def program(self, name):
        return self.build_folder / "bin" / name

    @contextlib.contextmanager
    def planted(self, file, change):
        """While it is open, the copy of `file` has its text changed by `change`."""
        path = self.sources / file
        original = path.read_text()
        path.write_text(change(original))
        try:
            yield
        finally:
            path.write_text(original)
