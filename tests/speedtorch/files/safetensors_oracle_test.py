"""The safetensors reader against the package safetensors: 10,000 damaged files, the corpus, and files that the package wrote."""

import importlib.util
import os
import random
import re
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from files import make_safetensors_corpus as corpus

PROGRAM = os.environ.get("STBENCH_SAFETENSORS_PROGRAM")
FILES = 10_000
# What this reader refuses and the package takes (speedtorch/files/safetensors.h).
STRICTER = re.compile(
    r" a second time; |^the safetensors header begins with the byte 0x(20|09|0a|0d) |has null as '__metadata__'|"
    r"has an array as '.*; an object is needed$|has an object as 'dtype'|gives .* an extent of |has more than 64 numbers as 'shape'")


def read_all(files):
    """What this reader says of each file: the reason of a refusal, or {name: (dtype, shape, data)}."""
    with tempfile.NamedTemporaryFile() as pack:
        pack.write(b"".join(struct.pack("<Q", len(file)) + file for file in files))
        pack.flush()
        done = subprocess.run([PROGRAM, pack.name], capture_output=True, text=True, check=True)
    lines = iter(done.stdout.splitlines())
    return [answer_of(next(lines), lines, file) for file in files]


def answer_of(line, lines, file):
    word, rest = line.split(" ", 1)
    if word == "refused":
        return rest
    tensors = {}
    for _ in range(int(rest)):
        name, dtype, shape, offset, size = next(lines).split(" ")
        extents = [] if shape == "-" else [int(extent) for extent in shape.split(",")]
        tensors[bytes.fromhex(name[:-1]).decode()] = (dtype, extents, file[int(offset):int(offset) + int(size)])
    return tensors


def packages_answer(safetensors, file):
    try:
        return {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for name, tensor in safetensors.deserialize(file)}
    except safetensors.SafetensorError as error:
        return str(error)


def with_header(header, data):
    return struct.pack("<Q", len(header)) + header + data


class Damage:
    """Changes files: single bytes, numbers, and pieces that are cut, doubled or moved; the length is then right again."""
    WORDS = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"1.5", b"null", b'"a"', b'"dtype"', b'"shape"', b'"F32"', b'"U8"',
             b'"data_offsets"', b'"__metadata__"', b"\\u0041", b"\xff", b"\0", b" ", b"[0,0]", b"{}", b'"b":{}']

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, _):
        return str(self.random.choice([0, 1, 2, 3, 4, 8, 12, 16, 255, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64])).encode()

    def change(self, header):
        pick = self.random.randrange
        at, length = pick(len(header) + 1), pick(1, 20)
        piece = header[at:at + length]
        rest = header[:at] + header[at + length:]
        kind = pick(6)
        if kind == 0:
            return header[:at] + bytes([pick(256)]) + header[at + 1:]
        if kind == 1:
            return header[:at] + self.random.choice(self.WORDS) + header[at:]
        if kind == 2:
            return header[:at] + piece + header[at:]
        if kind == 3:
            return rest
        if kind == 4:
            to = pick(len(rest) + 1)
            return rest[:to] + piece + rest[to:]
        numbers = list(re.finditer(rb"\d+", header))
        if not numbers:
            return header
        begin, end = self.random.choice(numbers).span()
        return header[:begin] + self.number(None) + header[end:]

    def __call__(self, file):
        length = struct.unpack("<Q", file[:8])[0]
        header, data = file[8:8 + length], file[8 + length:]
        for _ in range(self.random.choice([1, 1, 1, 2, 4])):
            header = self.change(header)
        data = data[:self.random.randrange(len(data) + 1)] if self.random.random() < 0.05 else data
        damaged = with_header(header, data)
        if self.random.random() < 0.05:
            damaged = self.random.randbytes(8) + damaged[8:] if self.random.random() < 0.5 else damaged[:self.random.randrange(len(damaged))]
        return damaged


@unittest.skipUnless(importlib.util.find_spec("safetensors"), "safetensors is not installed")
class SafetensorsOracleTest(unittest.TestCase):
    def check(self, files):
        """Both readers agree on each file, but for what this one refuses on purpose. Returns how many both take and refuse, and
        how many only this one refuses."""
        import safetensors
        taken = refused = stricter = 0
        for file, ours in zip(files, read_all(files), strict=True):
            theirs = packages_answer(safetensors, file)
            with self.subTest(file[:400]):
                if isinstance(ours, dict):
                    self.assertEqual(ours, theirs)
                    taken += 1
                elif isinstance(theirs, str):
                    refused += 1
                else:
                    self.assertRegex(ours, STRICTER)
                    stricter += 1
        return taken, refused, stricter

    def test_the_corpus_is_read_as_the_package_reads_it(self):
        good, hostile = list(corpus.GOOD.values()), list(corpus.HOSTILE.values())
        self.assertEqual(self.check(good), (len(good), 0, 0))
        taken, _, stricter = self.check(hostile)
        self.assertEqual(taken, 0)
        self.assertEqual(stricter, 9)  # of the hostile files, these the package takes
        for name, content in (corpus.GOOD | corpus.HOSTILE).items():
            committed = Path(__file__).resolve().parents[2] / "corpus" / "safetensors" / name
            self.assertEqual(committed.read_bytes(), content, name)

    def test_damaged_files_are_read_as_the_package_reads_them(self):
        damage = Damage(seed=26)
        seeds = [*corpus.GOOD.values(), *[file for file in corpus.HOSTILE.values() if len(file) > 16]]
        files = [damage(damage.random.choice(seeds)) for _ in range(FILES)]
        taken, refused, stricter = self.check(files)
        self.assertEqual(taken + refused + stricter, FILES)
        # The damage is neither always fatal nor always harmless.
        self.assertGreater(taken, FILES // 50)
        self.assertGreater(refused, FILES // 2)

    def test_files_of_the_package_are_read(self):
        import numpy as np
        from safetensors.numpy import save
        tensors = {f"layer.{k}.\u00e9": np.arange(8 * k).reshape(8, k).astype(dtype)
                   for k, dtype in enumerate(["bool", "uint8", "int8", "uint16", "float16", "int32", "float32", "complex64", "float64", "int64"])}
        file = save(tensors, {"format": "np"})
        self.assertEqual(self.check([file]), (1, 0, 0))
        for name, (_, shape, data) in read_all([file])[0].items():
            self.assertEqual((tuple(shape), data), (tensors[name].shape, tensors[name].tobytes()))

    def test_large_headers_are_read(self):
        """60,000 tensors, as of a large mixture of experts, and a header of 100 MB and one byte more."""
        entries = {f"model.layers.{k}.weight": corpus.entry(shape=(1,), begin=k, end=k + 1) for k in range(60_000)}
        file = corpus.whole(entries, 60_000)
        self.assertEqual(self.check([file]), (1, 0, 0))
        longest = corpus.whole("{}" + " " * (100_000_000 - 2))
        longer = corpus.whole("{}" + " " * (100_000_000 - 1))
        ours = read_all([longest, longer])
        self.assertEqual(ours[0], {})
        self.assertEqual(ours[1], "the safetensors file promises a header of 100000001 bytes; the format allows 100000000")


if __name__ == "__main__":
    unittest.main()
