"""Describes the machine as JSON: processor, memory, system, compilers, LibTorch, GPU. No host or user names.

usage: environment.py STATE    (STATE: what scripts/setup wrote, for the LibTorch and the CUDA compiler in use)
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

GPU_FIELDS = (
    "name,driver_version,memory.total,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max,clocks.max.sm,clocks.max.mem,power.limit,mig.mode.current"
)


def output_of(*command):
    """The output of a command; None if it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def first_line(*command):
    text = output_of(*command)
    return text.splitlines()[0] if text else None


def processor():
    text = output_of("lscpu", "--json")
    if text is None:
        return {"name": platform.processor() or None}
    fields = {entry["field"].rstrip(":"): entry["data"] for entry in json.loads(text)["lscpu"]}
    return {name: value for name, value in fields.items() if not name.startswith("Vulnerability")}


def memory():
    wanted = ("MemTotal", "MemAvailable", "HugePages_Total", "Hugepagesize", "SwapTotal")
    lines = (line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    sizes = {name: value.strip() for name, value in lines if name in wanted}
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    sizes["transparent_hugepage"] = huge.read_text().strip() if huge.exists() else None
    return sizes


def system():
    try:
        release = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        release = None
    return {"name": release, "kernel": platform.release(), "machine": platform.machine()}


def setup_state(file):
    """The NAME=VALUE lines that scripts/setup wrote for the shell; empty if it did not get that far."""
    if not Path(file).exists():
        return {}
    lines = (line.split("=", 1) for line in Path(file).read_text().splitlines() if "=" in line)
    return {name: (shlex.split(value) or [""])[0] for name, value in lines}


def tools(state):
    nvcc = state.get("NVCC") or "nvcc"
    release = re.search(r"release [\d.]+, V([\d.]+)", output_of(nvcc, "--version") or "")
    return {
        "g++": first_line("g++", "--version"),
        "cmake": first_line("cmake", "--version"),
        "python": platform.python_version(),
        "nvcc": release[1] if release else None,
    }


def libtorch(state):
    """The version from LibTorch's headers, and the CUDA version that its Python package names."""
    root = Path(state.get("TORCH_ROOT") or "/nowhere")
    version = root / "version.py"
    if not version.exists():
        return {"version": None}
    names = dict(re.findall(r"^(\w+)[^=\n]*= '(.*)'$", version.read_text(), re.MULTILINE))
    return {"version": names.get("__version__"), "cuda": names.get("cuda"), "git": names.get("git_version")}


def gpus():
    text = output_of("nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader")
    if text is None:
        return []
    return [dict(zip(GPU_FIELDS.split(","), (cell.strip() for cell in line.split(",")))) for line in text.splitlines()]


def main():
    state = setup_state(sys.argv[1])
    environment = {
        "cpu": {**processor(), "allowed": len(os.sched_getaffinity(0))},
        "memory": memory(),
        "os": system(),
        "tools": tools(state),
        "libtorch": libtorch(state),
        "gpu": gpus(),
        "git": first_line("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
    }
    print(json.dumps(environment, indent=2))


if __name__ == "__main__":
    main()
