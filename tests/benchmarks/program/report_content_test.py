"""What a run's reports say: the schema, the figures computed again from the samples by NumPy, and `show`."""

import json
import math
import os
import re
import shlex
import socket
import unittest

import numpy as np

from program import AXES, COLUMNS, FIGURES, IDENTITY, MEASURED, PLAIN, SMALL, ProgramTest, below_machine, cell, identity

STATUSES = ["ok", "unstable", "waived", "wrong", "failed"]
CEILINGS = ("copy", "stream")
LIBTORCH = ("index_select", "advanced", "staged")
ENUMERATIONS = {
    "suite": {"transfer"},
    "direction": {"to", "from", "sum", "round_trip"},
    "placement": {"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"},
    "method": {"speedtorch", "file_rows", *LIBTORCH, *CEILINGS},
    "dtype": {"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "bytes"},
    "index_dtype": {"int32", "int64"},
    "status": set(STATUSES),
}
INTEGERS = "rows dim batch cores samples payload_bytes index_bytes verified_rows mismatches callers".split()


def interval_rank(n):
    """The largest k with P(k <= B <= n - k) >= 95 % for B of n throws of a coin, or 0; in whole numbers."""
    for k in range(n // 2, 0, -1):
        if 100 * sum(math.comb(n, i) for i in range(k, n - k + 1)) >= 95 * 2**n:
            return k
    return 0


def figures_of(samples):
    ordered = sorted(samples)
    rank = interval_rank(len(ordered))
    return {
        "median_s": float(np.median(ordered)),
        "ci_low_s": ordered[rank - 1] if rank else None,
        "ci_high_s": ordered[len(ordered) - rank] if rank else None,
        "min_s": float(np.min(ordered)),
        "p05_s": float(np.quantile(ordered, 0.05)),
        "p95_s": float(np.quantile(ordered, 0.95)),
    }


def strings_in(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_in(inner)
    elif isinstance(value, str):
        yield value


def without_warnings(screen):
    """What a CSV, which tells neither of the machine nor of its warnings, shows of it."""
    return re.sub(r"\n  warning: (.+\n)+", "", screen)


class ReportContentTest(ProgramTest):
    def close_to(self, found, expected, message):
        if expected is None:
            self.assertIsNone(found, message)
        else:
            self.assertIsNotNone(found, message)
            self.assertTrue(math.isclose(found, expected, rel_tol=1e-12), f"{found} is not {expected}: {message}")

    def test_csv_and_json_say_the_same_in_the_schema_order(self):
        report, rows, _ = self.measure(*SMALL, "--seed", "7")
        self.assertEqual(report["axes"], AXES)
        names = COLUMNS + AXES + PLAIN
        with open(self.folder / "r.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(file.readline(), ",".join(names) + "\r\n")
        self.assertEqual(len(report["cases"]), len(rows))
        for case, row in zip(report["cases"], rows):
            self.assertEqual(list(case), names + ["samples_s"])
            self.assertEqual(list(row), names)
            for name in names:
                self.check_cell(row[name], case[name])

    def test_cases_of_a_group_pair_up(self):
        groups = {}
        for case in self.cases(*SMALL):
            self.assertEqual(case["group"] is not None, case["samples"] > 0, case)
            if case["samples"]:
                groups.setdefault(case["group"], set()).add((case["direction"], case["cores"], case["samples"]))
        self.assertGreater(len(groups), 1)
        for members in groups.values():
            self.assertEqual(len(members), 1)

    def check_cell(self, text, value):
        if value is None:
            self.assertEqual(text, "")
        elif isinstance(value, float):
            self.assertEqual(float(text), value)
        else:
            self.assertEqual(text, str(value))

    def test_pandas_reads_the_csv_as_the_json_has_it(self):
        import pandas

        report, _, _ = self.measure(*SMALL)
        frame = pandas.read_csv(self.folder / "r.csv")
        cases = pandas.DataFrame(report["cases"])
        self.assertEqual(list(frame.columns), list(cases.columns[:-1]))
        self.assertEqual(len(frame), len(cases))
        for name in FIGURES:
            np.testing.assert_array_equal(frame[name].to_numpy(float), cases[name].to_numpy(float), err_msg=name)
        for name in IDENTITY + ["status", "samples", "payload_bytes", "verified_rows"]:
            self.assertEqual(frame[name].tolist(), cases[name].tolist(), name)

    def test_the_conclusion_is_that_of_the_terminal(self):
        report, _, done = self.measure(*SMALL)
        self.assertEqual(len(report["conclusion"]), 2)
        self.assertIn(" ".join(report["conclusion"]), " ".join(done.stdout.split()))

    def test_values_are_of_the_schema(self):
        report, _, _ = self.measure(*SMALL, "--index-dtype", "int64,int32")
        self.assertRegex(report["schema_version"], r"^1\.\d+$")
        self.assertRegex(report["program"], r"^stbench \d+\.\d+\.\d+$")
        self.assertRegex(report["started_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIs(report["interrupted"], False)
        self.assertIsInstance(report["warnings"], list)
        self.assertEqual(len({identity(case) for case in report["cases"]}), len(report["cases"]))
        for case in report["cases"]:
            for name, allowed in ENUMERATIONS.items():
                self.assertIn(case[name], allowed)
            for name in INTEGERS:
                self.assertIs(type(case[name]), int, name)
            self.assertRegex(case["device"], r"^(cpu|cuda:\d+)$")
            self.assertEqual(case["reason"] == "", case["status"] == "ok", case)
            self.assertNotIn("\n", case["reason"])
            self.assertEqual(case["median_s"] is not None, case["status"] in MEASURED, case)
            self.assertEqual(len(case["samples_s"]), case["samples"])
            self.check_measured(case)

    def check_measured(self, case):
        if case["status"] not in MEASURED:
            return
        self.assertGreaterEqual(case["verified_rows"], 2 * case["batch"] if case["samples"] else case["batch"], case)
        self.assertEqual(case["mismatches"], 0)
        moves = 2 if case["direction"] in ("sum", "round_trip") else 1
        self.assertEqual(case["payload_bytes"], moves * case["batch"] * case["dim"] * 4)
        index_bytes = 0 if case["method"] in CEILINGS else moves * case["batch"] * int(case["index_dtype"][3:]) // 8
        self.assertEqual(case["index_bytes"], index_bytes)

    def test_figures_follow_from_the_samples(self):
        for samples in (5, 12, 31):
            cases = self.cases(*SMALL[:-1], samples, "--cores", "1")
            measured = [case for case in cases if case["samples"]]
            self.assertGreater(len(measured), 20)
            for case in measured:
                self.assertEqual(case["samples"], samples)
                for name, expected in figures_of(case["samples_s"]).items():
                    self.close_to(case[name], expected, f"{name} of {case}")
            self.check_ratios(cases)
            self.check_status(measured)

    def check_ratios(self, cases):
        """Against the fastest of the cell, from the medians."""
        def fastest(of, methods):
            medians = [c["median_s"] for c in cases if cell(c) == cell(of) and c["method"] in methods and c["median_s"]]
            return min(medians, default=None)

        for case in cases:
            median = case["median_s"]
            if median is None:
                self.assertEqual([case[name] for name in ("gb_per_s", "copy_fraction", "speedup")], [None] * 3)
                continue
            self.close_to(case["gb_per_s"], case["payload_bytes"] / 1e9 / median, case)
            self.close_to(case["copy_fraction"], fastest(case, CEILINGS) / median, case)
            self.close_to(case["speedup"], fastest(case, LIBTORCH) / median, case)

    def check_status(self, cases):
        for case in cases:
            if case["status"] == "ok":
                self.assertLessEqual((case["ci_high_s"] - case["ci_low_s"]) / 2 / case["median_s"], 0.1 + 1e-9, case)

    def test_sum_is_made_of_the_other_two(self):
        cases = self.cases(*SMALL[:-1], "12", "--index-dtype", "int64,int32", "--cores", "1", "--placement",
                           "libtorch,hugepage")
        named = {identity(case): case for case in cases}
        sums = [case for case in cases if case["direction"] == "sum"]
        # LibTorch's index_copy_ refuses int32: there is no sum of one direction.
        self.assertEqual(len(sums), 2 * (5 + 4))
        for case in sums:
            to, back = (named[identity(dict(case, direction=way))] for way in ("to", "from"))
            self.close_to(case["median_s"], to["median_s"] + back["median_s"], case)
            self.assertEqual([case[name] for name in ("ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s")], [None] * 5)
            self.assertEqual((case["samples"], case["samples_s"]), (0, []))
            self.assertEqual(case["status"], max(to["status"], back["status"], key=STATUSES.index))
            self.assertEqual(case["verified_rows"], min(to["verified_rows"], back["verified_rows"]))
            for name in ("payload_bytes", "index_bytes", "mismatches"):
                self.assertEqual(case[name], to[name] + back[name])
        self.check_ratios(cases)

    def test_environment_is_there(self):
        report, _, _ = self.measure(*SMALL, "--direction", "to", "--placement", "libtorch")
        found = report["environment"]
        self.assertEqual(set(found), {"cpu", "memory", "os", "build", "libtorch", "cuda", "gpu", "doctor", "groups", "row_plan"})
        self.assertEqual(found["cpu"]["cores_allowed"], len(os.sched_getaffinity(0)))
        self.assertEqual(found["memory"]["page_size"], os.sysconf("SC_PAGESIZE"))
        self.assertEqual(found["memory"]["total_bytes"] > 0, True)
        self.assertIn(os.uname().release, found["os"]["kernel"])
        for group, names in {"cpu": "model design affinity caches isa clock_step_s", "memory": "available_bytes numa_nodes",
                             "os": "architecture distribution", "build": "compiler compiler_version flags git_dirty",
                             "libtorch": "version cpu_capability threads gomp_spincount",
                             "cuda": "available devices runtime driver found missing", "gpu": "devices reason"}.items():
            self.assertGreaterEqual(set(found[group]), set(names.split()), group)

    def test_no_host_user_or_folder_is_named(self):
        trace = self.file("trace.txt", "1\n2\n3\n")
        report, _, _ = self.measure(
            *SMALL, "--direction", "to", "--placement", "mapped,libtorch", f"--distribution=unique,file:{trace}",
            "--benchmark_out", self.folder / "g.json", HOME="/home/named-nowhere", USER="named-nowhere",
            LOGNAME="named-nowhere", HOSTNAME="named-nowhere")
        self.assertIn("--distribution=unique,file:trace.txt", report["argv"])
        self.assertEqual(report["argv"][-5:], ["g.json", "--csv", "r.csv", "--json", "r.json"])
        texts = {name: (self.folder / name).read_text(encoding="utf-8") for name in ("r.json", "r.csv", "g.json")}
        for name, text in texts.items():
            for secret in (str(self.folder), os.path.expanduser("~") + "/", "named-nowhere"):
                self.assertNotIn(secret, text, name)
        for text in (*strings_in(report), *strings_in(json.loads(texts["g.json"]))):
            self.assertNotEqual(text, socket.gethostname())
            # The kernel's settings have the same names everywhere.
            self.assertNotRegex(re.sub(r"/(sys|proc)/[\w/.]+", "", text), r"^/|[ =](/\w+){2}")

    def test_show_prints_what_the_run_printed(self):
        _, _, done = self.measure(*SMALL, "--index-dtype", "int64,int32")
        screen = below_machine(done.stdout)
        self.assertTrue(done.stdout.startswith("stbench "))
        for name, expected in (("r.json", done.stdout), ("r.csv", without_warnings(screen))):
            shown = self.run_program("show", name)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertEqual(shown.stdout, expected, name)

    def test_show_of_a_run_with_another_seed_and_intervals(self):
        _, _, done = self.measure(*SMALL[:-1], "9", "--seed", "77", "--direction", "to,from,sum")
        screen = below_machine(done.stdout)
        self.assertIn("--seed 77", screen)
        self.assertEqual(self.run_program("show", "r.json").stdout, done.stdout)
        # Without samples and seed the tables are the same, and the case IDs below them say less.
        tables = without_warnings(screen[:re.search(r"\n(Keep|Where to keep) such a table", screen).start()])
        from_csv = self.run_program("show", "r.csv").stdout
        self.assertEqual(from_csv[:len(tables)], tables)
        self.assertNotIn("--seed", from_csv)

    def test_line_for_one_row_again_can_be_pasted(self):
        before, _, done = self.measure(*SMALL, "--seed", "5", "--cores", "1")
        command = done.stdout[done.stdout.index("One row again: ") + len("One row again: "):]
        words = shlex.split(command)
        self.assertEqual([words[0], words[1], *words[3:]], ["stbench", "--case", "--seed", "5"])
        again = self.cases(*words[1:], "--samples", "3")
        ours = [identity(case) for case in again if case["method"] == "speedtorch"]
        self.assertEqual(len(ours), 1)
        self.assertIn(ours[0], [identity(case) for case in before["cases"]])


if __name__ == "__main__":
    unittest.main()
