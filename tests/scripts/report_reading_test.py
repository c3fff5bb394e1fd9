"""scripts/lib/reports.py: what it reads, and what it refuses, naming file, thing and what would be right."""

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import reports  # noqa: E402

COMMITTED = sorted(ROOT.glob("results/*/*.json"))


class ReportsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reports test "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "report.json"
        self.report = json.loads(next(path for path in COMMITTED if path.name == "transfer.json").read_text())

    def refused(self, content, *texts):
        self.path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with self.assertRaises(reports.ReportError) as caught:
            reports.read(self.path)
        message = str(caught.exception)
        self.assertLessEqual(len(message.splitlines()), 3)
        self.assertLess(len(message), 500)
        for text in (str(self.path), *texts):
            self.assertIn(text, message)

    def changed(self, change):
        change(self.report)
        return json.dumps(self.report)

    def test_the_committed_reports_are_read_as_they_are(self):
        self.assertTrue(COMMITTED)
        for path in COMMITTED:
            plain = json.loads(path.read_text())
            read = reports.read(path)
            self.assertEqual(len(read["cases"]), len(plain["cases"]))
            for case, same in zip(read["cases"], plain["cases"]):
                self.assertEqual({name: case[name] for name in same}, same)

    def test_an_older_and_a_newer_minor_schema_are_read(self):
        for case in self.report["cases"]:
            for name in ("latency_p50_s", "latency_p99_s", "latency_runs", "latency_clock_s", "group"):
                del case[name]
            case["later"] = "something"
        for version in ("1.0", "1.9"):
            self.path.write_text(self.changed(lambda report: report.update(schema_version=version, later=[1])))
            cases = reports.read(self.path)["cases"]
            self.assertIsNone(cases[0]["latency_p50_s"])
            self.assertEqual(cases[0]["later"], "something")
        self.refused(self.changed(lambda report: report.update(schema_version="2.0")), "schema_version", '"2.0"', "1.x")

    def test_what_is_no_json_is_refused(self):
        whole = json.dumps(self.report)
        self.refused("", "is not a report of stbench")
        self.refused(whole[: len(whole) // 2], "line 1 column")
        self.refused(b"\xff\xfe{}", "UTF-8 at byte 0")
        self.refused("suite,direction\r\n", "name the JSON")
        self.refused('{"a": 1, "a": 2}', "'a' stands twice")
        self.refused("[" * 100_000, "nested deeper than 32")
        self.refused("[" * 40 + "]" * 40, "nested deeper than 32")
        self.refused('{"a": NaN}', "NaN is not a JSON number")
        self.refused('{"a": ' + "9" * 5000 + "}", "is not a report of stbench")
        self.refused("[]", "it is no JSON object")
        self.refused("{}", "it has no schema_version")

    def test_a_damaged_head_is_refused(self):
        for name, value in (("environment", []), ("cases", {}), ("warnings", "none"), ("warnings", [1]),
                            ("started_at", 5), ("interrupted", "no"), ("axes", [None]),
                            ("conclusion", "keep it"), ("conclusion", [5])):
            before = self.report.get(name)
            self.refused(self.changed(lambda report: report.update({name: value})), name)
            self.report[name] = before
        self.refused(self.changed(lambda report: report["environment"].update(cpu="fast")), "environment.cpu", '"fast"')
        self.report["environment"].update(cpu={}, memory={"total_bytes": "much"})
        self.refused(json.dumps(self.report), "environment.memory.total_bytes", '"much"')

    def test_a_damaged_case_is_named(self):
        for name, value in (("rows", -1), ("rows", 1.5), ("rows", True), ("rows", 2**63), ("method", 5),
                            ("median_s", "fast"), ("median_s", -1.0), ("median_s", 1e-300), ("median_s", 1e300), ("gb_per_s", "x"), ("status", "great"),
                            ("samples_s", None), ("samples_s", ["a"]), ("resident_bytes", "many"), ("isa", 2),
                            ("latency_curve", "fast"), ("latency_curve", "0:nan"), ("latency_curve", "2:0.1"),
                            ("latency_curve", "0.5:0.1 0.1:0.2"), ("latency_curve", "0:1e-300")):
            before = self.report["cases"][3].get(name)
            self.refused(self.changed(lambda report: report["cases"][3].update({name: value})), f"cases[3].{name}"
                         if value is not None else "cases[3] has no samples_s")
            self.report["cases"][3][name] = before
        text = json.dumps(self.report).replace('"median_s": 0.0', '"median_s": 1e999, "x": 0.0', 1)
        self.assertIn("1e999", text)
        self.refused(text, "median_s is Infinity; it must be 0 or a number")
        self.refused(self.changed(lambda report: report["cases"].append(7)), "it must be an object")

    def test_times_are_null_on_an_emulated_gpu_only(self):
        timed = next(number for number, case in enumerate(self.report["cases"]) if case["status"] == "ok")
        for suite, status, reason, why in (("transfer", "ok", "", f"cases[{timed}].median_s is null"),
                                           ("transfer", "ok", "emulated GPU", f"cases[{timed}].median_s is null"),
                                           ("transfer", "unstable", reports.EMULATED, f"cases[{timed}].median_s is null"),
                                           ("transfer", "ok", reports.EMULATED, "was made on an emulated GPU")):
            self.refused(self.changed(lambda report: report["cases"][timed].update(
                suite=suite, status=status, reason=reason, median_s=None)), why)
        self.report["cases"][timed].update(suite="memory", reason="")
        self.path.write_text(json.dumps(self.report))
        self.assertIsNone(reports.read(self.path)["cases"][timed]["median_s"])

    def test_files_that_cannot_be_read_are_named(self):
        for path, text in ((self.folder, "directory"), (self.folder / "none.json", "No such file")):
            with self.assertRaisesRegex(reports.ReportError, text):
                reports.read(path)
        with self.path.open("wb") as file:
            file.truncate(reports.LARGEST + 1)
        with self.assertRaisesRegex(reports.ReportError, "at most"):
            reports.read(self.path)


if __name__ == "__main__":
    unittest.main()
