"""`stbench advise`: what it measures on this machine, what it answers, and what it refuses."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

import numpy

from program import PROGRAM, ROOT, ProgramTest, run

TABLE = ("--rows", "20k", "--dim", "16", "--batch", "256")
ASK = ("advise", *TABLE, "--step-ms", "50")
# Cold rows, for which a loaded machine may then have no time, need not be measured: each test holds without them.
BRIEFLY = ("--time-budget", "8s")
MEMORY = ("libtorch", "hugepage")
CHOICES = {"file", "cached", "mapped", "pinned", "device", *MEMORY}


class AdviseTest(ProgramTest):
    def ask(self, *words, status=0, **variables):
        done = self.run_program(*words, warm=False, **variables)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done

    def refused(self, *words):
        done = self.run_program(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        self.assertLessEqual(len(done.stderr.splitlines()), 3, done.stderr)
        return done.stderr

    def check_states(self, choice, step_s):
        """The arithmetic of waits and shares, and that a choice says why it has no figures."""
        self.assertTrue(choice["states"] or choice["misfit"] or choice["unmeasured"], choice)
        for state in choice["states"]:
            wait, share = state["wait_s"], state["share"]
            self.assertGreater(state["p50_s"], 0)
            self.assertLessEqual(state["p50_s"], state["p99_s"])
            self.assertTrue(state["p99_is_at_least"] or state["look_ups"] >= 100)
            self.assertGreater(wait["median"], state["update_s"] or 0)
            self.assertLessEqual(wait["low"], wait["median"])
            self.assertAlmostEqual(share["median"], wait["median"] / (step_s + wait["median"]), places=12)

    def test_answers_in_ten_lines_and_as_json(self):
        found = json.loads(self.ask(*ASK, *BRIEFLY, "--json").stdout)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(found["question"] | {"distribution": "uniform"}, found["question"])
        self.assertEqual(found["question"]["table_bytes"], 20_000 * 16 * 4)
        self.assertEqual(found["measured_rows"], 20_000)
        choices = {choice["name"]: choice for choice in found["choices"]}
        self.assertEqual(set(choices), CHOICES)
        for choice in choices.values():
            self.check_states(choice, 0.05)
        nbytes = 20_000 * 16 * 4
        for name in MEMORY:
            self.assertEqual(choices[name]["bytes"], {"memory": nbytes, "device": 0, "disk": 0})
            self.assertTrue(choices[name]["states"], "without a time limit, warm look-ups are always measured")
        self.assertEqual(choices["file"]["bytes"], {"memory": 0, "device": 0, "disk": nbytes})
        self.assertIn(found["recommended"], ("file", "cached", *MEMORY))
        self.assertEqual(found["verdict"] == "not decided", bool(found["open"]))
        self.check_verdicts(found, choices)

    def check_verdicts(self, found, choices):
        """No verdict on an interval that reaches the limit."""
        limit = 1 + found["worth"]
        for choice in choices.values():
            against = choice["step_against_recommended"]
            if against is None:
                continue
            high = against["high"] if against["high"] is not None else float("inf")
            self.assertLessEqual(against["low"], against["ratio"] * (1 + 1e-12))
            expected = "within" if high <= limit else "beyond" if against["low"] > limit else "not decided"
            self.assertEqual(against["verdict"], expected)

    def test_explains_itself_by_rows_that_can_be_measured_again(self):
        done = self.ask(*ASK, *BRIEFLY, "--memory", "2M", "--explain")
        lines = done.stdout.splitlines()
        for label in ("bytes", "look-up", "share", "cheaper", "faster", "sure", "measured"):
            self.assertEqual(sum(line.startswith(f"  {label} ") for line in lines), 1, done.stdout)
        self.assertIn("--memory", done.stdout)
        cases = re.findall(r"^  (transfer to .*)$", done.stdout, re.MULTILINE)
        self.assertTrue(cases)
        for case in cases:
            again = self.run_program("--case", case, "--dry-run")
            self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_table_larger_than_the_memory_given_is_measured_in_files_only(self):
        found = json.loads(self.ask(*ASK, "--memory", "1M", "--json", "--time-budget", "30s").stdout)
        choices = {choice["name"]: choice for choice in found["choices"]}
        for name in (*MEMORY, "mapped"):
            self.assertFalse(choices[name]["fits"])
            self.assertEqual(choices[name]["states"], [])
            self.assertIn("1.28 MB of memory, 280 kB more than --memory", choices[name]["misfit"])
        self.assertEqual(choices["cached"]["cache_bytes"], 750_000)
        self.assertIn(found["recommended"], ("file", "cached"))
        share = min(state["share"]["low"] for state in choices[found["recommended"]]["states"])
        if not found["open"]:
            self.assertEqual(found["verdict"], "not worth it" if share > 0.5 else "keep")

    def test_a_table_that_trains_has_its_states_and_their_updates(self):
        found = json.loads(self.ask("advise", *TABLE, "--step-ms", "50", "--updates", "adam", *BRIEFLY, "--json").stdout)
        self.assertEqual((found["question"]["optimizer"], found["question"]["states"]), ("Adam", 2))
        for choice in found["choices"]:
            self.check_states(choice, 0.05)
            if choice["name"] in MEMORY:
                self.assertEqual(choice["bytes"]["memory"], 3 * 20_000 * 16 * 4)
                for state in choice["states"]:
                    self.assertGreater(state["update_s"], 0)
                    self.assertIn("optimizer step", state["update_case"])

    def test_a_dry_run_measures_nothing_and_shows_the_runs(self):
        done = self.run_program(*ASK, "--updates", "adam", "--dry-run")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^hugepage +3\.84 MB of memory$")
        runs = re.findall(r"^stbench (.*)$", done.stdout, re.MULTILINE)
        self.assertEqual(len(runs), 6)
        for words in runs:
            again = self.run_program(*shlex.split(words), "--dry-run")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertNotRegex(again.stdout, "mapped -> speedtorch .* cache=cold")

    def test_a_file_has_the_shape_of_its_table(self):
        numpy.save(self.folder / "table.npy", numpy.zeros((3000, 5, 4), numpy.float64))
        numpy.save(self.folder / "bytes.npy", numpy.zeros((3000, 6), numpy.uint16))
        numpy.save(self.folder / "one.npy", numpy.float32(1))
        header = json.dumps({"embed": {"dtype": "BF16", "shape": [500, 8], "data_offsets": [0, 8000]}}).encode().ljust(120)
        (self.folder / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8000))
        before = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        ask = ("--batch", "8", "--step-ms", "1", "--dry-run")
        done = self.run_program("advise", "--table", "table.npy", *ask)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^libtorch +480 kB of memory$")
        self.assertRegex(done.stdout, r"--table table.npy --batch 8 ")
        done = self.run_program("advise", "--table", "bytes.npy", *ask)
        self.assertRegex(done.stdout, r"(?m)^libtorch +36\.0 kB of memory$")
        done = self.run_program("advise", "--table", "m.safetensors:embed", *ask)
        self.assertRegex(done.stdout, r"(?m)^libtorch +8\.00 kB of memory$")
        self.assertRegex(done.stdout, r"--table m.safetensors:embed ")
        self.assertIn("m.safetensors", self.refused("advise", "--table", "m.safetensors:embedding", *ask))
        self.assertIn("has no rows", self.refused("advise", "--table", "one.npy", *ask))
        self.assertIn("none.npy", self.refused("advise", "--table", "none.npy", *ask))
        self.assertIn("--table and --dim exclude each other",
                      self.refused("advise", "--table", "table.npy", "--dim", "3", *ask))
        self.assertEqual({path.name: path.read_bytes() for path in self.folder.iterdir()}, before)

    def test_measures_the_rows_of_the_file_and_leaves_them_as_they_are(self):
        rows = numpy.random.default_rng(1).normal(size=(30_000, 16)).astype("f4")
        numpy.save(self.folder / "real.npy", rows)
        before = (self.folder / "real.npy").read_bytes()
        found = json.loads(self.ask("advise", "--table", "real.npy", "--batch", "256", "--step-ms", "50", "--updates", "adam",
                                    "--distribution", "zipf:1.2", "--time-budget", "20s", "--json").stdout)
        self.assertEqual((found["question"]["table"], found["question"]["rows"]), ("real.npy", 30_000))
        self.assertEqual((self.folder / "real.npy").read_bytes(), before)
        choices = {choice["name"]: choice for choice in found["choices"]}
        self.assertEqual(choices["cached"]["cache_bytes"], 3 * 30_000 * 64 // 10)
        for choice in choices.values():
            self.check_states(choice, 0.05)
        for state in choices["cached"]["states"]:
            self.assertGreater(state["hit_rate"], 0.5)
            self.assertFalse(state["update_estimated"])
            self.assertIn("optimizer step mapped -> row_cache", state["update_case"])
        self.assertEqual(found["wrong"], [])

    def test_a_gigabyte_of_safetensors_read_by_a_real_text(self):
        """The rows of pairs of words: a table of hashed n-grams, as language models have them beside their words'."""
        text = Path(PROGRAM).parents[1] / "texts/king-james-bible.txt"
        if not text.exists():
            self.skipTest("no text is here; install Debian's package bible-kjv and build again")
        rows, dim = 4_000_000, 64
        header = json.dumps({"norm": {"dtype": "F32", "shape": [dim], "data_offsets": [0, 4 * dim]},
                             "embed.weight": {"dtype": "F32", "shape": [rows, dim],
                                              "data_offsets": [4 * dim, 4 * dim * (rows + 1)]}}).encode()
        random = numpy.random.default_rng(26)
        with open(self.folder / "model.safetensors", "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.write(random.random(dim, dtype="f4").tobytes())
            for _ in range(0, rows, 100_000):
                file.write(random.random((100_000, dim), dtype="f4").tobytes())
        self.assertGreater((self.folder / "model.safetensors").stat().st_blocks * 512, 10**9)  # it has no holes
        subprocess.run([sys.executable, ROOT / "scripts/make-trace", "--npy", "-o", self.folder / "words.npy", text], check=True)
        words = numpy.load(self.folder / "words.npy")
        numpy.save(self.folder / "pairs.npy", (words[:-1] * 7_919_003 + words[1:]) % rows)
        before = hashlib.sha256((self.folder / "model.safetensors").read_bytes()).hexdigest()
        ask = ("advise", "--table", "model.safetensors:embed.weight", "--trace", "pairs.npy", "--batch", "4096", "--step-ms", "20")
        found = json.loads(self.ask(*ask, "--json").stdout)
        self.assertEqual(hashlib.sha256((self.folder / "model.safetensors").read_bytes()).hexdigest(), before)
        self.assertEqual((found["question"]["table_bytes"], found["measured_rows"]), (rows * dim * 4, rows))
        self.assertRegex(found["question"]["distribution"], "^file:pairs.npy@[0-9a-f]{8}$")
        choices = {choice["name"]: choice for choice in found["choices"]}
        for choice in choices.values():
            self.check_states(choice, 0.02)
        self.check_verdicts(found, choices)
        for name in ("file", "cached", *MEMORY):
            self.assertTrue(choices[name]["states"], choices[name]["unmeasured"])
        # 790,000 pairs of words, of which many come back: a tenth of the table holds those that do.
        self.assertGreater(choices["cached"]["states"][0]["hit_rate"], 0.5)
        self.assertLess(choices["cached"]["states"][0]["p50_s"], choices["file"]["states"][0]["p50_s"])

    def test_mistakes_name_the_thing_the_value_and_what_would_be_right(self):
        trace = self.file("words.trace", "3\n70000\n")
        for words, parts in (
            (("advise",), ("--rows", "--table FILE", "stbench advise --rows 10M")),
            (ASK[:-2], ("--step-ms", "milliseconds")),
            ((*ASK[:-1], "soon"), ("--step-ms 'soon'", "12.5")),
            ((*ASK[:-1], "0"), ("--step-ms '0'", "above 0")),
            ((*ASK, "--dtype", "flaot16"), ("--dtype", "flaot16", "float16")),
            ((*ASK, "--updates", "adma"), ("--updates", "adma", "Adam")),
            ((*ASK, "--updates", "adam", "--dtype", "float16"), ("float16", "float32")),
            ((*ASK, "--distribution", "zipf:0"), ("--distribution", "zipf")),
            ((*ASK, "--trace", trace, "--distribution", "uniform"), ("--trace", "--distribution")),
            ((*ASK, "--trace", trace), ("words.trace", "line 2", "70000")),
            ((*ASK, "--trace", "none.trace"), ("none.trace", "no such file")),
            ((*ASK, "--memory", "1000000G"), ("--memory 1.00 PB", "are free here under")),
            ((*ASK, "--memory", "8GB"), ("--memory", "8GB")),
            ((*ASK, "--time-budget", "1s"), ("--time-budget 1s", "4 s or more")),
            ((*ASK, "--placement", "mapped"), ("advise has no option --placement", "--rows")),
            ((*ASK, "--rowz", "3"), ("did you mean '--rows'",)),
            ((*ASK, "--json", "--explain"), ("--json", "--explain")),
            ((*ASK, "--json", "--dry-run"), ("--json", "--dry-run")),
            (("advise", "--rows", "0", *ASK[3:]), ("--rows",)),
            (("advise", "--rows", "4000000000G", "--dim", "1G", "--batch", "1", "--step-ms", "1"), ("--rows", "2^63")),
        ):
            with self.subTest(words=words):
                message = self.refused(*map(str, words))
                for part in parts:
                    self.assertIn(part, message)

    def test_a_table_that_fits_nowhere_is_an_error(self):
        message = self.refused("advise", "--rows", "1000G", "--dim", "1000", "--batch", "1", "--step-ms", "1",
                               "--memory", "1M")
        self.assertIn("no placement has room for 1,000,000,000,000 × 1000 float32", message)
        self.assertIn("of disk", message)


class HelpTest(unittest.TestCase):
    def test_is_among_the_commands(self):
        self.assertIn("stbench advise", run("--help").stdout)


if __name__ == "__main__":
    unittest.main()
