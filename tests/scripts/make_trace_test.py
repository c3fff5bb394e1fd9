"""scripts/make-trace: the trace against a count of our own, what it refuses, and the program that reads it."""

import ast
import collections
import hashlib
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import ROOT, run_program

TEXT = ROOT / "tests/data/us-constitution.txt"
TRACE = ROOT / "tests/data/us-constitution.trace"


def expected_trace(text):
    """By a regular expression, a sort by (count, first place) and a search in the sorted list."""
    words = re.findall(r"[a-z0-9]+(?:'[a-z0-9]+)*", text.lower())
    count = collections.Counter(words)
    ranked = sorted(count, key=lambda word: (-count[word], words.index(word)))
    return [ranked.index(word) for word in words], ranked


def tokenizers_python():
    """The Python with the package tokenizers that a set-up of the tests made; empty without one."""
    find = '. "$1/scripts/lib/common.sh"; CACHE=$(cache_dir); . "$1/scripts/lib/python.sh"; f=$(locked_folder tokenizers); [[ ! -e $f/.complete ]] || echo "$f/bin/python3"'
    done = subprocess.run(["bash", "-c", f"set -euo pipefail; ROOT=$1; {find}", "find", ROOT], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def npy_of(descr, shape, data, fortran=False):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def read_npy(content):
    """The numbers of a one-dimensional int64 .npy file of format 1.0, and where they begin."""
    magic, major, minor, size = struct.unpack_from("<6sBBH", content)
    header = ast.literal_eval(content[10 : 10 + size].decode())
    assert (magic, major, minor) == (b"\x93NUMPY", 1, 0)
    assert header["descr"] == "<i8" and header["fortran_order"] is False
    (length,) = header["shape"]
    return list(struct.unpack_from(f"<{length}q", content, 10 + size)), 10 + size


class MakeTraceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="make trace "))
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, *arguments, text=b"", python=()):
        command = [*python, ROOT / "scripts/make-trace", *arguments]
        return subprocess.run(command, input=text, capture_output=True, cwd=self.folder, timeout=60)

    def trace_of(self, text, *arguments):
        done = self.make("-", *arguments, text=text.encode())
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(line) for line in done.stdout.split()]

    def assert_refused(self, done, *texts):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, b"")
        message = done.stderr.decode()
        self.assertEqual(len(message.splitlines()), 1, message)
        for text in texts:
            self.assertIn(text, message)

    def test_the_committed_trace_is_the_count_of_its_text(self):
        trace, ranked = expected_trace(TEXT.read_text())
        self.assertEqual(len(trace), 7702)
        self.assertEqual(len(ranked), 1148)
        self.assertEqual([int(line) for line in TRACE.read_text().splitlines()], trace)

    def test_it_is_made_again_byte_by_byte(self):
        self.assertEqual(self.make(TEXT).stdout, TRACE.read_bytes())

    def test_the_vocabulary_names_the_word_of_each_row(self):
        done = self.make(TEXT, "--vocabulary", "words.txt", "-o", "out.trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        _, ranked = expected_trace(TEXT.read_text())
        self.assertEqual((self.folder / "words.txt").read_text().splitlines(), ranked)

    def test_npy_holds_the_same_numbers(self):
        self.make(TEXT, "--npy", "-o", "out.npy")
        numbers, begin = read_npy((self.folder / "out.npy").read_bytes())
        self.assertEqual(numbers, [int(line) for line in TRACE.read_text().splitlines()])
        self.assertEqual(begin % 64, 0)

    def test_npy_is_what_numpy_writes(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is missing")
        self.make(TEXT, "--npy", "-o", "out.npy")
        numpy.save(self.folder / "numpy.npy", numpy.loadtxt(TRACE, dtype="<i8"))
        self.assertEqual((self.folder / "out.npy").read_bytes(), (self.folder / "numpy.npy").read_bytes())

    def test_ties_go_to_the_first_word_of_the_text(self):
        self.assertEqual(self.trace_of("b a b a c"), [0, 1, 0, 1, 2])
        self.assertEqual(self.trace_of("c a\nb a"), [1, 0, 2, 0])

    def test_a_word_is_one_in_any_script(self):
        self.assertEqual(self.trace_of("Don't don\u2019t 'don't' dont"), [0, 0, 0, 1])
        self.assertEqual(self.trace_of("\u00c9t\u00e9 e\u0301te\u0301 \u0125\u00e4"), [0, 0, 1])
        hindi = "\u0939\u093f\u0928\u094d\u0926\u0940"  # with vowel signs, which are marks
        self.assertEqual(self.trace_of(f"{hindi}, x-{hindi}"), [0, 1, 0])
        self.assertEqual(self.trace_of("\ufeffone ' two_one"), [0, 1, 0])

    def test_it_says_what_the_table_needs_and_how_to_measure(self):
        lines = self.make(TEXT, "-o", "out.trace").stderr.decode().splitlines()
        command = "./stbench --suite transfer --distribution file:out.trace --rows 1148 --batch 962"
        self.assertEqual(lines, ["7702 words, 1148 distinct; needs --rows 1148 or more:", f"  {command}"])

    def test_what_is_no_text_is_refused(self):
        self.assert_refused(self.make("nowhere.txt"), "nowhere.txt", "No such file")
        self.assert_refused(self.make("-", text=b"caf\xe9 au lait"), "standard input", "byte 3 (0xe9)")
        self.assert_refused(self.make("-", text=b"\xef\xbb\xbfcaf\xe9"), "byte 6 (0xe9)")
        self.assert_refused(self.make("-", text=b" -- \n"), "no words")
        self.assert_refused(self.make(), "TEXT")
        self.assert_refused(self.make("-", "--batch"), "--batch")
        self.assert_refused(self.make("-", "-o", "a", "--vocabulary", "./a", text=b"x"), "different files")

    def test_ids_are_the_rows(self):
        done = self.make("-", "--ids", text=b"3\n0\r\n 70000 \n3")
        self.assertEqual(done.stdout, b"3\n0\n70000\n3\n")
        self.assertEqual(done.stderr.decode().splitlines()[0], "4 tokens, 3 distinct; needs --rows 70001 or more:")
        for descr, code, shape in (("<i8", "<6q", (6,)), ("<i4", "<6i", (2, 3)), (">u2", ">6H", (1, 6)), ("|u1", "6B", (3, 2, 1))):
            (self.folder / "ids.npy").write_bytes(npy_of(descr, shape, struct.pack(code, 5, 0, 2, 255, 1, 5)))
            self.assertEqual(self.make("ids.npy", "--ids").stdout.split(), b"5 0 2 255 1 5".split())
            self.make("ids.npy", "--ids", "--npy", "-o", "out.npy")
            self.assertEqual(read_npy((self.folder / "out.npy").read_bytes())[0], [5, 0, 2, 255, 1, 5])

    def test_ids_that_are_none_are_refused(self):
        for text, *says in (
            (b"1\n-2\n", "line 2", "'-2'"), (b"1\n\n2", "line 2"), (b"1 2", "line 1"), (b"1\n9999999999999999999", "line 2"),
            (b"", "no tokens in it"), (npy_of("<f4", (1,), b"1234"), "elements are <f4"), (npy_of("<i4", (2,), b"1234"), "promises 2"),
            (npy_of("<i4", (2, 1), b"12345678", True), "Fortran order"), (npy_of("<i8", (1,), b"\xff" * 8), "element 0 is -1"),
            (npy_of("<u8", (1,), b"\xff" * 8), "element 0 is 18446744073709551615"), (b"\x93NUMPY", "no array of token ids"),
            (npy_of("<i4", (1,), b"1234")[:20], "no array of token ids"), (npy_of("<i4", "x", b""), "no array of token ids"),
        ):
            with self.subTest(text):
                self.assert_refused(self.make("-", "--ids", text=text), "standard input", *says)
        self.assert_refused(self.make("-", "--ids", "--vocabulary", "v", text=b"1"), "use --tokenizer")
        self.assert_refused(self.make("-", "--ids", "--tokenizer", "t", text=b"1"), "not allowed with")

    def test_tokens_of_a_text_are_those_of_its_tokenizer(self):
        python = tokenizers_python()
        if not python:
            self.skipTest("the environment with tokenizers is missing: run scripts/setup --tests")
        train = ("import sys; from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers\n"
                 "t = Tokenizer(models.BPE()); t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)\n"
                 "t.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=500, special_tokens=['<s>'], show_progress=False))\n"
                 "t.save('tokenizer.json')\n")
        subprocess.run([python, "-c", train, TEXT], cwd=self.folder, check=True, timeout=60)
        done = self.make(TEXT, "--tokenizer", "tokenizer.json", "--vocabulary", "tokens.txt", "-o", "out.trace", python=[python])
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = [int(line) for line in (self.folder / "out.trace").read_text().splitlines()]
        vocabulary = json.loads((self.folder / "tokenizer.json").read_text())["model"]["vocab"]
        tokens = {number: token for token, number in vocabulary.items()}
        # The tokens of a byte-level tokenizer are the text itself, with letters for blanks and line ends.
        text = "".join(tokens[number] for number in trace).replace("\u0120", " ").replace("\u010a", "\n")
        self.assertEqual(text, TEXT.read_text())
        self.assertLess(len(trace), len(text) / 2)
        self.assertEqual((self.folder / "tokens.txt").read_text().splitlines(), [tokens[k] for k in range(500)])
        self.assertIn(f"{len(trace)} tokens, {len(set(trace))} distinct; needs --rows 500 or more:", done.stderr.decode())
        (self.folder / "bad.json").write_text("{}")
        self.assert_refused(self.make(TEXT, "--tokenizer", "bad.json", python=[python]), "bad.json: no tokenizer.json")
        self.assert_refused(self.make(TEXT, "--tokenizer", "no.json", python=[python]), "no.json: No such file")

    def test_without_the_package_it_says_how_to_get_it(self):
        (self.folder / "t.json").write_text("{}")
        done = self.make("-", "--tokenizer", "t.json", text=b"x", python=["python3", "-I", "-S"])
        self.assert_refused(done, "pip install tokenizers")

    def test_a_file_is_replaced_whole_or_not_at_all(self):
        out = self.folder / "out.trace"
        out.write_text("old\n")
        self.assert_refused(self.make("-", "-o", out, text=b"\xff"), "byte 0")
        self.assertEqual(out.read_text(), "old\n")
        self.assert_refused(self.make("-", "-o", "no/such/folder/out", text=b"word"), "no/such/folder/out")
        self.assertEqual(self.make("-", "-o", out, text=b"word").returncode, 0)
        self.assertEqual(out.read_text(), "0\n")
        self.assertEqual(list(self.folder.iterdir()), [out])

    def test_a_file_keeps_its_mode_and_a_link_stays(self):
        out, link = self.folder / "out.trace", self.folder / "link"
        out.write_text("old\n")
        out.chmod(0o640)
        link.symlink_to(out)
        self.assertEqual(self.make("-", "-o", link, text=b"word").returncode, 0)
        self.assertEqual(out.read_text(), "0\n")
        self.assertTrue(link.is_symlink())
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o640)

    def test_a_device_is_written_in_place(self):
        done = self.make("-", "-o", "/dev/full", text=b"word")
        self.assert_refused(done, "/dev/full")
        self.assertTrue(stat.S_ISCHR(Path("/dev/full").stat().st_mode))

    def measure(self, trace):
        report = self.folder / "report.json"
        done = run_program(
            *("--suite", "transfer", "--preset", "quick", "--device", "cpu", "--distribution", f"file:{trace}"),
            *("--rows", 1148, "--batch", 962, "--samples", 2, "--json", report),
            folder=self.folder,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(report.read_text())["cases"]

    def test_the_program_measures_the_trace(self):
        cases = self.measure(TRACE)
        self.assertLessEqual({case["status"] for case in cases}, {"ok", "unstable"})
        name = f"file:us-constitution.trace@{hashlib.sha256(TRACE.read_bytes()).hexdigest()[:8]}"
        self.assertEqual({case["distribution"] for case in cases}, {name})
        self.assertTrue(all(case["verified_rows"] > 0 and case["mismatches"] == 0 for case in cases))
        self.assertLessEqual({"speedtorch", "index_select", "advanced"}, {case["method"] for case in cases})

    def test_the_program_measures_it_as_npy(self):
        self.make(TEXT, "--npy", "-o", "out.npy")
        self.assertLessEqual({case["status"] for case in self.measure("out.npy")}, {"ok", "unstable"})

    def test_the_program_wants_as_many_rows_as_were_said(self):
        options = ("--suite", "transfer", "--distribution", f"file:{TRACE}", "--rows", 1147)
        done = run_program(*options, folder=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rows 1148 or more", done.stderr)


if __name__ == "__main__":
    unittest.main()
