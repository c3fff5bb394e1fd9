"""The built program, for the tests that run it: CTest names it, by hand it is the release build's."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import warm_start

PROGRAM = Path(os.environ.get("STBENCH_PROGRAM") or ROOT / "build/release/bin/stbench")


def require_program():
    """Its path. A program that is missing is an error, not a reason to skip."""
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM}: build it first, or name one in STBENCH_PROGRAM")
    return PROGRAM


def run_program(*arguments, folder):
    return warm_start.run(require_program(), arguments, folder, dict(os.environ), timeout=300)
