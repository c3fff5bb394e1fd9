"""Writes into a wheel what is known after its build: the torch that it needs, and the oldest Linux that it runs on. Refuses one
without the licence.

usage: finish_wheel.py WHEEL FOLDER TORCH_VERSION

Prints the path of the finished wheel in FOLDER."""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
# manylinux's versions of glibc, and the newest libstdc++ of each (PEP 600, auditwheel's policies).
LIBSTDCXX = {(2, 34): (3, 4, 29), (2, 35): (3, 4, 30), (2, 39): (3, 4, 33)}


def version(text):
    return tuple(int(part) for part in text.split("."))


def newest(files, name):
    """The newest symbol version `name_X` that the binaries need."""
    found = {version(number) for file in files for number in re.findall(
        rf"\({name}_([0-9.]+)\)", subprocess.run(["objdump", "-T", file], check=True, capture_output=True, text=True).stdout)}
    return max(found, default=(0,))


def platform_tag(files):
    glibc, libstdcxx = newest(files, "GLIBC"), newest(files, "GLIBCXX")
    for least, has in sorted(LIBSTDCXX.items()):
        if glibc <= least and libstdcxx <= has:
            return f"manylinux_{least[0]}_{least[1]}_{platform.machine()}"
    return f"linux_{platform.machine()}"


def torch_range(built_with):
    major, minor = version(built_with)[:2]
    return f"torch<{major}.{minor + 1},>={major}.{minor}"


def replace(file, pattern, text):
    changed, number = re.subn(pattern, text, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if number != 1:
        sys.exit(f"finish_wheel.py: {file.name} has {number} lines that match {pattern}")
    file.write_text(changed, encoding="utf-8")


def require_license(about):
    """Ends the program unless a wheel's folder *.dist-info has the licence, where PEP 639 wants it."""
    copy = about / "licenses/LICENSE"
    if not copy.is_file() or copy.read_bytes() != LICENSE.read_bytes():
        sys.exit(f"finish_wheel.py: {about.name}/licenses/LICENSE is not the text of LICENSE; see license-files in pyproject.toml")


def call(*arguments):
    subprocess.run([sys.executable, "-m", "wheel", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def main(wheel, folder, built_with):
    with tempfile.TemporaryDirectory() as place:
        call("unpack", "--dest", place, wheel)
        tree, = Path(place).iterdir()
        about, = tree.glob("*.dist-info")
        require_license(about)
        binaries = [file for file in tree.rglob("*") if file.is_file() and file.open("rb").read(4) == b"\x7fELF"]
        replace(about / "METADATA", r"^Requires-Dist: torch.*$", f"Requires-Dist: {torch_range(built_with)}")
        replace(about / "WHEEL", r"^(Tag: [^-]+-[^-]+)-.*$", rf"\1-{platform_tag(binaries)}")
        call("pack", "--dest-dir", place, tree)
        finished, = Path(place).glob("*.whl")
        print(shutil.copy(finished, folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
