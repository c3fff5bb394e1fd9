"""scripts/scale-model on made-up reports whose times follow from known constants, and on what it cannot use."""

import importlib.machinery
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/scale-model"


def load():
    loader = importlib.machinery.SourceFileLoader("scale_model", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scale_model", loader))
    loader.exec_module(module)
    return module


model = load()
CORES = 4
CONSTANTS = {"start_s": 2e-6, "id_s": 20e-9, "place_s": 80e-12, "row_s": 5e-9, "byte_s": 100e-12, "call_s": 40e-6, "peer_s": 15e-6,
             "wire": 1.5e9}


def id_bytes_of(method):
    """The ceiling had 8 in earlier reports."""
    return 8 if method == "alltoall_base" else 4


def seconds(method, ranks, batch, wide, asked):
    """The formula of docs/scale.md, by itself."""
    c = CONSTANTS
    exchanges = 3 * (c["call_s"] + c["peer_s"] * (ranks - 2)) if ranks > 1 else 0
    wire = asked * (id_bytes_of(method) + wide) / c["wire"]
    if method == "local":
        return batch * (c["row_s"] + wide * c["byte_s"])
    if method == "alltoall_base":
        return exchanges + wire
    return c["start_s"] + batch * (c["id_s"] + wide * c["place_s"]) + asked * (c["row_s"] + wide * c["byte_s"]) + exchanges + wire


def case(method, ranks, batch, dim, distribution="uniform", factor=1.0):
    asked = batch * (ranks - 1) // ranks
    return {
        "suite": "sharded", "direction": "to", "placement": "pageable", "method": method, "device": "cpu", "dtype": "float32",
        "index_dtype": "int64", "distribution": distribution, "rows": 200_000, "dim": dim, "batch": batch, "cores": 1,
        "status": "ok", "reason": "", "median_s": factor * seconds(method, ranks, batch, 4 * dim, asked), "samples_s": [1.0],
        "payload_bytes": ranks * batch * 4 * dim, "engine": "gloo", "ranks": ranks, "remote": "drawn", "sharding": "blocks",
        "remote_bytes": ranks * asked * 4 * dim, "id_bytes": ranks * asked * id_bytes_of(method),
    }


def cases(ranks=(1, 2, 4), dims=(128, 1024), batches=(16, 2048)):
    return [case(method, n, batch, dim) for n in ranks for dim in dims for batch in batches
            for method in ("speedtorch", "local", *(("alltoall_base",) if n > 1 else ()))]


def report(all_cases):
    environment = {"cpu": {"model": "Made-up 2000", "cores_allowed": CORES}, "memory": {"total_bytes": 25 * 2**30}}
    return {"schema_version": "1.5", "program": "stbench 0.1.0", "started_at": "2026-11-25T00:00:00Z",
            "environment": environment, "axes": ["engine", "ranks", "remote", "sharding"], "cases": all_cases}


class ScaleModelTest(unittest.TestCase):
    def run_script(self, all_cases):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "r.json"
            file.write_text(json.dumps(report(all_cases)))
            return subprocess.run([sys.executable, SCRIPT, file], capture_output=True, text=True, check=False)

    def test_constants_are_those_that_made_the_times(self):
        fitted = model.fit(cases(), CORES)
        for name, value in CONSTANTS.items():
            self.assertAlmostEqual(fitted[name] / value, 1, delta=0.01, msg=name)

    def test_model_stands_beside_the_measured_times(self):
        done = self.run_script([*cases(), case("speedtorch", 2, 1000, 64, "zipf:1.05", factor=2)])
        self.assertEqual(done.returncode, 0, done.stderr)
        checked = done.stdout.split("\n\n")[1].splitlines()[2:]
        ratios = {tuple(line.split(" | ")[:4]): line.split(" | ")[7].rstrip(" |") for line in checked}
        self.assertEqual(len(ratios), 13)
        self.assertEqual(ratios.pop(("| 2", "256", "1,000", "zipf:1.05")), "0.50")
        self.assertEqual(set(ratios.values()), {"1.00"})

    def test_ranks_that_share_cores_take_as_many_times_longer(self):
        slow = [{**one, "median_s": one["median_s"] * max(1, one["ranks"] / 2)} for one in cases()]
        for name, value in CONSTANTS.items():
            self.assertAlmostEqual(model.fit(slow, 2)[name] / value, 1, delta=0.01, msg=name)

    def test_no_constant_is_below_zero(self):
        slow_narrow = [{**one, "median_s": one["median_s"] * (0.1 if one["dim"] == 128 else 1)} for one in cases()]
        self.assertEqual(model.fit(slow_narrow, CORES)["row_s"], 0)

    def test_prediction_is_the_formula_with_the_slower_of_network_and_host(self):
        fitted = model.fit(cases(), CORES)
        lines = [line.strip("| ").split(" | ") for line in model.prediction_table(fitted).splitlines()[2:]]
        self.assertEqual(len(lines), 2 * len(model.NETWORKS) * len(model.HOSTS))
        found = {(line[0], line[1], line[2]): line[3:] for line in lines}
        batch, wide, hosts = 16_384, 512, 64
        asked = batch * (hosts - 1) / hosts  # hardly a row of 100,000,000 is drawn twice
        c = CONSTANTS
        for name, wire, message_s in (("10 Gb/s Ethernet", 1.25e9, 25e-6), ("400 Gb/s InfiniBand", c["wire"], 5e-6)):
            host = c["start_s"] + batch * (c["id_s"] + wide * c["place_s"]) + asked * (c["row_s"] + wide * c["byte_s"])
            calls = [3 * (c["call_s"] + message_s + peer_s * (hosts - 2)) for peer_s in (0, c["peer_s"])]
            line = found["uniform", name, "64"]
            for cell, value in zip(line[:2], (host, asked * (4 + wide) / wire)):
                self.assertAlmostEqual(float(cell) / (1e3 * value), 1, delta=0.01)
            for cell, value in zip(line[2].split(" to "), calls):
                self.assertAlmostEqual(float(cell) / (1e3 * value), 1, delta=0.01)
            for cell, call in zip(line[3].split(" to "), calls):
                self.assertAlmostEqual(float(cell) / (1e3 * (host + call + asked * (4 + wide) / wire)), 1, delta=0.01)

    def test_distinct_rows_are_those_of_drawn_batches(self):
        random.seed(1)
        rows, batch = 30_000, 5_000
        weights = [k ** -1.05 for k in range(1, rows + 1)]
        for distribution, draw in (("uniform", lambda: random.choices(range(rows), k=batch)),
                                   ("zipf:1.05", lambda: random.choices(range(rows), weights, k=batch))):
            drawn = sum(len(set(draw())) for _ in range(20)) / 20
            self.assertAlmostEqual(model.distinct(distribution, rows, batch) / drawn, 1, delta=0.02, msg=distribution)

    def test_reports_without_what_it_needs_are_refused(self):
        for lacking, message in ((cases(dims=(128,)), "two widths"), (cases(ranks=(1, 4)), "ranks=2"),
                                 (cases(ranks=(2, 4)), "ranks=1"), (cases(batches=(2048,)), "a batch of at most 64"),
                                 ([], "a batch of at most 64")):
            done = self.run_script(lacking)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
