"""Training by batches larger than what fits: who takes part, what memory it takes, and whose gradients are right."""

import unittest

from program import HOST, PLANTED, ProgramTest, run

FITS = 1024
SMALL = ("--suite", "infinitybatch", "--rows", FITS, "--samples", "2", "--cores", "1", *HOST)
CASE = "infinitybatch step libtorch -> {} -> cpu float32 {}×256 batch {} uniform int64 cores=1"


def measured(cases):
    return [case for case in cases if case["samples"] > 0]


class InfinitybatchSuiteTest(ProgramTest):
    def check_record(self, case):
        self.assertEqual((case["mismatches"], case["direction"], case["dtype"]), (0, "step", "float32"), case)
        self.assertAlmostEqual(case["samples_per_s"], case["batch"] / case["median_s"], delta=1)
        self.assertEqual(case["payload_bytes"], case["batch"] * case["dim"] * 4)
        self.assertGreater(case["verified_rows"], 0)
        self.assertLessEqual(case["peak_bytes"], case["cap_bytes"])
        self.assertGreater(case["gradient_difference"], 0)
        if case["method"] in ("infinity", "plain"):
            self.assertLessEqual(case["gradient_difference"], 2 * case["plain_difference"])

    def test_beyond_the_cap_ours_trains_in_the_same_memory_where_the_plain_batch_does_not(self):
        report, rows, done = self.measure(*SMALL, "--model", "mlp", "--batch", f"{FITS},{4 * FITS}", "--preset", "full")
        self.assertEqual(report["axes"], ["micro_batch", "model"])
        self.assertEqual(len(rows), len(report["cases"]))
        found = {(case["method"], case["micro_batch"], case["batch"] // FITS): case for case in report["cases"]}
        for case in measured(report["cases"]):
            self.check_record(case)
        self.assertEqual({way for way, case in found.items() if case["samples"] > 0 and case["batch"] > FITS},
                         {("one_by_one", "auto", 4), *((way, policy, 4) for way in ("accumulate", "infinity")
                                                      for policy in ("auto", "fixed"))})
        self.assertGreater(found["plain", "auto", 1]["samples"], 0)
        for way in ("plain", "graphs_kept"):
            refused = found[way, "auto", 4]
            self.assertEqual((refused["status"], refused["median_s"]), ("waived", None))
            self.assertRegex(refused["reason"], rf"^out of memory under the cap of [\d.]+ MB, which is what a batch of {FITS} takes")
        once, four = (found["infinity", "fixed", times] for times in (1, 4))
        self.assertLess(four["peak_bytes"], 1.5 * once["peak_bytes"])
        self.assertEqual({found["infinity", "fixed", times]["micro_batch_samples"] for times in (1, 4)}, {FITS // 2})
        self.assertEqual(found["one_by_one", "auto", 4]["micro_batch_samples"], 1)
        for times in (1, 4):  # the fastest size that fits, which is not always the largest
            self.assertLessEqual(found["infinity", "auto", times]["micro_batch_samples"], FITS)
        self.assertIn("Training mlp (cpu, 1 core): a plain batch of 1,024 fits under a cap of", done.stdout)
        self.assertRegex(done.stdout, r"plain +out of memory\n")

    def test_every_model_is_trained(self):
        cases = self.cases("--suite", "infinitybatch", "--rows", "256", "--batch", "380", "--samples", "2", "--cores", "1",
                           "--method", "infinity,accumulate", "--preset", "quick", *HOST)
        self.assertEqual({case["model"] for case in cases}, {"conv", "mlp", "small", "transformer"})
        for case in cases:
            self.check_record(case)

    def test_micro_batches_of_a_number_of_samples_have_that_many(self):
        cases = self.cases("--suite", "infinitybatch", "--preset", "sizes", "--model", "small", "--samples", "2", "--cores", "1",
                           *HOST)
        found = {(case["method"], case["micro_batch"]): case for case in cases}
        self.assertEqual(set(found), {(method, size) for method in ("accumulate", "infinity")
                                      for size in ("auto", "64", "128", "256", "512")})
        for (method, size), case in found.items():
            with self.subTest(method=method, size=size):
                self.check_record(case)
                self.assertEqual((case["rows"], case["batch"]), (512, 512))
                if size != "auto":
                    self.assertEqual(case["micro_batch_samples"], int(size))
        self.assertEqual({case["group"] for case in cases}, {0})  # they take turns

    def test_planted_faults_are_caught(self):
        faults = {"batch_last_sample_lost": "from those in float64", "batch_parts_weigh_the_same": "from those in float64",
                  "batch_noise": "from those in float64", "batch_steps_twice": "is not what one step",
                  "batch_no_gradient": "has no gradient", "batch_only_when_watched": "the step changed nothing"}
        report, _, _ = self.measure(*SMALL, "--model", "mlp", "--batch", "1500", "--micro-batch", "fixed", "--method",
                                    ",".join(["infinity", *faults]), program=PLANTED, status=1)
        self.assertEqual(len(report["cases"]), 1 + len(faults))
        for case in report["cases"]:
            self.assertEqual(case["status"] == "wrong", case["method"] in faults, case)
            self.assertIn(faults.get(case["method"], ""), case["reason"])

    def test_a_case_of_the_report_runs_again(self):
        case_id = CASE.format("infinity", "1024", "2048") + " micro_batch=fixed"
        cases = self.cases("--case", case_id, "--samples", "2")
        self.assertEqual([case["method"] for case in measured(cases)], ["infinity", "accumulate"])
        self.assertIn(case_id, run(*SMALL, "--model", "mlp", "--batch", "2048", "--dry-run").stdout.splitlines())

    def test_table_that_never_fits_is_refused(self):
        # What one sample takes is hardly more than its gradients, and there is no room for a sum beside them.
        cases = self.cases("--suite", "infinitybatch", "--model", "mlp", "--rows", "1", "--batch", "64", "--micro-batch", "auto",
                           "--samples", "1", "--method", "infinity,accumulate", *HOST)
        for case in cases:
            self.assertEqual(case["status"], "waived", case)
            self.assertIn("out of memory under the cap", case["reason"])

    def test_infinitybatch_runs_after_the_other_suites(self):
        listed = run("--suite", "infinitybatch,contiguous", "--preset", "quick", "--dry-run", *HOST).stdout.splitlines()
        suites = [line.split()[0] for line in listed if not line.startswith("waived")]
        self.assertEqual(sorted(suites), suites)
        self.assertEqual(set(suites), {"contiguous", "infinitybatch"})

    def test_the_preset_of_the_goals_has_the_cases_that_they_need(self):
        listed = run("--suite", "infinitybatch", "--preset", "batches", "--dry-run", *HOST).stdout
        for model in ("conv", "mlp", "transformer"):
            rows = [line for line in listed.splitlines() if (f"model={model}" in line) == (model != "mlp") and
                    ("model=" in line) == (model != "mlp")]
            for method in ("plain", "infinity"):
                self.assertEqual(len([line for line in rows if f"-> {method} ->" in line]), 5, rows)
        self.assertEqual(listed.count("-> one_by_one ->"), 1)

    def test_impossible_values_are_refused_with_the_possible_ones(self):
        for words, expected in (
                (("--model", "mpl"), "did you mean 'mlp'"),
                *((("--micro-batch", size), f"--micro-batch {size}: use auto, fixed or a number of samples")
                  for size in ("free", "0", "64k", "1234567890")),
                (("--preset", "kernels"), "--suite infinitybatch has no preset kernels; use quick, standard, full, batches, sizes"),
                (("--dim", "8"), "a sample is as large as its model says"),
                (("--rows", "0"), "--rows 0"),
                (("--batch", "100G"), "are available"),
                (("--callers", "2"), "--callers has no meaning for --suite infinitybatch"),
                (("--device", "cuda:99"), "--device cuda:99")):
            with self.subTest(words):
                done = run("--suite", "infinitybatch", *words, "--dry-run")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(expected, done.stderr)
                self.assertLessEqual(len(done.stderr.splitlines()), 3)
        for case_id, expected in ((CASE.format("infinity", "64", "64").replace("256", "9"), "a sample of mlp has 256 elements, not 9"),
                                   (CASE.format("infinity", "64", "64") + " micro_batch=free", "use auto, fixed or a number of samples")):
            done = run("--case", case_id)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(expected, done.stderr)
        done = run("--suite", "transfer", "--preset", "batches")
        self.assertIn("--suite infinitybatch has it", done.stderr)


if __name__ == "__main__":
    unittest.main()
