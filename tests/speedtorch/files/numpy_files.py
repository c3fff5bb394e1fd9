"""NumPy's side of mapped_file_test.cpp: writes files for it, and checks the files that it wrote.

usage: numpy_files.py write|check FOLDER

A file `KIND-VERSION.npy` holds 3 x 5 elements of the NumPy type KIND, element i being i (bool: i % 2, complex: i + 2i j).
"""

import sys
from pathlib import Path

import numpy as np

KINDS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
SHAPE = (3, 5)


def expected(kind):
    numbers = np.arange(15).reshape(SHAPE)
    if kind == "bool":
        return numbers % 2 == 1
    return (numbers + 2j * numbers if kind.startswith("complex") else numbers).astype(kind)


def write(folder):
    for kind in KINDS:
        for version in ((1, 0), (2, 0), (3, 0)):
            with (folder / f"{kind}-{version[0]}.npy").open("wb") as file:
                np.lib.format.write_array(file, expected(kind), version)


def check_modes(path, wanted):
    """What NumPy reads, and maps to read and to write, is what was expected; a write through NumPy's mapping stays."""
    for mode in (None, "r", "c", "r+"):
        array = np.load(path, mmap_mode=mode)
        assert array.dtype == wanted.dtype and array.dtype.isnative, (path.name, array.dtype)
        assert array.flags.c_contiguous and array.flags.aligned, path.name
        np.testing.assert_array_equal(array, wanted, err_msg=path.name, strict=True)
    array[2, 4] = 1
    array.flush()


def check(folder):
    for kind in KINDS:
        path = folder / f"{kind}.npy"
        with path.open("rb") as file:
            assert np.lib.format.read_magic(file) == (1, 0), path.name
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            assert (shape, fortran, dtype) == (SHAPE, False, np.dtype(kind)), path.name
            assert file.tell() == 4096, path.name
        check_modes(path, expected(kind))
    raw = np.load(folder / "bfloat16.npy")
    assert raw.dtype == np.dtype("V2"), raw.dtype
    as_float = (raw.view("<u2").astype("<u4") << 16).view("<f4")
    np.testing.assert_array_equal(as_float, expected("float32"))
    assert np.load(folder / "scalar.npy").shape == ()
    assert np.load(folder / "empty.npy").shape == (0, 128)
    many = np.load(folder / "many.npy", mmap_mode="r")
    assert many.shape == (2**22 + 3, 512) and many[-1, -1] == 5 and many[2**22 - 1, 511] == 4 and many[0, 0] == 3
    print("checked")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
