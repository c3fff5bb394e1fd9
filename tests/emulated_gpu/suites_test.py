"""The suites on the emulated GPU: every row is right, none is timed, and nobody takes such a report for a measurement."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/benchmarks"))
import program  # noqa: E402  pylint: disable=wrong-import-position

FOLDER = os.environ.get("STBENCH_EMULATED_GPU", "")
REASON = "emulated GPU: not timed"
TIMES = program.FIGURES + ("latency_p50_s", "latency_p99_s", "samples_per_s", "steps_per_s")
TRANSFER = ("--suite", "transfer", "--device", "cuda", "--rows", "2k", "--dim", "32", "--batch", "256", "--samples", "2")


class SuitesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def emulated(self, configuration, *arguments, status=0):
        done = program.run(*arguments, prefix=(ROOT / "tests/emulated_gpu/run.sh", configuration, FOLDER))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def rows(self, configuration, *arguments):
        """The rows on the GPU, each of which is right and has no time."""
        path = self.folder / "report.json"
        self.emulated(configuration, *arguments, "--json", path)
        report = program.read_json(path)
        self.assertTrue(report["environment"]["gpu"]["emulated"])
        found = [row for row in report["cases"] if row["device"] != "cpu"]
        for row in found:
            with self.subTest(row={name: row[name] for name in ("direction", "placement", "method", "device")}):
                self.assertIn(row["status"], ("ok", "waived"), row["reason"])
                self.assertEqual(row["mismatches"], 0)
                self.assertEqual(row["samples_s"], [])
                self.assertEqual({row.get(name) for name in TIMES}, {None})
                if row["status"] == "ok":
                    self.assertEqual(row["reason"], REASON)
        return [row for row in found if row["status"] == "ok"]

    def test_transfer(self):
        for configuration, device in (("lazy_cached", "cuda:1"), ("lazy_exact", "cuda"), ("eager_exact", "cuda")):
            rows = self.rows(configuration, *TRANSFER[:3], device, *TRANSFER[4:])
            self.assertGreater(sum(row["verified_rows"] > 0 for row in rows), 60, configuration)
            self.assertEqual({row["placement"] for row in rows},
                             {"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"})

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

    def test_nobody_compares_or_draws_such_a_report(self):
        path = self.folder / "emulated.json"
        narrow = (*TRANSFER, "--placement", "device", "--direction", "to", "--method", "speedtorch")
        self.emulated("lazy_cached", *narrow, "--json", path, "--csv", path.with_suffix(".csv"))
        for file in (path, path.with_suffix(".csv")):
            refused = program.run("compare", file, file)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("emulated GPU", refused.stderr)
        shown = program.run("show", path)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        saved = self.emulated("lazy_cached", *narrow, "--save-baseline", "b", "--baselines", self.folder / "baselines", status=2)
        self.assertIn("emulated GPU", saved.stderr)
        self.assertFalse((self.folder / "baselines" / "b").exists())
        sys.path.append(str(ROOT / "scripts/lib"))
        import reports  # what scripts/charts and scripts/goals read by  pylint: disable=import-outside-toplevel
        with self.assertRaisesRegex(reports.ReportError, "emulated GPU"):
            reports.read(path)


if __name__ == "__main__":
    unittest.main()
