"""Writes the seeds of tests/corpus/safetensors: good files, and a hostile one for each rule of the format.

usage: make_safetensors_corpus.py FOLDER
"""

import json
import struct
import sys
from pathlib import Path

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64,
        "F64": 64, "I64": 64, "U64": 64}


def whole(header, data=0, length=None):
    """A file with that header (text, or an object as JSON) and as many bytes of data."""
    header = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(k % 251 for k in range(data))


def entry(dtype="U8", shape=(4,), begin=0, end=4, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


def one(data=4, **changes):
    return whole({"a": entry(**changes)}, data)


TEXT = '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
TWO = {"a": entry(end=4), "b": entry("F32", (1, 2), 4, 12)}
GOOD = {
    **{f"type-{name}": one(bits, dtype=name, shape=(8,), end=bits) for name, bits in BITS.items()},
    "two": whole(TWO, 12),
    "two-out-of-order": whole(dict(reversed(TWO.items())), 12),
    "scalar": one(shape=(), dtype="I32"),
    "no-rows": one(0, shape=(0, 128), end=0),
    "no-tensors": whole("{}"),
    "padded": whole("{}\r \t\n"),
    "metadata": whole({"__metadata__": {"format": "pt", "": "\u00e9"}, "a": entry()}, 4),
    "metadata-only": whole({"__metadata__": {}}),
    "empty-name": whole({"": entry()}, 4),
    "odd-names": whole({"a:b/c..//\u00fc\U0001f600\"\\\n": entry()}, 4),
    "escaped-keys": whole(TEXT.replace("dtype", "d\\u0074ype").replace('"a"', '"\\u0061\\\\\\""'), 4),
    "unknown-key": one(more=[1, {"x": [None, True, -1, 1.5, "t"]}]),
    "nested-to-the-limit": whole(TEXT.replace('"shape"', '"x":' + "[" * 125 + "]" * 125 + ',"shape"'), 4),
    "empty-between": whole({"a": entry(), "b": entry(shape=(0,), begin=0, end=0), "c": entry(shape=(0,), begin=4, end=4)}, 4),
    "dimensions-64": one(1, shape=(1,) * 64, end=1),
    "zero-in-huge": one(0, shape=(2**62, 2, 0), end=0),
    "sub-bytes": one(3, dtype="F4", shape=(3, 2), end=3),
}
HOSTILE = {
    "nothing": b"",
    "length-only": struct.pack("<Q", 2),
    "length-cut": b"\x02\0\0\0",
    "length-0": whole("", 4),
    "length-beyond-the-file": whole("{}", length=3),
    "length-beyond-the-format": whole("{}", length=100_000_001),
    "length-2-to-64": whole("{}", length=2**64 - 1),
    "length-in-the-header": whole(TEXT, 4, length=20),
    "space-first": whole(" " + TEXT, 4),
    "array": whole("[]"),
    "no-json": whole("{"),
    "not-utf-8": whole(b'{"\xff":' + TEXT[5:].encode(), 4),
    "lone-surrogate": whole(TEXT.replace('"a"', '"\\ud800"'), 4),
    "zero-behind": whole(TEXT + "\0", 4),
    "zero-within": whole(TEXT.replace("a", "\0"), 4),
    "text-behind": whole(TEXT + "{}", 4),
    "byte-order-mark": whole(b"\xef\xbb\xbf" + TEXT.encode(), 4),
    "control-character": whole(TEXT.replace('"a"', '"\n"'), 4),
    "twice": whole(TEXT[:-1] + "," + TEXT[1:], 4),
    "twice-elsewhere": whole('{"a":' + json.dumps(entry()) + ',"a":' + json.dumps(entry(begin=4, end=8)) + "}", 8),
    "field-twice": whole(TEXT.replace('"shape"', '"dtype":"U8","shape"'), 4),
    "unknown-key-twice": whole(TEXT.replace('"shape"', '"x":1,"x":2,"shape"'), 4),
    "metadata-twice": whole('{"__metadata__":{},"__metadata__":{},' + TEXT[1:], 4),
    "metadata-key-twice": whole('{"__metadata__":{"a":"1","a":"2"}}'),
    "metadata-null": whole('{"__metadata__":null}'),
    "metadata-number": whole('{"__metadata__":{"a":1}}'),
    "metadata-nested": whole('{"__metadata__":{"a":{"b":"c"}}}'),
    "entry-number": whole('{"a":1}'),
    "entry-array": whole('{"a":["U8",[4],[0,4]]}', 4),
    "dtype-missing": whole('{"a":{"shape":[4],"data_offsets":[0,4]}}', 4),
    "shape-missing": whole('{"a":{"dtype":"U8","data_offsets":[0,4]}}', 4),
    "offsets-missing": whole('{"a":{"dtype":"U8","shape":[4]}}', 4),
    "dtype-unknown": one(dtype="F33"),
    "dtype-number": one(dtype=8),
    "dtype-object": one(dtype={"U8": None}),
    "shape-text": whole(TEXT.replace("[4]", '"4"'), 4),
    "shape-nested": whole(TEXT.replace("[4]", "[[4]]"), 4),
    "shape-negative": one(shape=(-4,)),
    "shape-fraction": whole(TEXT.replace("[4]", "[4.0]"), 4),
    "shape-minus-0": whole(TEXT.replace("[4]", "[-0]").replace("[0,4]", "[0,0]")),
    "shape-overflows": one(16, dtype="I32", shape=(2, 2**64 - 2), end=16),
    "bytes-overflow": one(16, dtype="I32", shape=(2, 2**63 - 1), end=16),
    "extent-2-to-63": one(0, shape=(0, 2**63), end=0),
    "extent-2-to-64": one(0, shape=(0, 2**64), end=0),
    "overflow-before-0": one(0, shape=(2**63, 2, 0), end=0),
    "dimensions-65": one(1, shape=(1,) * 65, end=1),
    "sub-byte-cut": one(1, dtype="F4", shape=(3,), end=1),
    "sub-byte-padded": one(2, dtype="F4", shape=(3,), end=2),
    "offsets-1": whole(TEXT.replace("[0,4]", "[4]"), 4),
    "offsets-3": whole(TEXT.replace("[0,4]", "[0,4,4]"), 4),
    "offsets-backwards": one(begin=4, end=0),
    "offsets-beyond": one(begin=0, end=2**63),
    "offsets-2-to-64": one(begin=2**64 - 4, end=2**64 - 1),
    "bytes-too-few": one(end=3),
    "bytes-too-many": one(5, end=5),
    "hole-first": one(5, begin=1, end=5),
    "hole-between": whole({"a": entry(), "b": entry(begin=5, end=9)}, 9),
    "overlap": whole({"a": entry(), "b": entry(begin=2, end=6)}, 6),
    "all-the-same": whole({f"weight_{k}": entry("F32", (2, 2), 0, 16) for k in range(10)}, 16),
    "empty-within": whole({"a": entry(), "b": entry(shape=(0,), begin=2, end=2)}, 4),
    "data-behind": one(5),
    "data-missing": one(3),
    "data-without-tensors": whole("{}", 3),
    "nested-too-deep": whole(TEXT.replace('"shape"', '"x":' + "[" * 126 + "]" * 126 + ',"shape"'), 4),
    "nested-in-thousands": whole('{"a":{"x":' + "[" * 5000, 4),
    "number-beyond-a-double": whole(TEXT.replace('"shape"', '"x":1e999,"shape"'), 4),
}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (GOOD | HOSTILE).items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
