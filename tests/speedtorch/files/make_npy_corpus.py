"""Writes the seeds of tests/corpus/npy with NumPy: every version, every type, shapes of each kind, and what is refused.

usage: make_npy_corpus.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import numpy as np

SHARED = "? b h i q B H I Q e f d F D".split()
REFUSED = [">f4", ">i8", "U3", "S5", "V2", "V7", "O", "M8[s]", "longdouble"]


def write(path, array, version=None):
    with path.open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of version 2.0
        np.lib.format.write_array(file, array, version=version)


def by_hand(path, header, data=b"", version=1):
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + header + data)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for kind in SHARED:
        write(folder / f"type-{np.dtype(kind).name}", np.arange(2).astype(kind))
    for kind in REFUSED:
        write(folder / f"refused-{np.dtype(kind).name}-{np.dtype(kind).str[0].encode().hex()}", np.zeros(1, kind))
    for version in (1, 2, 3):
        write(folder / f"version-{version}", np.arange(6, dtype="<f4").reshape(2, 3), (version, 0))
    write(folder / "scalar", np.array(7, "<i4"))
    write(folder / "empty", np.zeros((0, 128), "<f4"))
    write(folder / "dimensions-64", np.zeros((1,) * 64, "|u1"))
    write(folder / "fortran", np.asfortranarray(np.zeros((2, 3), "<f4")))
    write(folder / "structured", np.zeros(1, [("a", "<i4"), ("b", "<f8")]))
    write(folder / "unicode-field", np.zeros(1, [("\u00fc", "<i4")]), (3, 0))
    by_hand(folder / "bfloat16", b"{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }     \n", b"\x80\x3f\0\x40")
    by_hand(folder / "huge-shape", b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }\n")
    by_hand(folder / "huge-bytes", b"{'descr': '<c16', 'fortran_order': False, 'shape': (1152921504606846976,), }\n")
    by_hand(folder / "zero-in-huge", b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0), }\n")
    by_hand(folder / "spaces", b"{ \"shape\" :( 1 , ) ,'fortran_order':False,\"descr\":\"|u1\"}   \n", b"x", 2)
    by_hand(folder / "negative", b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n")
    by_hand(folder / "no-magic-version", b"", b"", 9)
    by_hand(folder / "length-of-4-gigabytes", b"{", b"", 2)
    whole = (folder / "length-of-4-gigabytes").read_bytes()
    (folder / "length-of-4-gigabytes").write_bytes(whole[:8] + b"\xff\xff\xff\xff" + whole[12:])
    whole = (folder / "type-float32").read_bytes()
    (folder / "cut-data").write_bytes(whole[:-1])
    (folder / "cut-header").write_bytes(whole[:70])
    (folder / "longer").write_bytes(whole + b"\0")
    (folder / "nothing").write_bytes(b"")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
