#!/usr/bin/env python3
"""Runs a fuzz target of libFuzzer for so many seconds of processor time, and says how many inputs it took.

What it finds new is kept in NAME-found beside the program, and the next run begins with it. STBENCH_SEED in the environment is
the seed (1). Exit status: 0 nothing was found, 1 an input broke the target: it lies beside the program, and its output is
shown."""

import argparse
import math
import os
import re
import resource
import subprocess
import sys
from pathlib import Path


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="of processor time (60)")
    parser.add_argument("--malloc-limit-mb", type=int, default=16, help="that no single allocation may pass (16)")
    return parser.parse_args()


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    options = arguments()
    name = options.program.name
    found = options.program.parent / f"{name}-found"
    found.mkdir(exist_ok=True)
    seed = int(os.environ.get("STBENCH_SEED", "1"))
    executions, turns = 0, 0
    # libFuzzer's limit is of time that passes, of which a busy machine gives it a part.
    while (left := options.seconds - processor_seconds()) > 0:
        turns += 1
        done = subprocess.run(
            [options.program.resolve(), f"-max_total_time={math.ceil(left)}", f"-seed={1000 * seed + turns}", "-timeout=60",
             "-max_len=4096", f"-malloc_limit_mb={options.malloc_limit_mb}", "-verbosity=0", "-print_final_stats=1",
             f"-artifact_prefix={options.program.parent}/{name}-", found, options.corpus],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        units = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
        executions += int(units[1]) if units else 0
        if done.returncode or not units:
            print(done.stdout[-12000:])
            print(f"{name}: broken, after {executions} executions")
            return 1
    print(f"{executions} executions of {name} in {processor_seconds():.0f} s of processor time, seed {seed}, "
          f"{len(list(found.iterdir()))} inputs found beside the corpus")
    return 0


if __name__ == "__main__":
    sys.exit(main())
