#!/usr/bin/env python3
"""Writes the corpus of the fuzz target of archives: tests/corpus/archive. Small zip files as torch writes them, stored and
compressed, with records of 64 bits, and one for each way in which a file can be bad.

  tests/speedtorch/files/make_archive_corpus.py
"""

import io
import struct
import zipfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "archive"
NEVER = (1980, 1, 1, 0, 0, 0)


def archive(*entries, comment=b"", large=False):
    """Entries are (name, content, how it is packed)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, content, method in entries:
            info = zipfile.ZipInfo(name, NEVER)
            info.compress_type = method
            with packed.open(info, "w", force_zip64=large) as entry:
                entry.write(content)
        packed.comment = comment
    return file.getvalue()


STORED = ("archive/data/0", bytes(range(64)), zipfile.ZIP_STORED)
PACKED = ("archive/code/a.py", b"def forward(self): return self\n" * 4, zipfile.ZIP_DEFLATED)
WHOLE = archive(STORED, ("archive/data.pkl", b"\x80\x02.", zipfile.ZIP_STORED), PACKED)
ONE = archive(STORED)


def changed(content, signature, offset, value):
    """`value` at an offset behind the first signature."""
    at = content.index(signature) + offset
    return content[:at] + value + content[at + len(value):]


def in_directory(offset, value, content=ONE):
    return changed(content, b"PK\x01\x02", offset, value)


def with_64_bits():
    """The directory's sizes and place of the entry in a field of 64 bits, and the directory's own behind it."""
    end = ONE.index(b"PK\x05\x06")
    begin = ONE.index(b"PK\x01\x02")
    entry = bytearray(ONE[begin:end])
    extra = struct.pack("<HHQQQ", 1, 24, 64, 64, 0)
    entry[20:28] = b"\xff" * 8
    entry[30:32] = struct.pack("<H", len(extra))
    entry[42:46] = b"\xff" * 4
    directory = bytes(entry) + extra
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(directory), begin)
    locator = struct.pack("<IIQI", 0x07064B50, 0, begin + len(directory), 1)
    last = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return ONE[:begin] + directory + end64 + locator + last


FILES = {
    "whole": WHOLE, "one-entry": ONE, "compressed": archive(PACKED), "compressed-empty": archive(("a", b"", zipfile.ZIP_DEFLATED)),
    "no-entries": archive(), "comment": archive(STORED, comment=b"PK\x05\x06 is no end"), "of-64-bits": with_64_bits(),
    "large-fields": archive(STORED, large=True), "empty-entry": archive(("a", b"", zipfile.ZIP_STORED)),
    "checksum-wrong": in_directory(16, b"\1\2\3\4"), "checksum-none": in_directory(16, b"\0\0\0\0"),
    "data-wrong": ONE.replace(bytes(range(60, 64)), b"\0\0\0\0"), "size-beyond": in_directory(20, b"\xff\xff\xff\x7f" * 2),
    "size-and-bytes-differ": in_directory(24, b"\1"), "other-method": in_directory(10, b"\x0c\0"),
    "header-elsewhere": in_directory(42, b"\1"), "header-outside": in_directory(42, b"\xff\xff\xff\x7f"),
    "name-too-long": in_directory(28, b"\xff\xff"), "comment-too-long": in_directory(32, b"\xff\xff"),
    "local-name-too-long": changed(ONE, b"PK\x03\x04", 26, b"\xff\xff"), "entry-no-entry": in_directory(0, b"PK\0\0"),
    "extra-cut": in_directory(30, b"\2\0"), "packed-cut": archive(PACKED).replace(b"\x2b", b"\xff", 1),
    "directory-outside": changed(ONE, b"PK\x05\x06", 16, b"\xff\xff\xff\x7f"),
    "directory-too-large": changed(ONE, b"PK\x05\x06", 12, b"\xff\xff\xff\x7f"),
    "locator-outside": changed(with_64_bits(), b"PK\x06\x07", 8, b"\xff" * 8),
    "end-of-64-bits-wrong": changed(with_64_bits(), b"PK\x06\x06", 0, b"PK\0\0"),
    "header-of-64-bits-wraps": with_64_bits().replace(struct.pack("<QQQ", 64, 64, 0), struct.pack("<QQQ", 64, 64, 2**64 - 1)),
    "size-of-64-bits-wraps": with_64_bits().replace(struct.pack("<QQQ", 64, 64, 0), struct.pack("<QQQ", 2**64 - 1, 2**64 - 1, 0)),
    "twice": ONE + ONE, "cut-end": ONE[:-1], "cut-directory": ONE[:-30], "only-end": ONE[-22:], "no-zip": b"\x93NUMPY" + bytes(64), "empty": b"",
}

CORPUS.mkdir(parents=True, exist_ok=True)
for name, content in FILES.items():
    (CORPUS / name).write_bytes(content)
