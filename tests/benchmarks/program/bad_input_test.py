"""A mistake gets one to three lines that name the thing and the value, exit status 2, and touches no report."""

import resource
import unittest

import numpy as np

from program import SMALL, ProgramTest, peers_of, run

BASE = ("--suite", "transfer", "--samples", "3")
CASE = "transfer to libtorch -> speedtorch -> cpu float32 3k×128 batch 500 unique int64 cores=1"
STEP_CASE = "optimizer step hugepage -> sparse_rows -> cpu float32 3k×8 batch 500 unique int64 cores=1"
COUNTS = ["1kb", "-5", "1e6", "9999999999999999999", "1.5", " 3", "0x10", "k", "1,,2", "1:5", "5:1:x2", "1:5:x1",
          "1:9:+0", "1:100k:+1", "99999999999G"]

# Arguments, and what the message has to say of them.
MISTAKES = [
    (["--suite", "transfre"], ["--suite", "'transfre'", "did you mean 'transfer'?"]),
    (["--suite", ""], ["--suite", "empty"]),
    (["--suite", "transfer,"], ["'transfer,'", "empty item"]),
    ([], ["which suite?", "transfer"]),
    (["--siute", "transfer"], ["--siute", "did you mean '--suite'?"]),
    ([*BASE, "-x"], ["unknown option -x", "--help"]),
    ([*BASE, "--csv"], ["--csv", "missing"]),
    ([*BASE, "--csv", ""], ["--csv", "empty"]),
    ([*BASE, "--json", ""], ["--json", "empty"]),
    ([*BASE, "--dry-run=5"], ["dry-run"]),
    ([*BASE, "--rows", "1k", "--rows", "2k"], ["--rows", "2 times"]),
    (["rnu", *BASE], ["'rnu'", "did you mean 'run'?"]),
    ([*BASE, "extra"], ["'extra'"]),
    (["show"], ["show REPORT"]),
    (["show", "a", "b"], ["'b'"]),
    (["show", "a", "--rows", "5"], ["show", "--rows"]),
    (["show", "a", "--filter", "("], ["--filter", "'('"]),
    (["show", "a", "--color", "sometimes"], ["--color", "'sometimes'", "always"]),
    (["show", "a", "--sort"], ["show", "--sort"]),
    (["completion"], ["completion", "bash, zsh or fish"]),
    (["completion", "bsh"], ["'bsh'", "did you mean 'bash'?"]),
    (["man", "page"], ["man", "'page'"]),
    ([*BASE, "--expect", "to"], ["--expect", "'to'", ">="]),
    ([*BASE, "--expect", "to>=fast"], ["--expect", "'fast'", "GB/s"]),
    ([*BASE, "--expect", "to>=-3"], ["--expect", "'-3'"]),
    ([*BASE, "--expect", "(>=3"], ["--expect", "'('"]),
    ([*BASE, "--trace", ""], ["--trace", "empty"]),
    ([*BASE, "--events", "e", "--trace", "./e"], ["--events 'e' and --trace './e'", "one file"]),
    ([*BASE, "--optimizer", "Adam"], ["--optimizer", "transfer", "contiguous"]),
    (["--suite", "memory", "--clip", "1"], ["--clip", "memory", "contiguous"]),
    ([*BASE, "--events", "missing/e"], ["missing/e", "No such file"]),
    ([*BASE, "--events", "e", "--rows", "0"], ["--rows 0"]),
    ([*BASE, "--dtype", "float33"], ["--dtype", "'float33'", "did you mean 'float32'?", "bfloat16"]),
    ([*BASE, "--index-dtype", "int16"], ["--index-dtype", "'int16'", "int64, int32"]),
    ([*BASE, "--method", "speedtroch"], ["--method", "'speedtroch'", "did you mean 'speedtorch'?"]),
    ([*BASE, "--placement", "hugepages"], ["--placement", "'hugepages'", "did you mean 'hugepage'?"]),
    ([*BASE, "--direction", "form"], ["--direction", "'form'", "did you mean 'from'?"]),
    ([*BASE, "--distribution", "unifrom"], ["--distribution", "'unifrom'", "did you mean 'uniform'?", "zipf:S"]),
    ([*BASE, "--distribution", "zipf:0"], ["'0'", "zipf:1.05"]),
    ([*BASE, "--distribution", "zipf:x"], ["'x'", "zipf:1.05"]),
    ([*BASE, "--distribution", "file:"], ["file:PATH"]),
    ([*BASE, "--device", "gpu"], ["--device", "'gpu'", "cpu, cuda or cuda:N"]),
    ([*BASE, "--device", "cuda:x"], ["--device", "'cuda:x'"]),
    ([*BASE, "--placement", "pinned", "--device", "cpu"], ["pinned", "CUDA", "--device cpu"]),
    ([*BASE, "--method", "staged", "--device", "cpu"], ["nothing to measure", "staged", "cpu"]),
    ([*BASE, "--peers", "numpi"], ["--peers", "'numpi'", "did you mean 'numpy'?"]),
    ([*BASE, "--peers", "speedtorch"],
     ["--peers", "'speedtorch'", *peers_of("transfer")]),
    (["--case", CASE, "--peers", "numpy"], ["--case", "--peers"]),
    ([*BASE, "--preset", "fast"], ["--preset", "'fast'", "quick", "standard", "kernels", "files", "full", "small", "steps", "batches"]),
    ([*BASE, "--isa", "avx9"], ["--isa", "'avx9'", "best", "baseline"]),
    ([*BASE, "--verify", "never"], ["--verify", "'never'", "first, sampled, every"]),
    ([*BASE, "--color", "sometimes"], ["--color", "'sometimes'", "always"]),
    ([*BASE, "--filter", "("], ["--filter", "'('"]),
    ([*BASE, "--filter", "nothing like it"], ["'nothing like it'", "matches no case"]),
    (["--suite", "transfer", "--samples", "0"], ["--samples", "0", "1 to"]),
    (["--suite", "transfer", "--samples", "x"], ["--samples", "'x'"]),
    ([*BASE, "--warmup", "0"], ["--warmup", "0"]),
    ([*BASE, "--timeout", "-1"], ["--timeout", "'-1'"]),
    ([*BASE, "--timeout", "soon"], ["--timeout", "'soon'"]),
    ([*BASE, "--seed", "-1"], ["--seed", "'-1'"]),
    ([*BASE, "--cores", "0"], ["--cores 0", "use 1 to"]),
    ([*BASE, "--cores", "99999"], ["--cores 99999", "use 1 to", "affinity"]),
    ([*BASE, "--callers", "0"], ["--callers 0", "use 1 to 1024"]),
    ([*BASE, "--callers", "1025"], ["--callers 1025", "use 1 to 1024"]),
    ([*BASE, "--callers", "many"], ["--callers", "'many'"]),
    ([*BASE, "--callers", "8", "--batch", "131072"], ["1,048,576", "1,000,000", "--callers 8 of 131072 rows each"]),
    (["--case", CASE, "--callers", "2"], ["--case", "--callers"]),
    (["--case", CASE + " callers=0"], ["callers"]),
    ([*BASE, "--direction", "both", "--device", "cpu"], ["nothing to measure", "both is between pinned memory"]),
    ([*BASE, "--rows", "0"], ["--rows 0", "at least 1"]),
    ([*BASE, "--dim", "0"], ["--dim 0", "at least 1"]),
    ([*BASE, "--batch", "0"], ["--batch 0", "at least 1"]),
    ([*BASE, "--row-bytes", "0"], ["--row-bytes 0", "at least 1"]),
    ([*BASE, "--row-bytes", "4", "--dim", "3"], ["--row-bytes", "--dim"]),
    ([*BASE, "--row-bytes", "4", "--dtype", "int8"], ["--row-bytes", "--dtype"]),
    ([*BASE, "--rows", "100", "--batch", "500"], ["--batch", "500", "100", "uniform"]),
    ([*BASE, "--rows", "3G", "--dim", "1", "--index-dtype", "int32"], ["int32", "3000000000", "int64"]),
    ([*BASE, "--rows"], ["--rows: 1 required value missing"]),
    ([*BASE, "--csv", "-", "--json", "-"], ["--csv -", "--json -", "stdout"]),
    ([*BASE, "--csv", "r", "--json", "./r"], ["--csv 'r' and --json './r'", "one file"]),
    ([*BASE, "--benchmark_repetitions=3"], ["--benchmark_repetitions", "--benchmark_filter"]),
    ([*BASE, "--benchmark_min_time", "1"], ["--benchmark_min_time", "--benchmark_filter"]),
    ([*BASE, "--benchmark_out_format", "xml"], ["'xml'", "json, csv, console"]),
    (["--case", ""], ["--case", "empty"]),
    (["--case", "nonsense"], ["--case", "'nonsense'", "transfer"]),
    (["--case", "transfer"], ["--case", "direction", "right:"]),
    (["--case", CASE.replace("transfer", "transfr")], ["--case", "'transfr'", "did you mean 'transfer'?"]),
    (["--case", CASE.replace(" to ", " too ")], ["--case", "'too'"]),
    (["--case", STEP_CASE.replace(" step ", " bogus ")], ["--case: direction", "'bogus'"]),
    (["--case", STEP_CASE.replace(" step ", " sum ")], ["--case: direction", "'sum'"]),
    (["--case", CASE.replace("libtorch", "libtroch")], ["--case", "'libtroch'", "did you mean 'libtorch'?"]),
    (["--case", CASE.replace("speedtorch", "speedtroch")], ["--case", "'speedtroch'", "did you mean 'speedtorch'?"]),
    (["--case", CASE.replace("float32", "float33")], ["--case", "'float33'", "did you mean 'float32'?"]),
    (["--case", CASE.replace("int64", "int16")], ["--case", "'int16'"]),
    (["--case", CASE.replace("unique", "uniqe")], ["'uniqe'", "did you mean 'unique'?"]),
    (["--case", CASE.replace("3k×128", "3k")], ["--case", "'3k'", "ROWS×DIM"]),
    (["--case", CASE.replace(" cores=1", "")], ["--case", "cores=N"]),
    (["--case", CASE.replace("cores=1", "cores=99999")], ["999"]),
    (["--case", CASE + " cahce=cold"], ["--case", "cahce"]),
    (["--case", CASE + " cache=hot"], ["--case", "cache"]),
    (["--case", CASE + " isa=avx9"], ["--case", "isa", "'avx9'", "baseline"]),
    (["--case", CASE, "--rows", "5k"], ["--case", "--rows"]),
    (["--case", CASE, "--filter", "x"], ["--case", "--filter"]),
]


class BadInputTest(ProgramTest):
    def check_refused(self, arguments, parts, **options):
        """The reports named here exist before, and neither they nor anything else in the folder changes."""
        for name in ("old.csv", "old.json"):
            self.file(name, "old\n")
        for option, name in (("--csv", "old.csv"), ("--json", "old.json")):
            if option not in arguments and (arguments or [""])[0] not in ("show", "completion", "man"):
                arguments = [option, name, *arguments]
        before = self.contents()
        done = self.run_program(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        lines = done.stderr.splitlines()
        self.assertTrue(1 <= len(lines) <= 3, done.stderr)
        self.assertTrue(lines[0].startswith("stbench: "), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(self.contents(), before)

    def contents(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def test_mistakes_are_named_and_touch_nothing(self):
        for arguments, parts in MISTAKES:
            with self.subTest(arguments=arguments):
                self.check_refused(arguments, parts)

    def test_counts_that_are_none(self):
        for text in COUNTS:
            with self.subTest(text=text):
                self.check_refused([*BASE, "--rows", text], ["--rows", text])
        for option in ("--dim", "--batch", "--row-bytes", "--cores"):
            self.check_refused([*BASE, option, "many"], [option, "'many'", "whole number"])

    def test_sizes_that_overflow_or_exceed_the_memory_are_said_before_anything_is_allocated(self):
        mistakes = [
            (["--rows", "9000000000G"], ["9000000000000000000", "overflows"]),
            (["--rows", "1G", "--dim", "9G"], ["overflows"]),
            (["--rows", "9000000G"], ["4.61 EB", "free", "--rows"]),
            (["--rows", "1G", "--dim", "100k"], ["400 TB", "free", "--rows"]),
            (["--rows", "10", "--batch", "9223372036854775807", "--distribution", "uniform"], ["batch", "overflows"]),
            (["--rows", "10", "--batch", "90071992547409920", "--dim", "1", "--distribution", "uniform"], ["batch"]),
            (["--rows", "10", "--batch", "1000G", "--distribution", "uniform"], ["bytes", "--batch"]),
        ]
        for arguments, parts in mistakes:
            with self.subTest(arguments=arguments):
                self.check_refused([*BASE, *arguments], parts, timeout=30)
        # Of all children; starting the program alone takes a few hundred megabytes.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, 2e9)

    def test_index_files_that_cannot_be_used(self):
        files = {
            "empty.txt": ("", ["has no numbers"]),
            "words.txt": ("1\n2\nthree\n4\n", ["line 3", "'three'"]),
            "blank.txt": ("1\n\n2\n", ["line 2", "empty"]),
            "two.txt": ("1\n2 3\n", ["line 2", "'2 3'"]),
            "real.txt": ("1\n2.5\n", ["line 2", "'2.5'"]),
            "negative.txt": ("0\n-4\n", ["line 2", "-4", "negative"]),
            "large.txt": ("1\n2\n2999\n3000\n", ["line 4", "3000", "3,000 rows"]),
            "huge.txt": ("99999999999999999999\n", ["line 1", "64 bits"]),
        }
        for name, (text, parts) in files.items():
            self.file(name, text)
            with self.subTest(file=name):
                self.check_refused([*SMALL, "--distribution", f"file:{name}"], [name, *parts])
        self.check_refused([*SMALL, "--distribution", "file:missing.txt"], ["missing.txt", "no such file"])
        self.check_refused([*SMALL, "--distribution", "file:."], ["folder"])

    def test_npy_files_that_cannot_be_used(self):
        arrays = {
            "reals.npy": (np.array([1.0, 2.0]), ["f8"]),
            "table.npy": (np.array([[1, 2], [3, 4]]), ["2 dimensions"]),
            "empty.npy": (np.array([], dtype=np.int64), ["has no numbers"]),
            "negative.npy": (np.array([3, -1]), ["element 1", "-1", "negative"]),
            "large.npy": (np.array([3, 5, 3000]), ["element 2", "3000"]),
        }
        for name, (array, parts) in arrays.items():
            np.save(self.folder / name, array)
            with self.subTest(file=name):
                self.check_refused([*SMALL, "--distribution", f"file:{name}"], [name, *parts])
        whole = (self.folder / "large.npy").read_bytes()
        (self.folder / "cut.npy").write_bytes(whole[:-3])
        self.check_refused([*SMALL, "--distribution", "file:cut.npy"], ["cut.npy"])

    def test_reports_that_cannot_be_written_are_said_before_measuring(self):
        # /sys refuses new files to everybody; the samples would take hours.
        for option in ("--csv", "--json", "--benchmark_out", "--events", "--trace"):
            for path, parts in (("missing/r", ["missing/r", "No such file"]), (".", ["folder"]), ("/sys/r", ["/sys/r"]),
                                ("old.csv/r", ["old.csv"])):
                with self.subTest(option=option, path=path):
                    self.check_refused(["--suite", "transfer", "--samples", "1M", option, path], parts, timeout=30)

    def test_patterns_of_any_length_and_shape_end_in_a_few_words(self):
        report = self.folder / "r.json"
        self.assertEqual(run(*SMALL, "--direction", "to", "--filter", "-> copy", "--json", report).returncode, 0)
        for pattern in ("a" * 120_000, "(" * 20_000, "(" * 20_000 + "ZZZ" + ")" * 20_000, "(.*)*(.*)*zzz", "(a{1000}){1000}"):
            for arguments in ([*SMALL, "--dry-run", "--filter", pattern], ["show", report, "--filter", pattern],
                              [*SMALL, "--expect", f"{pattern}>=1", "--filter", "nothing"]):
                with self.subTest(pattern=pattern[:20], arguments=arguments[-2]):
                    done = run(*arguments, timeout=60)
                    self.assertEqual(done.returncode, 2, done.stderr[:300])
                    self.assertRegex(done.stderr, r"^stbench: --(filter|expect) ")
                    self.assertLess(len(done.stderr), 400)

    def test_report_that_cannot_be_written_after_all_is_an_error(self):
        done = run(*SMALL, "--direction", "to", "--csv", "/dev/full")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/dev/full", done.stderr)
        self.assertIn("No space left", done.stderr)

    def test_reports_that_cannot_be_read(self):
        self.file("text.txt", "no report\n")
        self.file("cut.json", '{"schema_version": "1.0", "cases": [')
        self.file("other.json", '{"schema_version": "9.0"}')
        for name in ("text.txt", "cut.json", "other.json", "missing.json"):
            with self.subTest(file=name):
                self.check_refused(["show", name], [name])

    def test_gpu_that_is_not_there_says_what_was_found_and_what_is_missing(self):
        if run(*SMALL, "--device", "cuda", "--dry-run").returncode == 0:
            self.check_refused([*SMALL, "--device", "cuda:999"], ["--device cuda:999", "GPU"])
            self.skipTest("this machine has a GPU: only a number too large was tried")
        for device in ("cuda", "cuda:0", "cuda:7"):
            self.check_refused([*SMALL, "--device", device],
                               [f"--device {device}", "found: LibTorch", "missing: ", "use --device cpu"])


if __name__ == "__main__":
    unittest.main()
