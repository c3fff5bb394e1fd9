"""Every axis: what was asked for is what is measured, and a case ID takes it back."""

import os
import re
import unittest

import numpy as np

from program import HOST, MEASURED, PLANTED, SMALL, ProgramTest, identity, read_json, run

ONE = ("--cores", "1", "--placement", "pageable", *HOST)
CORES = len(os.sched_getaffinity(0))


def host_dry_run(*arguments, **options):
    """The case IDs of the cases that would be measured."""
    done = run(*arguments, "--dry-run", **options)
    return [line for line in done.stdout.splitlines() if not line.startswith("waived: ")]


def parts_of(case_id):
    """suite, direction, placement, method, device, dtype, size, batch, distribution, index dtype, cores"""
    return re.fullmatch(
        r"(\w+) (\w+) (\w+) -> (\w+) -> (\S+) (\w+) (\S+×\S+) batch (\S+) (\S+) (\w+) cores=(\d+)", case_id).groups()


class AxesTest(ProgramTest):
    def all_measured(self, *arguments):
        """The cases of a small run on the host; all of them measured and right."""
        cases = self.cases(*SMALL, *ONE, *arguments)
        for case in cases:
            self.assertIn(case["status"], MEASURED, case)
            self.assertGreater(case["verified_rows"], 0, case)
        return cases

    def values(self, cases, name):
        return {case[name] for case in cases}

    def test_dtypes(self):
        dtypes = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "int32": 4, "int64": 8}
        cases = self.all_measured("--dtype", ",".join(dtypes), "--dim", "1,3,129")
        self.assertEqual({(case["dtype"], case["dim"]) for case in cases},
                         {(dtype, dim) for dtype in dtypes for dim in (1, 3, 129)})
        for case in cases:
            if case["direction"] == "to":
                self.assertEqual(case["payload_bytes"], 500 * case["dim"] * dtypes[case["dtype"]], case)

    def test_row_bytes(self):
        widths = [1, 2, 3, 7, 64, 129, 1026, 4100]
        cases = self.all_measured("--row-bytes", ",".join(map(str, widths)), "--direction", "to,from")
        self.assertEqual({(case["dtype"], case["dim"]) for case in cases}, {("bytes", width) for width in widths})
        self.assertEqual({case["payload_bytes"] // 500 for case in cases}, set(widths))

    def test_distributions(self):
        names = ["unique", "uniform", "sequential", "sorted", "zipf:1.1", "zipf:0.5"]
        cases = self.all_measured("--distribution", ",".join(names))
        self.assertEqual(self.values(cases, "distribution"), set(names))
        self.assertEqual(self.values(cases, "method"), {"speedtorch", "index_select", "advanced", "copy", "stream"})

    def test_batch_larger_than_the_table(self):
        cases = self.cases("--suite", "transfer", *ONE, "--rows", "100", "--batch", "250", "--samples", "3",
                           "--distribution", "uniform,zipf:1.1,sequential")
        self.assertEqual(self.values(cases, "batch"), {250})
        self.assertEqual({case["status"] in MEASURED for case in cases}, {True})

    def test_traces(self):
        random = np.random.default_rng(3)
        numbers = random.integers(0, 3000, 1700)
        self.file("trace.txt", "".join(f"{number}\n" for number in numbers))
        np.save(self.folder / "trace.npy", numbers)
        np.save(self.folder / "narrow.npy", numbers.astype(np.uint16))
        cases = self.all_measured("--distribution",
                                  f"file:{self.folder}/trace.txt,file:trace.npy,file:narrow.npy")
        found = self.values(cases, "distribution")
        self.assertEqual(len(found), 3)
        for name in ("trace.txt", "trace.npy", "narrow.npy"):
            recorded = [text for text in found if re.fullmatch(rf"file:{re.escape(name)}@[0-9a-f]{{8}}", text)]
            self.assertEqual(len(recorded), 1, found)
        again = self.folder / "r.json"
        case_id = next(line for line in host_dry_run(*SMALL, *ONE, "--distribution", "file:trace.txt",
                                                      cwd=self.folder) if "speedtorch" in line)
        self.assertIn("file:trace.txt@", case_id)
        self.assertEqual(self.run_program("--case", case_id, "--samples", "3", "--json", again).returncode, 0)
        self.file("trace.txt", "1\n")
        changed = self.run_program("--case", case_id)
        self.assertEqual(changed.returncode, 2)
        self.assertIn("hash", changed.stderr)

    def test_index_copy_of_int32_is_waived_with_its_reason(self):
        cases = self.cases(*SMALL, *ONE, "--index-dtype", "int32,int64")
        waived = [case for case in cases if case["status"] == "waived"]
        self.assertEqual({(case["method"], case["direction"], case["index_dtype"]) for case in waived},
                         {("index_select", way, "int32") for way in ("from", "round_trip")})
        for case in waived:
            self.assertIn("index_copy_ takes int64 indices only; use --index-dtype int64", case["reason"])
        self.assertEqual({case["status"] in MEASURED for case in cases if case not in waived}, {True})

    def test_core_counts(self):
        cases = self.cases(*SMALL, "--placement", "pageable", *HOST)
        self.assertEqual(self.values(cases, "cores"), {1, CORES})
        if CORES > 1:
            cases = self.cases(*SMALL, "--placement", "pageable", *HOST, "--cores", f"{CORES},1,{CORES}")
            self.assertEqual(self.values(cases, "cores"), {1, CORES})

    def test_numbers_and_ranges(self):
        lines = host_dry_run("--suite", "transfer", *ONE, "--rows", "1Ki:16Ki:x4,1k", "--dim", "2:6:+2", "--batch",
                             "100", "--direction", "to", "--method", "speedtorch")
        self.assertEqual([parts_of(line)[6] for line in lines],
                         [f"{rows}×{dim}" for rows in ("1024", "4096", "16384", "1k") for dim in (2, 4, 6)])

    def test_lists_choose_the_cases(self):
        cases = self.all_measured("--direction", "from,to", "--method", "speedtorch,copy")
        self.assertEqual({(case["direction"], case["method"]) for case in cases},
                         {(way, method) for way in ("to", "from") for method in ("speedtorch", "copy")})

    def test_sum_alone_measures_what_it_needs(self):
        self.assertEqual(self.values(self.all_measured("--direction", "sum"), "direction"), {"to", "from", "sum"})

    def test_filter_keeps_the_sentences_that_match(self):
        everything = host_dry_run(*SMALL, *HOST)
        for option in ("--filter", "--benchmark_filter"):
            kept = host_dry_run(*SMALL, *HOST, option, "from (page|huge).*-> copy")
            self.assertEqual(kept, [line for line in everything if re.search("from (page|huge).*-> copy", line)])
            self.assertGreater(len(kept), 0)
        cases = self.cases(*SMALL, *HOST, "--filter", "to libtorch -> s")
        self.assertEqual(self.values(cases, "method"), {"speedtorch", "stream"})

    def test_dry_run_prints_the_cases_that_are_measured(self):
        case_ids = host_dry_run(*SMALL)
        cases = [case for case in self.cases(*SMALL) if case["direction"] != "sum"]
        named = [(c["suite"], c["direction"], c["placement"], c["method"], c["device"], c["dtype"], "3k×128", "500",
                  c["distribution"], c["index_dtype"], str(c["cores"])) for c in cases if c["status"] in MEASURED]
        self.assertEqual([parts_of(case_id) for case_id in case_ids], named)
        waived = [line for line in run(*SMALL, "--dry-run").stdout.splitlines() if line.startswith("waived: ")]
        self.assertEqual(len(waived), len([case for case in cases if case["status"] == "waived"]))

    def test_dry_run_and_lists_touch_no_report(self):
        for option in ("--dry-run", "--benchmark_list_tests"):
            done = self.run_program(*SMALL, option, "--csv", "r.csv", "--json", "r.json")
            self.assertEqual(done.returncode, 0)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_each_sentence_is_taken_back(self):
        case_ids = host_dry_run(*SMALL, *HOST, "--dtype", "float32,int8", "--index-dtype", "int64,int32",
                                 "--distribution", "unique,zipf:1.1")
        case_ids += host_dry_run(*SMALL, *HOST, "--row-bytes", "3")
        self.assertGreater(len(case_ids), 300)
        for case_id in case_ids[::len(case_ids) // 12]:
            for spelling in (case_id, case_id.replace("×", "x")):
                done = run("--case", spelling, "--dry-run")
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = done.stdout.splitlines()
                self.assertEqual(lines.count(case_id), 1, done.stdout)
                methods = {parts_of(line)[3] for line in lines if not line.startswith("waived")}
                self.assertGreaterEqual(methods, {"advanced", "copy", "stream"})

    def test_case_is_measured_with_what_it_is_judged_against(self):
        case_id = "transfer to hugepage -> speedtorch -> cpu int8 2k×5 batch 300 uniform int32 cores=1"
        cases = self.cases("--case", case_id, "--samples", "3")
        self.assertEqual(sorted(case["method"] for case in cases),
                         ["advanced", "copy", "index_select", "speedtorch", "stream"])
        ours = next(case for case in cases if case["method"] == "speedtorch")
        self.assertEqual([ours[name] for name in ("placement", "dtype", "rows", "dim", "batch", "distribution",
                                                  "index_dtype", "cores")],
                         ["hugepage", "int8", 2000, 5, 300, "uniform", "int32", 1])
        self.assertIsNotNone(ours["speedup"])
        self.assertIsNotNone(ours["copy_fraction"])

    def test_same_arguments_give_the_same_cases_in_the_same_order(self):
        first, second = ([identity(case) for case in self.cases(*SMALL, *HOST, "--seed", "9")] for _ in range(2))
        self.assertEqual(first, second)

    def test_presets_grow(self):
        sizes = [len(host_dry_run("--suite", "transfer", *HOST, "--preset", name)) for name in
                 ("quick", "standard", "kernels", "full")]
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(len(host_dry_run("--suite", "transfer", *HOST)), sizes[1])

    def test_instruction_sets(self):
        known = run("list").stdout
        names = re.search(r"isa +(.*?)  +\[best\]", known)[1].split()
        self.assertEqual((names[0], names[-1]), ("best", "baseline"))
        cases = self.all_measured("--isa", ",".join(names), "--direction", "to", "--row-bytes", "160")
        self.assertEqual(self.values(cases, "isa"), set(names))
        for case in cases:
            self.assertIsNotNone(case["speedup"], case)
        case_id = "transfer to pageable -> speedtorch -> cpu bytes 3k×160 batch 500 unique int64 cores=1 isa=baseline"
        again = self.cases("--case", case_id, "--samples", "3")
        self.assertEqual(self.values(again, "isa"), {"baseline"})
        self.assertIn("speedtorch", self.values(again, "method"))

    def test_callers(self):
        cases = self.all_measured("--callers", "1,2,5", "--index-dtype", "int64", "--verify", "first")
        self.assertEqual({(case["callers"], case["direction"]) for case in cases},
                         {(callers, way) for callers in (1, 2, 5) for way in ("to", "from", "sum", "round_trip")})
        for case in cases:
            ways = 1 if case["direction"] in ("to", "from") else 2
            self.assertEqual(case["payload_bytes"], case["callers"] * 500 * 512 * ways, case)
            if case["direction"] == "to":  # checked before the first and after the last sample
                self.assertEqual(case["verified_rows"], 2 * case["callers"] * 500)
            self.assertIsNotNone(case["speedup"], case)
        case_id = ("transfer from pageable -> index_select -> cpu float32 3k×128 batch 500 unique int64 cores=1 "
                    "callers=5")
        again = self.cases("--case", case_id, "--samples", "3")
        self.assertEqual(self.values(again, "callers"), {5})
        self.assertIn("index_select", self.values(again, "method"))

    def test_callers_that_would_write_one_row_are_waived(self):
        cases = self.cases(*SMALL, *ONE, "--callers", "2", "--distribution", "zipf:1.1", "--direction", "to,from")
        for case in cases:
            self.assertEqual(case["status"] == "waived", case["direction"] == "from", case)
            if case["status"] == "waived":
                self.assertIn("two callers must not write one row at once", case["reason"])

    def test_callers_on_all_cores(self):
        cases = self.cases(*SMALL, "--placement", "pageable", *HOST, "--cores", CORES, "--callers",
                           f"{CORES},{2 * CORES + 1}", "--direction", "to,round_trip")
        self.assertEqual({case["status"] in MEASURED for case in cases}, {True})

    def test_small_preset_counts_round_trips(self):
        report, _, done = self.measure("--suite", "transfer", "--preset", "small", *HOST, "--samples", "3")
        cases = report["cases"]
        self.assertEqual({(case["rows"], case["batch"], case["dim"]) for case in cases},
                         {(6, 6, 3), (12, 12, 3), (20, 20, 3)})
        self.assertEqual(self.values(cases, "direction"), {"round_trip"})
        self.assertEqual(self.values(cases, "method"), {"speedtorch", "index_select", "advanced", "copy"})
        for case in cases:
            self.assertIn(case["status"], MEASURED, case)
            self.assertGreaterEqual(case["latency_p99_s"], case["latency_p50_s"])
        self.assertIn("Round trips of small tables", done.stdout)
        self.assertIn("all of 20×3", done.stdout)
        self.assertNotIn("Latency of small batches", done.stdout)
        self.assertEqual(self.run_program("show", "r.json").stdout, done.stdout)

    def test_a_round_trip_is_one_call_each_way(self):
        done = self.run_program("--suite", "transfer", "--preset", "small", *HOST, "--placement", "pageable", "--method",
                                "counts", "--samples", "200", "--json", "r.json", program=PLANTED, warm=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        to, back, in_turn = map(int, re.search(r"planted: counts was called (\d+) (\d+) (\d+)", done.stderr).groups())
        self.assertEqual((to, in_turn), (back, 0))
        timed = sum(len(case["samples_s"]) * case["repeat"] + case["latency_runs"]
                    for case in read_json(self.folder / "r.json")["cases"])
        self.assertGreaterEqual(to, timed)
        self.assertLess(to, 1.5 * timed, "the rest are checks, warm-up and the search for the repeat")

    def test_consumed_rows_move_once(self):
        cases = self.all_measured("--row-bytes", "3,64", "--direction", "to,consume")
        both = [{(case["method"], case["dim"]): case["payload_bytes"] for case in cases if case["direction"] == direction}
                for direction in ("to", "consume")]
        self.assertEqual(*both)
        self.assertEqual({method for method, _ in both[0]}, {"speedtorch", "index_select", "advanced", "copy", "stream"})

    def test_report_names_the_instruction_sets_of_the_kernels(self):
        report, _, _ = self.measure(*SMALL, *ONE, "--direction", "to", "--method", "speedtorch")
        cpu = report["environment"]["cpu"]
        self.assertEqual(cpu["kernel_isa"], cpu["kernel_isas"][0])
        self.assertEqual(cpu["kernel_isas"][-1], "baseline")

    def test_small_batches_have_latencies(self):
        cases = self.cases("--suite", "transfer", *ONE, "--rows", "3k", "--batch", "1,50", "--samples", "3")
        for case in cases:
            if case["direction"] == "sum" or case["status"] not in MEASURED:
                self.assertIsNone(case["latency_p50_s"], case)
                continue
            self.assertEqual(case["latency_runs"], 100, case)
            self.assertGreater(case["latency_p50_s"], 0)
            self.assertGreaterEqual(case["latency_p99_s"], case["latency_p50_s"])
            self.assertGreater(case["latency_p50_s"], case["latency_clock_s"])
        large = self.cases("--suite", "transfer", *ONE, "--rows", "9k", "--batch", "5000", "--samples", "3",
                           "--direction", "to")
        self.assertEqual(self.values(large, "latency_p50_s"), {None})

    def test_kernels_preset_at_its_smallest(self):
        report, _, done = self.measure("--suite", "transfer", "--preset", "kernels", *HOST, "--rows", "6k", "--samples",
                                       "3", "--placement", "hugepage", "--batch", "1,20,2000", "--row-bytes",
                                       "16,160,512")
        cases = report["cases"]
        self.assertEqual(self.values(cases, "dim"), {16, 160, 512})
        self.assertEqual(len({identity(case) for case in cases}), len(cases))
        for case in cases:
            waived = case["method"] == "index_select" and case["index_dtype"] == "int32"
            self.assertTrue(case["status"] in MEASURED or (waived and case["direction"] == "from"), case)
        self.assertIn("Latency of small batches", done.stdout)
        self.assertEqual(self.run_program("show", "r.json").stdout, done.stdout)
        self.assertLess(len(done.stdout.splitlines()), 140)

    def test_missing_gpu_is_waived_with_a_reason_or_measured(self):
        cases = self.cases(*SMALL, "--direction", "to")
        elsewhere = [case for case in cases if case["device"] != "cpu"]
        self.assertEqual({"pinned", "device"} - self.values(elsewhere, "placement"), set())
        for case in elsewhere:
            if case["status"] == "waived":
                self.assertRegex(case["reason"], "missing: .*; |use --")
            else:
                self.assertIn(case["status"], MEASURED, case)

    def test_placement_that_cannot_be_had_is_failed_and_the_others_are_measured(self):
        missing = self.folder / "missing"
        cases = self.cases(*SMALL, "--cores", "1", *HOST, status=2, TMPDIR=str(missing))
        for case in cases:
            self.assertEqual(case["status"] == "failed", case["placement"] == "mapped", case)
            self.assertNotIn(str(missing), case["reason"])
            if case["placement"] == "mapped":
                self.assertIn("cannot create a file", case["reason"])


if __name__ == "__main__":
    unittest.main()
