"""examples/word2vec: what it writes, that it learns, and that it goes on where it was killed."""

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("STBENCH_WORD2VEC", "")
KING_JAMES = Path(os.environ.get("STBENCH_KING_JAMES", ""))
SMALL = (ROOT / "tests/data/us-constitution.txt", "--dim", "16", "--min-count", "2", "--pairs", "senate:house")


def words_of(text):
    return re.findall(r"[a-z\x80-\uffff]+(?:'[a-z\x80-\uffff]+)*", text.lower())


class Word2vecTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="word2vec test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *words):
        return subprocess.Popen([PROGRAM, *map(str, words)], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run_program(self, *words, status=0):
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, status, err + out)
        return out + err

    def vectors(self, name):
        return np.load(self.folder / f"{name}.npy")

    def test_writes_numpy_and_word2vec_text_of_the_words_by_frequency(self):
        self.run_program(*SMALL, "--steps", "300", "--out", "v")
        counts = {}
        for word in words_of(SMALL[0].read_text(encoding="utf-8")):
            counts[word] = counts.get(word, 0) + 1
        right = sorted((word for word in counts if counts[word] >= 2), key=lambda word: (-counts[word], word))
        head, *lines = (self.folder / "v.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(head, f"{len(right)} 16")
        self.assertEqual([line.split()[0] for line in lines], right)
        table = self.vectors("v")
        self.assertEqual((table.dtype, table.shape), (np.float32, (len(right), 16)))
        np.testing.assert_allclose([list(map(float, line.split()[1:])) for line in lines], table, rtol=1e-4, atol=1e-6)

    def test_goes_on_where_it_was_killed_to_the_same_vectors(self):
        options = ("--steps", "400", "--every", "100", "--placement", "pageable")
        self.run_program(*SMALL, *options, "--out", "whole")
        checkpoint = self.folder / "killed.checkpoint"
        kills = 0
        for _ in range(3):
            process = self.start(*SMALL, *options, "--out", "killed")
            before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
                    break
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        self.assertGreater(kills, 0)
        self.assertIn("resumed after step", self.run_program(*SMALL, *options, "--out", "killed"))
        np.testing.assert_array_equal(self.vectors("killed"), self.vectors("whole"))

    def test_a_checkpoint_of_another_training_is_refused(self):
        self.run_program(*SMALL, "--steps", "10", "--out", "v")
        said = self.run_program(*SMALL, "--steps", "10", "--out", "v", "--seed", "2", status=2)
        self.assertIn("another training", said)
        first, second, rest = SMALL[0].read_text(encoding="utf-8").split(maxsplit=2)
        (self.folder / "turned.txt").write_text(f"{second} {first} {rest}", encoding="utf-8")  # as many of each word
        said = self.run_program("turned.txt", *SMALL[1:], "--steps", "10", "--out", "v", status=2)
        self.assertIn("another training", said)
        whole = (self.folder / "v.checkpoint").read_bytes()
        for broken in (whole[:-1], whole + b"x"):
            (self.folder / "v.checkpoint").write_bytes(broken)
            self.assertIn("is cut, or longer", self.run_program(*SMALL, "--steps", "10", "--out", "v", status=2))
        (self.folder / "v.checkpoint").write_bytes(whole)
        self.assertIn("resumed after step 10", self.run_program(*SMALL, "--steps", "10", "--out", "v"))
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["turned.txt", "v.checkpoint", "v.npy", "v.txt"])

    def test_the_command_of_the_page_runs(self):
        page = (ROOT / "docs" / "steps.md").read_text(encoding="utf-8")
        (command,) = re.findall(r"^<!-- test: tests/scripts/word2vec_test.py -->\n```sh\n(.*)\n```$", page, re.MULTILINE)
        program, text, *options = command.split()
        self.assertEqual((program, text), ("build/release/bin/example_word2vec", "build/release/texts/king-james-bible.txt"))
        self.run_program(SMALL[0], *options, "--steps", "20", *SMALL[3:])  # of a shorter text, and shorter
        self.assertEqual(self.vectors("vectors").shape[1], 100)

    def test_related_words_of_a_real_text_are_near_each_other(self):
        if not KING_JAMES.exists():
            self.skipTest("the text is not here; install Debian's package bible-kjv and build again")
        # 2,000 steps: 6 of 10, on the threshold; 4,000: 7, in 46 s of one core.
        said = self.run_program(KING_JAMES, "--dim", "64", "--steps", "4000", "--every", "4000")
        found, pairs = map(int, re.search(r"(\d+) of (\d+) pairs are among each other's 50 nearest", said).groups())
        self.assertEqual(pairs, 10)
        self.assertGreaterEqual(found, 6, said)
        loss, zero, frequencies = map(float, re.search(
            r"loss on held-out pairs ([\d.]+); all zero ([\d.]+), by frequencies alone ([\d.]+)", said).groups())
        self.assertLess(loss, min(zero, frequencies))

    def test_mistakes_are_named(self):
        for words, expected in (((), "which text?"), ((SMALL[0], "--dims", "3"), "unknown option --dims"),
                                ((SMALL[0], "--dim", "many"), "--dim many: a whole number"),
                                ((SMALL[0], "--placement", "gpu"), "use hugepage, pageable, libtorch or mapped"),
                                ((*SMALL[:-1], "senate"), "--pairs: 'senate' is no A:B"),
                                ((*SMALL, "--out", "absent/v"), "--out absent/v: no file can be written there"),
                                (("absent",), "cannot read the text 'absent'"), (("/",), "cannot read the text"),
                                (("/dev/zero",), "the text 'zero' has more than 1073741824 bytes")):
            with self.subTest(words):
                self.assertIn(expected, self.run_program(*words, status=2))
        self.assertEqual(list(self.folder.iterdir()), [])  # found before anything was trained

    def test_a_standard_output_that_takes_nothing_ends_it_before_the_training(self):
        for output in (">/dev/full", ">&-", ">&- 2>&-"):
            command = shlex.join(map(str, (PROGRAM, *SMALL, "--steps", "20")))
            with self.subTest(output):
                done = subprocess.run(["bash", "-c", f"{command} {output}"], cwd=self.folder, capture_output=True, text=True,
                                      timeout=300, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual("cannot write the standard output" in done.stderr, "2>" not in output)
                self.assertEqual(list(self.folder.iterdir()), [])

    def run_limited(self, blocks, *words, output=""):
        """Runs the program with a limit on file sizes, in KiB. It must fail. Returns its messages."""
        command = f"ulimit -f {blocks}; exec {shlex.join(map(str, (PROGRAM, *SMALL, *words)))} {output}"
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def contents(self):
        return {file.name: file.read_bytes() for file in self.folder.iterdir()}

    def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(self):
        self.assertIn("'v.checkpoint' cannot be written: File too large", self.run_limited(4, "--steps", "10", "--out", "v"))
        self.assertEqual(self.contents(), {})
        self.run_program(*SMALL, "--steps", "10", "--out", "v")
        (self.folder / "v.txt").write_text("old")
        before = self.contents()
        self.assertIn("'v.checkpoint' cannot", self.run_limited(4, "--steps", "20", "--out", "v"))
        self.assertIn("'v.npy' cannot", self.run_limited(4, "--steps", "10", "--out", "v"))
        self.assertIn("'v.txt' cannot be written: File too large", self.run_limited(64, "--steps", "10", "--out", "v"))
        self.assertEqual(self.contents(), before)

    def test_a_limit_on_file_sizes_holds_for_the_standard_output(self):
        self.assertIn("cannot write the standard output", self.run_limited(0, "--steps", "10", output=">printed"))
        self.assertEqual(self.contents(), {"printed": b""})

    def test_files_keep_their_modes_and_links_stay(self):
        places = self.folder / "places"
        places.mkdir()
        for kind in ("npy", "txt", "checkpoint"):
            (self.folder / f"v.{kind}").symlink_to(places / kind)
        (places / "txt").write_text("old")
        (places / "txt").chmod(0o640)
        self.run_program(*SMALL, "--steps", "10", "--out", "v")
        (places / "checkpoint").chmod(0o600)
        self.run_program(*SMALL, "--steps", "20", "--out", "v")
        self.assertTrue(all((self.folder / f"v.{kind}").is_symlink() for kind in ("npy", "txt", "checkpoint")))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in places.iterdir()}
        self.assertEqual((modes.pop("txt"), modes.pop("checkpoint"), list(modes)), (0o640, 0o600, ["npy"]))

    def test_help_is_no_mistake(self):
        self.assertIn("--placement NAME", self.run_program("--help"))


if __name__ == "__main__":
    unittest.main()
