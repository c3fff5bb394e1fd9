"""The suites on the emulated GPU: every row is right and none is timed. Readers refuse such a report as a measurement."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/benchmarks"))
import program  # noqa: E402  pylint: disable=wrong-import-position

FOLDER = os.environ.get("STBENCH_EMULATED_GPU", "")
REASON = "emulated GPU: not timed"
RATIOS = ("copy_fraction", "speedup")
# Columns of times that only one suite has.
TIMES = {"transfer": ("latency_p50_s", "latency_p99_s"), "memory": (), "infinitybatch": ("samples_per_s",), "optimizer": (),
         "contiguous": (), "embedding": ("steps_per_s", "words_per_s")}
TRANSFER = ("--suite", "transfer", "--device", "cuda", "--rows", "2k", "--dim", "32", "--batch", "256", "--samples", "2")
FEW = ("--device", "cuda", "--cores", "1", "--samples", "2")
OPTIMIZER = ("--suite", "optimizer", *FEW, "--rows", "300", "--dim", "8", "--batch", "100", "--optimizer", "SparseAdam",
             "--distribution", "zipf:1.05")
CONTIGUOUS = ("--suite", "contiguous", *FEW, "--rows", "6", "--dim", "33", "--optimizer", "Adam", "--clip", "0.1")
EMBEDDING = ("--suite", "embedding", *FEW, "--text", ROOT / "tests/data/us-constitution.txt", "--rows", "200", "--dim", "8",
             "--batch", "32", "--negatives", "2", "--optimizer", "Adagrad")


class SuitesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def emulated(self, configuration, *arguments, status=0, **options):
        done = program.run(*arguments, prefix=(ROOT / "tests/emulated_gpu/run.sh", configuration, FOLDER), **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def rows(self, configuration, *arguments):
        """The rows on the GPU, each of which is right and has no time."""
        path = self.folder / "report.json"
        self.emulated(configuration, *arguments, "--json", path)
        report = program.read_json(path)
        gpu = report["environment"]["gpu"]
        self.assertTrue(gpu["emulated"])
        self.assertEqual((gpu["devices"][0]["name"], gpu["devices"][0]["cuda"]), ("Emulated GPU 0", "cuda:0"))
        found = [row for row in report["cases"] if row["device"] != "cpu"]
        for row in found:
            with self.subTest(row={name: row[name] for name in ("direction", "placement", "method", "device")}):
                self.assertIn(row["status"], ("ok", "waived"), row["reason"])
                self.assertEqual(row["mismatches"], 0)
                self.assertEqual(row["samples_s"], [])
                times = {name for name in row if name.endswith("_s")} - {"samples_s"}
                self.assertLessEqual({"median_s", "gb_per_s", *TIMES[row["suite"]]}, times)
                self.assertEqual({name: row[name] for name in (*times, *RATIOS) if row[name] is not None}, {})
                if row["status"] == "ok":
                    self.assertEqual(row["reason"], REASON)
        return [row for row in found if row["status"] == "ok"]

    def test_transfer(self):
        peers = ("embedding_bag", "gather", "memcpy_batch")
        placements = ["libtorch", "pageable", "hugepage", "mapped", "pinned", "device"]
        # Memory that is not pinned looks alike to the GPU, whatever its pages: one configuration has every placement.
        fewer = ["pageable", "pinned", "device"]
        for configuration, device, chosen, least in (("lazy_cached", "cuda:1", placements, 60), ("lazy_exact", "cuda", fewer, 40),
                                                     ("eager_exact", "cuda", fewer, 40)):
            rows = self.rows(configuration, *TRANSFER[:3], device, *TRANSFER[4:], "--peers", ",".join(peers), "--placement", ",".join(chosen))
            self.assertLessEqual(set(peers), {row["method"] for row in rows}, configuration)
            self.assertGreater(sum(row["verified_rows"] > 0 for row in rows), least, configuration)
            self.assertEqual({row["placement"] for row in rows}, set(chosen))

    def test_cubs_batched_copies(self):
        """Apart: CUB's grid fills the GPU whatever the batch is. In each cell of test_transfer they took 80 % of its time."""
        rows = self.rows("lazy_cached", *TRANSFER, "--placement", "pinned", "--direction", "to,from", "--peers", "cub_batched",
                         "--method", "cub_batched")
        self.assertEqual({(row["direction"], row["method"]) for row in rows}, {("to", "cub_batched"), ("from", "cub_batched")})
        self.assertTrue(all(row["verified_rows"] > 0 for row in rows))

    def test_sums_are_of_both_directions(self):
        rows = self.rows("lazy_cached", *TRANSFER, "--placement", "pinned,device,pageable")
        moved = {(row["direction"], row["placement"], row["method"]): row["payload_bytes"] for row in rows}
        sums = [of for of in moved if of[0] == "sum"]
        self.assertEqual({of[1] for of in sums}, {"pinned", "device", "pageable"})
        for _, *of in sums:
            self.assertEqual(moved["sum", *of], moved["to", *of] + moved["from", *of], of)
        self.assertEqual({tuple(of) for way, *of in moved if way == "to" and ("from", *of) in moved},
                         {tuple(of) for _, *of in sums})

    def test_planted_faults_of_transfer_are_caught(self):
        """The closing wait is for all streams of the GPU; what is queued later, or not at all, is wrong, and so is its sum."""
        path = self.folder / "planted.json"
        wrong = ("gpu_last_row_skipped", "gpu_missing_synchronise", "gpu_staged_without_waits")
        for configuration in ("lazy_cached", "lazy_exact"):
            self.emulated(configuration, *TRANSFER, "--placement", "pinned,device,pageable", "--direction",
                          "to,from,sum,both", "--method", ",".join(("gpu_own_stream", *wrong)), "--json", path,
                          program=program.PLANTED, status=1)
            cases = [case for case in program.read_json(path)["cases"] if case["method"].startswith("gpu_")]
            self.assertEqual({case["method"] for case in cases}, {"gpu_own_stream", *wrong})
            self.assertEqual({case["direction"] for case in cases}, {"to", "from", "sum", "both"})
            for case in cases:
                self.assertEqual(case["status"], "wrong" if case["method"] in wrong else "ok", case)

    def test_samples_in_both_directions_at_once_are_checked(self):
        path = self.folder / "planted.json"
        methods = {"gpu_own_stream": None, "gpu_gathers_once": "model tensor after a sample", "gpu_scatters_once": "table after a sample"}
        self.emulated("lazy_cached", *TRANSFER[:-1], "11", "--placement", "pinned", "--direction", "both", "--cores", "1",
                      "--method", ",".join(methods), "--json", path, program=program.PLANTED, status=1)
        cases = {case["method"]: case for case in program.read_json(path)["cases"]}
        self.assertEqual(set(cases), set(methods))
        for method, reason in methods.items():
            self.assertEqual(cases[method]["status"], "wrong" if reason else "ok")
            self.assertIn(reason or REASON, cases[method]["reason"])

    def order(self, configuration, *arguments):
        """The cases in the order of their samples."""
        path = self.folder / "trace.json"
        self.emulated(configuration, *TRANSFER, "--placement", "pinned,device", *arguments, "--trace", path)
        return [span["args"]["subject"] for span in program.read_json(path)["traceEvents"] if span.get("cat") == "sample"]

    def test_order_is_of_the_seed_and_not_of_the_allocator(self):
        order = self.order("lazy_cached", "--seed", "9")
        self.assertGreater(len(order), 40)
        self.assertEqual(order, self.order("lazy_exact", "--seed", "9"))
        other = self.order("lazy_cached", "--seed", "10")
        self.assertNotEqual(order, other)
        self.assertCountEqual(order, other)

    def test_trace_shows_the_work_of_a_gpu(self):
        path = self.folder / "trace.json"
        rows = self.rows("lazy_cached", *TRANSFER, "--placement", "device", "--direction", "to,from", "--trace", path)
        events = program.read_json(path)["traceEvents"]
        self.assertIn(REASON, next(event["args"]["name"] for event in events if event["ph"] == "M"))
        phases = {}
        for event in events:
            if event["ph"] == "X":
                phases.setdefault(event["args"]["subject"], []).append(event["cat"])
        for row in rows:
            case = f"transfer {row['direction']} device -> {row['method']} -> cuda:0 "
            found = [of_case for subject, of_case in phases.items() if subject.startswith(case)]
            self.assertTrue(found, case)
            for of_case in found:
                self.assertLessEqual({"warm-up", "prepare", "timed", "verify"}, set(of_case), case)
                self.assertEqual(of_case.count("sample"), 2, "as --samples says")

    def test_small_preset(self):
        rows = self.rows("lazy_cached", "--suite", "transfer", "--preset", "small", "--device", "cuda", "--samples", "3")
        self.assertEqual({(row["rows"], row["batch"], row["dim"]) for row in rows}, {(6, 6, 3), (12, 12, 3), (20, 20, 3)})
        self.assertEqual({row["direction"] for row in rows}, {"round_trip"})
        self.assertLessEqual({"pinned", "device"}, {row["placement"] for row in rows})
        self.assertLessEqual({"speedtorch", "copy"}, {row["method"] for row in rows})
        for row in rows:
            element = {"float32": 4, "float64": 8}[row["dtype"]]
            self.assertEqual(row["payload_bytes"], 2 * element * row["batch"] * row["dim"], row)

    def test_axes_of_transfer(self):
        for axes in ({"dim": (16, 33), "batch": (1, 70), "dtype": ("float16", "float64")},
                     {"dim": (32,), "batch": (256,), "cores": (1, 2), "distribution": ("zipf:1.05", "unique")}):
            given = [part for name, values in axes.items() for part in (f"--{name}", ",".join(map(str, values)))]
            rows = self.rows("eager_cached", *TRANSFER[:6], *TRANSFER[-2:], "--placement", "pinned", "--method", "speedtorch,staged",
                             *given)
            for name, values in axes.items():
                self.assertEqual({row[name] for row in rows}, set(values), name)

    def test_callers_share_a_registered_file(self):
        rows = self.rows("lazy_cached", *TRANSFER, "--placement", "mapped", "--direction", "to", "--method", "in_place", "--callers", "2")
        self.assertEqual({row["method"] for row in rows}, {"in_place"})

    def test_memory(self):
        rows = self.rows("eager_cached", "--suite", "memory", "--device", "cuda", "--rows", "10k", "--dim", "64")
        self.assertEqual({(row["placement"], row["method"]) for row in rows},
                         {(placement, method) for placement in ("pinned", "device") for method in ("speedtorch", "libtorch")})
        on_device = [row for row in rows if row["placement"] == "device"]
        self.assertTrue(all(row["device_bytes"] >= row["requested_bytes"] for row in on_device), on_device)

    def test_infinitybatch(self):
        rows = self.rows("eager_cached", "--suite", "infinitybatch", "--device", "cuda", "--model", "mlp", "--batch", "64",
                         "--samples", "2")
        self.assertIn("infinity", {row["method"] for row in rows})

    def test_optimizer(self):
        rows = self.rows("lazy_cached", *OPTIMIZER)
        found = {(row["direction"], row["placement"], row["method"]) for row in rows}
        moves = {(direction, placement, method) for direction in ("to", "from") for placement in ("pinned", "device")
                 for method in ("speedtorch", "index_select", "advanced")}
        steps = {("step", placement, method) for placement in ("pinned", "device")
                 for method in ("sparse_rows", "swap", "dense")}
        self.assertEqual({row for row in found if row[0] != "sum"}, moves | steps | {("step", "pinned", "link")})
        sentence = "optimizer step device -> sparse_rows -> cuda:0 float32 300×8 batch 100 zipf:1.05 int32 cores=1 optimizer=Adamax"
        one = self.rows("lazy_exact", "--case", sentence, "--samples", "2")
        self.assertEqual({row["method"] for row in one}, {"sparse_rows"})
        self.assertTrue(all(row["verified_rows"] > 0 for row in rows + one if row["direction"] != "sum"))

    def test_contiguous(self):
        ways = {"contiguous", "torch_optim", "flat", "foreach", "torch_fused", "stream"}
        for configuration, clip in (("lazy_cached", "0.1"), ("eager_exact", "0")):
            rows = self.rows(configuration, *CONTIGUOUS[:-1], clip)
            self.assertEqual({row["method"] for row in rows}, ways)
        rows = self.rows("lazy_exact", *CONTIGUOUS[:-4], "--optimizer", "Nesterov,AMSGrad,Adagrad,RMSprop,Adadelta,Adamax,ASGD,Rprop",
                         "--clip", "0.1")
        self.assertEqual({row["optimizer"] for row in rows if row["method"] == "foreach"},
                         {"Nesterov", "AMSGrad", "Adagrad", "RMSprop", "Adadelta", "Adamax", "ASGD", "Rprop"})

    def test_embedding(self):
        rows = self.rows("lazy_cached", *EMBEDDING)
        self.assertEqual({(row["placement"], row["method"]) for row in rows},
                         {(placement, method) for placement in ("pinned", "device")
                          for method in ("fused", "swap", "dense", "sparse")})

    def test_planted_faults_of_steps_are_caught(self):
        faults = {"optimizer": ("step_nothing", "step_last_copy_skipped", "step_other_rows", "step_only_when_watched"),
                  "contiguous": ("model_nothing", "model_last_skipped", "model_not_clipped", "model_not_zeroed"),
                  "embedding": ("training_centers_stay", "training_contexts_stay")}
        right = {"optimizer": ("sparse_rows", "step_awaited"), "contiguous": ("model_right",), "embedding": ("fused",)}
        path = self.folder / "planted.json"
        for suite in (OPTIMIZER, CONTIGUOUS, EMBEDDING):
            methods = (*right[suite[1]], *faults[suite[1]])
            self.emulated("lazy_cached", *suite, "--direction", "step", "--method", ",".join(methods), "--json", path,
                          program=program.PLANTED, status=1)
            cases = program.read_json(path)["cases"]
            self.assertEqual({case["method"] for case in cases}, set(methods))
            for case in cases:
                self.assertEqual(case["status"], "ok" if case["method"] in right[suite[1]] else "wrong", case)

    def test_cases_that_the_goals_of_a_gpu_need_are_planned(self):
        sys.path.append(str(ROOT / "tests/scripts"))
        from goals_test import gpu_step_cases  # pylint: disable=import-outside-toplevel
        page = (ROOT / "docs" / "steps.md").read_text()  # whose snippet for a GPU no other test runs
        command = re.search(r"suites_test\.py -->\n```sh\n\./stbench (--suite .*--device cpu,cuda .*)\n```", page)[1]
        listed = self.emulated("lazy_cached", *command.split(), "--dry-run").stdout
        for case in gpu_step_cases(lambda *_: 1.0):
            shape = f"{case['rows']}×{case['dim']}" if case["suite"] == "contiguous" else "2M×128 batch 131072 uniform int64"
            more = [f"{axis}={case[axis]}" for axis, usual in (("optimizer", "Adam"), ("shape", "even")) if case.get(axis, usual) != usual]
            sentence = f"{case['suite']} step {case['placement']} -> {case['method']} -> cuda:0 float32 {shape}"
            found = [line for line in listed.splitlines() if line.startswith(sentence)]
            self.assertTrue(any(line.split()[-len(more):] == more for line in found) if more else found, (sentence, more))

    def test_placements_and_sizes_that_a_gpu_cannot_have_are_refused(self):
        for words, expected in ((("--placement", "device", "--rows", "10M", "--dim", "1k"), "are free on cuda:0"), (("--placement", "hugepage"), "with a GPU: pinned, device"),
                                (("--device", "cpu", "--placement", "pinned"), "with --device cpu: libtorch, pageable"),
                                (("--device", "cuda:9"), "this machine has 2 GPU(s)")):
            with self.subTest(words):
                given = dict(zip(OPTIMIZER[::2], OPTIMIZER[1::2]))
                given.update(zip(words[::2], words[1::2]))
                refused = self.emulated("lazy_cached", *(word for pair in given.items() for word in pair), "--dry-run", status=2)
                self.assertIn(expected, refused.stderr)

    def test_doctor_looks_at_the_gpus(self):
        said = self.emulated("lazy_cached", "doctor").stdout
        self.assertIn("GPU 1 of 2", said)

    def test_such_a_report_is_neither_compared_nor_drawn(self):
        path = self.folder / "emulated.json"
        narrow = (*TRANSFER, "--placement", "device", "--direction", "to", "--method", "speedtorch")
        self.emulated("lazy_cached", *narrow, "--json", path, "--csv", path.with_suffix(".csv"))
        for file in (path, path.with_suffix(".csv")):
            refused = program.run("compare", file, file)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("emulated GPU", refused.stderr)
        shown = program.run("show", path)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        measured = self.folder / "measured.json"
        for option in (("--save-baseline", "b"), ("--baseline", "b")):
            saved = self.emulated("lazy_cached", *narrow, "--json", measured, *option, "--baselines", self.folder / "baselines",
                                  status=2)
            self.assertIn(f"{option[0]}: CUDA's runtime is an emulated GPU", saved.stderr)
            self.assertFalse(measured.exists(), "refused before anything is measured")
        refused = self.emulated("lazy_cached", "calibrate", *narrow, "--baselines", self.folder / "baselines", status=2)
        self.assertIn("emulated GPU", refused.stderr)
        self.assertFalse((self.folder / "baselines").exists())
        sys.path.append(str(ROOT / "scripts/lib"))
        import reports  # what scripts/charts and scripts/goals read by  pylint: disable=import-outside-toplevel
        with self.assertRaisesRegex(reports.ReportError, "emulated GPU"):
            reports.read(path)


if __name__ == "__main__":
    unittest.main()
