"""Makes libraries that stand in for CUDA's where torch has none: the names that the given binaries take from CUDA's libraries.

usage: absent_cuda.py COMPILER FOLDER LIBRARY... -- BINARY...

Every function of the runtime says that there is no device, and all others return 0, so that the library finds no GPU and
calls none of them again."""

import re
import subprocess
import sys
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
TEXTS = {"cudaGetErrorName": "cudaErrorNoDevice", "cudaGetErrorString": "no CUDA-capable device is detected"}


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def taken_names(binaries):
    return {line.split()[-1].partition("@")[0] for file in binaries for line in lines_of("nm", "-D", "--undefined-only", file)}


def copied_names(binaries):
    """Data of a library that a program has its own copy of."""
    return {words[-1].partition("@")[0] for file in binaries for line in lines_of("objdump", "-R", file)
            if len(words := line.split()) == 3 and "COPY" in words[1]}


def given_names(library):
    """name -> (its version or "", the bytes of data or 0)"""
    found = {}
    for line in lines_of("nm", "-D", "--defined-only", "--print-size", library):
        words = line.split()
        name, _, version = words[-1].partition("@")
        is_data = words[-2] in "BDRVbdrv" and len(words) == 4
        found[name] = (version.lstrip("@"), int(words[1], 16) if is_data else 0)
    return found


def soname_of(library):
    return re.search(r"SONAME.*\[(.*)\]", "\n".join(lines_of("readelf", "-d", library)))[1]


def definition(name, size):
    if size:
        return f"char {name}[{size}];"
    if name in TEXTS:
        return f'const char* {name}(void) {{ return "{TEXTS[name]}"; }}'
    return f"long {name}(void) {{ return {NO_DEVICE if name.startswith('cuda') else 0}; }}"


def make(compiler, folder, library, names):
    given = given_names(library)
    shared = sorted(names & given.keys())
    soname = soname_of(library)
    source, versions = folder / f"{soname}.c", folder / f"{soname}.map"
    source.write_text("\n".join(definition(name, given[name][1]) for name in shared) + "\n")
    tags = {given[name][0] for name in shared}
    versions.write_text("".join(
        f"{tag} {{ global: {' '.join(f'{name};' for name in shared if given[name][0] == tag)} }};\n" for tag in sorted(tags)))
    subprocess.run([compiler, "-x", "c", "-w", "-O1", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{soname}",
                    f"-Wl,--version-script,{versions}", "-o", folder / soname, source], check=True)
    source.unlink()
    versions.unlink()


def main(compiler, folder, *files):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    split = files.index("--")
    names = taken_names(files[split + 1 :]) | copied_names(files[split + 1 :])
    for library in files[:split]:
        make(compiler, folder, library, names)


if __name__ == "__main__":
    main(*sys.argv[1:])
