"""The suites that time steps: what takes part, what is checked, and what a report says."""

import random
import sys
import unittest
from pathlib import Path

from program import HOST, PLANTED, ProgramTest, peers_python, read_json, run

TEXT = Path(__file__).resolve().parents[2] / "data/us-constitution.txt"
OPTIMIZER = ("--suite", "optimizer", "--rows", "3k", "--dim", "8", "--batch", "700", "--samples", "3", "--cores", "1", *HOST)
EMBEDDING = ("--suite", "embedding", "--text", TEXT, "--rows", "800", "--dim", "16", "--batch", "512", "--samples", "3",
             "--cores", "1", *HOST)
CONTIGUOUS = ("--suite", "contiguous", "--rows", "40", "--dim", "33", "--samples", "3", "--cores", "1", *HOST)
# Float32 tables and states of each optimizer (seeds-inventory 1.3; Rprop's step size is a state here).
STATES = {"Adam": 2, "AMSGrad": 3, "AdamW": 2, "SparseAdam": 2, "Adagrad": 1, "RMSprop": 1, "Momentum": 1, "Nesterov": 1, "Adadelta": 2,
          "Adamax": 2, "ASGD": 1, "Rprop": 2}
IN_LIBTORCH = {"Adam", "AMSGrad", "AdamW", "SparseAdam", "Adagrad", "RMSprop", "SGD", "Momentum", "Nesterov"}
FUSED = {"Adam", "AMSGrad", "AdamW", "SGD", "Momentum", "Nesterov", "Adagrad"}  # at::_fused_*


def measured(cases):
    return [case for case in cases if case["samples"] > 0]


class OptimizerSuiteTest(ProgramTest):
    def test_states_of_each_optimizer_are_moved_and_checked(self):
        cases = self.cases(*OPTIMIZER, "--preset", "full", "--direction", "to,from,sum", "--placement", "pageable")
        for name, states in STATES.items():
            mine = [case for case in cases if case["optimizer"] == name]
            self.assertEqual({case["direction"] for case in mine}, {"to", "from", "sum"}, name)
            self.assertEqual({case["method"] for case in mine}, {"speedtorch", "index_select", "advanced"}, name)
            for case in measured(mine):
                self.assertEqual(case["payload_bytes"], states * 700 * 8 * 4, case)
                self.assertGreaterEqual(case["verified_rows"], 2 * states * 700, case)
                self.assertEqual(case["mismatches"], 0)
            for case in (one for one in mine if one["direction"] == "sum"):
                parts = [one["median_s"] for one in mine if one["method"] == case["method"] and one["direction"] != "sum"]
                self.assertAlmostEqual(case["median_s"], sum(parts), places=12)
        self.assertNotIn("SGD", {case["optimizer"] for case in cases})

    def test_every_optimizer_steps_by_every_method(self):
        for draw in ("unique", "zipf:1.05"):
            cases = self.cases(*OPTIMIZER, "--preset", "full", "--direction", "step", "--placement", "hugepage",
                               "--distribution", draw)
            for name in (*STATES, "SGD"):
                mine = [case for case in cases if case["optimizer"] == name]
                ways = {case["method"] for case in measured(mine)}
                self.assertEqual(ways, {"sparse_rows", "swap", "dense"} if name in IN_LIBTORCH else {"sparse_rows", "swap"})
                lacking = {case["method"]: case["reason"] for case in mine if case["status"] == "waived"}
                self.assertEqual(set(lacking), {"sparse_rows", "swap", "dense"} - ways)
                self.assertEqual(set(lacking.values()), set() if name in IN_LIBTORCH else {f"LibTorch has no {name} in C++"})
                for case in measured(mine):
                    self.assertGreater(case["verified_rows"], 500)
                    self.assertEqual((case["mismatches"], case["status"] in ("ok", "unstable")), (0, True), case)
                    self.assertEqual(case["speedup"] is not None, name in IN_LIBTORCH)

    def test_python_torch_is_a_peer_on_its_own_tables(self):
        cases = self.cases(*OPTIMIZER, "--optimizer", "SparseAdam,Adagrad,SGD,Adamax", "--direction", "step",
                           "--placement", "libtorch", "--distribution", "zipf:1.05", "--peers", "torch_sparse", STBENCH_PYTHON=sys.executable)
        mine = {case["optimizer"]: case for case in cases if case["method"] == "torch_sparse"}
        if mine["SGD"]["status"] == "waived" and "cannot be imported" in mine["SGD"]["reason"]:
            self.skipTest("Python's torch is not here")
        self.assertEqual(mine["Adamax"]["reason"], "Python torch's Adamax takes no sparse gradients")
        for name in ("SparseAdam", "Adagrad", "SGD"):
            self.assertIn(mine[name]["status"], ("ok", "unstable"), mine[name])
            self.assertGreater(mine[name]["verified_rows"], 500)

    def test_fbgemm_is_a_peer_on_its_own_tables(self):
        if (python := peers_python()) is None:
            self.skipTest("the packages of scripts/setup --peers are not installed")
        cases = self.cases(*OPTIMIZER, "--optimizer", "SparseAdam,Adagrad,SGD", "--direction", "step", "--placement", "libtorch",
                           "--distribution", "zipf:1.05", "--peers", "fbgemm", STBENCH_PYTHON=python)
        mine = {case["optimizer"]: case for case in cases if case["method"] == "fbgemm"}
        self.assertEqual(mine["SparseAdam"]["reason"], "FBGEMM has no SparseAdam for tables of a CPU")
        for name in ("Adagrad", "SGD"):
            self.assertIn(mine[name]["status"], ("ok", "unstable"), mine[name])
            self.assertGreater(mine[name]["verified_rows"], 500)

    def test_planted_faults_are_caught(self):
        faults = {"step_nothing": "instead of", "step_last_copy_skipped": "instead of", "step_every_row": "instead of",
                  "step_other_rows": "instead of", "step_not_counted": "instead of", "step_only_when_watched": "the step changed nothing"}
        large = {**dict(zip(OPTIMIZER[::2], OPTIMIZER[1::2])), "--rows": "20k", "--batch": "5k"}  # of which some are looked at
        for size in (OPTIMIZER, [word for pair in large.items() for word in pair]):
            report, _, _ = self.measure(*size, "--optimizer", "SparseAdam", "--direction", "step", "--placement", "pageable",
                                        "--method", ",".join(["sparse_rows", *faults]), program=PLANTED, status=1)
            for case in report["cases"]:
                self.assertEqual(case["status"] == "wrong", case["method"] in faults, case)
                self.assertIn(faults.get(case["method"], ""), case["reason"])

    def test_a_case_of_the_report_runs_again_and_show_has_the_table(self):
        report, _, _ = self.measure(*OPTIMIZER, "--optimizer", "Adagrad", "--direction", "step", "--placement", "pageable",
                                    "--distribution", "uniform")
        self.assertEqual(report["axes"], ["cache", "cache_bytes", "optimizer"])
        case_id = "optimizer step pageable -> sparse_rows -> cpu float32 3kx8 batch 700 uniform int64 cores=1 optimizer=Adagrad"
        again = self.cases("--case", case_id, "--samples", "3")
        self.assertEqual([case["method"] for case in again if case["status"] != "waived"], ["sparse_rows", "dense"])
        shown = self.run_program("show", "r.json").stdout
        self.assertIn("step: a step of the optimizer (cpu)", shown)
        self.assertIn("LibTorch's best", shown)

    def test_impossible_values_are_refused_with_the_possible_ones(self):
        for words, expected in (
                (("--optimizer", "Adamm"), "did you mean 'Adam'"),
                (("--preset", "kernels"), "--suite optimizer has no preset kernels; use quick, standard, full, steps"),
                (("--device", "cuda:99"), "--device cuda:99"),
                (("--placement", "pinned"), "placements with --device cpu: libtorch, pageable, hugepage, mapped; with a GPU: pinned, device"),
                (("--dtype", "float64"), "float32 only"),
                (("--distribution", "unique", "--batch", "4k"), "unique"),
                (("--rows", "100G"), "are available"),
                (("--cores", "1000"), "use 1 to"),
                (("--callers", "2"), "has no meaning for --suite optimizer")):
            with self.subTest(words):
                given = dict(zip(OPTIMIZER[::2], OPTIMIZER[1::2]))
                given.update(zip(words[::2], words[1::2]))
                done = self.run_program(*(word for pair in given.items() for word in pair))
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(expected, done.stderr)
        done = self.run_program("--suite", "transfer", "--preset", "steps")
        self.assertIn("--suite transfer has no preset steps", done.stderr)


class EmbeddingSuiteTest(ProgramTest):
    def test_every_method_trains_the_same_tables(self):
        cases = self.cases(*EMBEDDING, "--placement", "libtorch", "--negatives", "3")
        ways = {}
        for case in measured(cases):
            ways.setdefault(case["optimizer"], set()).add(case["method"])
            self.assertRegex(case["distribution"], r"^text:us-constitution\.txt@[0-9a-f]{8}$")
            self.assertEqual((case["mismatches"], case["negatives"], case["vocabulary"]), (0, 3, 800))
            self.assertAlmostEqual(case["words_per_s"], 512 / case["median_s"], delta=1)
            self.assertAlmostEqual(case["steps_per_s"], 1 / case["median_s"], delta=0.01)
            self.assertIsNone(case["heldout_loss"])  # the text is too short
        self.assertEqual(ways, {"SGD": {"fused", "swap", "dense", "sparse"}, "Adagrad": {"fused", "swap", "dense", "sparse"},
                                "SparseAdam": {"fused", "swap", "dense"}, "Adamax": {"fused", "swap"}})

    def test_every_method_learns_on_a_real_text(self):
        listed = run("--suite", "embedding", "--preset", "quick", "--dry-run").stdout
        if "no text is here" in listed:
            self.skipTest("no text is here; install Debian's package bible-kjv and build again")
        report, _, done = self.measure("--suite", "embedding", "--rows", "1500", "--dim", "16", "--batch", "4096",
                                       "--samples", "1", "--optimizer", "Adagrad", "--placement", "libtorch", *HOST)
        cases = measured(report["cases"])
        self.assertEqual({case["method"] for case in cases}, {"fused", "swap", "dense", "sparse"})
        for case in cases:
            self.assertLess(case["heldout_loss"], case["unigram_loss"], case)
            self.assertLess(case["unigram_loss"], case["zero_loss"])
            self.assertAlmostEqual(case["zero_loss"], 6 * 0.6931472, places=5)
            curve = [float(point.split(":")[1]) for point in case["loss_curve"].split()]
            self.assertAlmostEqual(curve[0], case["zero_loss"], places=1)
            self.assertAlmostEqual(curve[-1], case["heldout_loss"], places=3)
        losses = [case["heldout_loss"] for case in cases]
        self.assertLess(max(losses) - min(losses), 0.01)  # the same steps on the same pairs by each
        self.assertIn("Does it learn?", done.stdout)

    def test_planted_faults_of_training_are_caught(self):
        # Some words of one of 20 subjects, then some of another: who learns knows which go together.
        draw = random.Random(1)
        letters = "abcdefghijklmnopqrst"
        text = " ".join(f"{subject}{draw.choice(letters)}" for subject in draw.choices(letters, k=11_000) for _ in range(10))
        self.file("subjects.txt", text)
        faults = {"training_centers_stay": "instead of", "training_contexts_stay": "instead of",
                  "training_learns_nothing": "it does not learn"}
        report, _, _ = self.measure("--suite", "embedding", "--text", "subjects.txt", "--rows", "400", "--dim", "16", "--batch",
                                    "512", "--samples", "3", "--cores", "1", *HOST, "--placement", "libtorch", "--optimizer", "Adagrad",
                                    "--method", ",".join(["fused", *faults]), program=PLANTED, status=1)
        for case in report["cases"]:
            self.assertEqual(case["status"] == "wrong", case["method"] in faults, case)
            self.assertIn(faults.get(case["method"], ""), case["reason"])
            if case["method"] == "fused":
                self.assertLess(case["heldout_loss"], case["unigram_loss"] - 0.1)
                self.assertAlmostEqual(float(case["loss_curve"].split()[0][2:]), case["zero_loss"], places=3)  # from anew

    def test_texts_that_cannot_be_used_are_refused(self):
        self.file("short.txt", "too short")
        for text, expected in (("absent.txt", "absent.txt"), ("short.txt", "a longer one is needed")):
            given = [text if word is TEXT else word for word in EMBEDDING]
            done = self.run_program(*given, "--optimizer", "SGD")
            self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
            self.assertIn(expected, " ".join((done.stderr + done.stdout).split()))


class ContiguousSuiteTest(ProgramTest):
    def test_every_optimizer_and_method_with_and_without_clipping(self):
        report, _, _ = self.measure(*CONTIGUOUS, "--preset", "full")
        self.assertEqual(report["axes"], ["clip", "optimizer", "shape"])
        for case in measured(report["cases"]):
            self.assertEqual((case["mismatches"], case["batch"], case["distribution"]), (0, 0, ""), case)
            self.assertGreaterEqual(case["verified_rows"], 1 if case["method"] == "stream" else 2 * 40 * 33)
        for clip in (0, 0.1):
            for name in {*STATES, "SGD"} - {"SparseAdam"}:
                mine = [case for case in measured(report["cases"]) if (case["clip"], case["optimizer"]) == (clip, name)]
                ways = {"contiguous", "foreach", "stream"}
                ways |= {"torch_optim", "flat"} if name in IN_LIBTORCH else set()
                ways |= {"torch_fused"} if name in FUSED else set()
                self.assertEqual({case["method"] for case in mine}, ways, name)
                passes = 3 + 2 * STATES.get(name, 0) + (2 if clip else 0)
                self.assertEqual({case["payload_bytes"] for case in mine}, {40 * 33 * 4 * passes})

    def test_planted_faults_of_a_models_step_are_caught(self):
        faults = {"model_nothing": "instead of", "model_last_skipped": "of parameter 39", "model_not_clipped": "instead of",
                  "model_not_counted": "instead of", "model_not_zeroed": "33 elements of the gradients are not zeroed",
                  "model_only_when_watched": "the step changed nothing"}
        report, _, _ = self.measure(*CONTIGUOUS, "--optimizer", "Adam", "--clip", "0.1", "--method",
                                    ",".join(["contiguous", "model_right", *faults]), program=PLANTED, status=1)
        self.assertEqual(len(report["cases"]), 2 + len(faults))
        for case in report["cases"]:
            self.assertEqual(case["status"] == "wrong", case["method"] in faults, case)
            self.assertIn(faults.get(case["method"], ""), case["reason"])

    def test_real_models_have_their_parameters(self):
        # The published numbers of parameters.
        sizes = {"resnet-50": (161, 25_557_032), "bert-base": (199, 109_482_240), "gpt2-small": (148, 124_439_808),
                 "linears": (200, 1_651_200)}
        text = run("list").stdout
        for name, (tensors, elements) in sizes.items():
            self.assertIn(f"{name:<12} {tensors} tensors, {elements} elements", text)
        cases = self.cases("--suite", "contiguous", "--shape", "linears", "--optimizer", "Adam", "--clip", "0.1", "--samples", "3")
        self.assertEqual({(case["rows"], case["dim"]) for case in cases}, {(200, 8256)})
        self.assertEqual({case["payload_bytes"] for case in measured(cases)}, {1_651_200 * 4 * 9})

    def test_case_without_a_batch_has_a_case_id(self):
        case_id = "contiguous step libtorch -> torch_optim -> cpu float32 40×33 cores=1 optimizer=SGD"
        cases = self.cases("--case", case_id, "--samples", "3")
        self.assertIn("torch_optim", {case["method"] for case in measured(cases)})
        listed = run(*CONTIGUOUS, "--optimizer", "SGD", "--clip", "0", "--dry-run").stdout
        self.assertIn(case_id, listed)
        done = run("--case", case_id + " batch 5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("right: contiguous step", done.stderr)

    def test_deepspeed_is_a_peer_on_a_flat_tensor(self):
        if (python := peers_python()) is None:
            self.skipTest("the packages of scripts/setup --peers are not installed")
        cases = self.cases(*CONTIGUOUS, "--optimizer", "Adam,AdamW,SGD", "--clip", "0,0.1", "--peers", "deepspeed",
                           STBENCH_PYTHON=python)
        mine = {(case["optimizer"], case["clip"]): case for case in cases if case["method"] == "deepspeed"}
        self.assertEqual(mine["SGD", 0]["reason"], "DeepSpeed has no SGD for a CPU's memory")
        self.assertIn("does not clip", mine["Adam", 0.1]["reason"])
        for name in ("Adam", "AdamW"):
            case = mine[name, 0]
            self.assertIn(case["status"], ("ok", "unstable"), case)
            self.assertEqual((case["verified_rows"] >= 40 * 33, case["mismatches"]), (True, 0), case)

    def test_the_trace_shows_each_way(self):
        self.run_program(*CONTIGUOUS, "--optimizer", "Adam", "--clip", "0.1", "--trace", "trace.json")
        events = read_json(self.folder / "trace.json")
        events = [event for event in events["traceEvents"] if event["ph"] == "X"]
        seen = " ".join(str(event.get("args", "")) for event in events)
        parts = {"torch_optim": ["clip", "step", "zero"], "flat": ["clip", "step", "zero"], "foreach": ["clip", "step"],
                 "torch_fused": ["clip", "step"], "contiguous": ["clip, step, zero"]}
        for way, names in parts.items():
            self.assertIn(f"-> {way} -> cpu", seen)
            timed = [event for event in events if event["cat"] == "timed" and f"-> {way} -> cpu" in event["args"]["subject"]]
            self.assertGreaterEqual(len(timed), 3)
            for step in timed:  # in each, its parts, one after the other
                inside = [event for event in events if event["args"].get("subject") == way
                          and step["ts"] <= event["ts"] <= step["ts"] + step["dur"]]
                self.assertEqual([event["cat"] for event in inside], names)
                for before, after in zip(inside, inside[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1e-3)


if __name__ == "__main__":
    unittest.main()
