"""The console script `stbench`: starts the C++ program of this package beside the installed torch."""

import importlib.util
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.absolute()  # not resolved: in a build folder the sources are links


def environment(given):
    """The environment that the program needs, unless the user sets it."""
    variables = dict(given)
    variables.setdefault("STBENCH_PEERS", str(PACKAGE / "peers"))
    variables.setdefault("STBENCH_PYTHON", sys.executable)
    if "OMP_WAIT_POLICY" not in variables:
        variables.setdefault("GOMP_SPINCOUNT", "5000")
    folders = torch_folders()
    if folders and folders[0].parent != PACKAGE.parent / "torch":  # the program looks beside its own package first
        known = [variables["LD_LIBRARY_PATH"]] if variables.get("LD_LIBRARY_PATH") else []
        variables["LD_LIBRARY_PATH"] = ":".join([*map(str, folders), *known])
    return variables


def torch_folders():
    """The folders of torch's libraries, found without the seconds of importing it."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.origin:
        return []
    torch = Path(found.origin).parent
    return [torch / "lib", *sorted((torch.parent / "nvidia").glob("cu*/lib"))]


def main():
    program = PACKAGE / "bin" / "stbench"
    if not torch_folders():
        sys.exit("stbench: torch is not installed in this Python, and the program needs its libraries: pip install torch")
    try:
        os.execve(program, ["stbench", *sys.argv[1:]], environment(os.environ))
    except OSError as error:
        sys.exit(f"stbench: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
