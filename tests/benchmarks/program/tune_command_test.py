"""`stbench tune`, and by which plan of row movements a run goes."""

import json
import tempfile
import unittest
from pathlib import Path

from program import SMALL, ProgramTest

RUN = (*SMALL, "--placement", "pageable", "--method", "speedtorch,index_select", "--direction", "to")


class TuneTest(ProgramTest):
    def setUp(self):
        super().setUp()
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        self.cache = Path(cache.name)
        self.own_cache = {"XDG_CACHE_HOME": cache.name, "SPEEDTORCH_PLAN": None}

    def stored(self):
        return list(self.cache.glob("speedtorch/plan-*"))

    def row_plan(self, *arguments, **variables):
        done = self.run_program(*RUN, *arguments, "--json", "r.json", warm=False, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((Path(self.folder) / "r.json").read_text(encoding="utf-8"))["environment"]["row_plan"]

    def test_shows_what_was_chosen_and_stores_it(self):
        done = self.run_program("tune", warm=False, **self.own_cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^gather +512 +whole lines +\w+ l[12] \d+ \d+(?: \d+)? +\w+ l[12] \d+ \d+(?: \d+)? +[\d.]+ +[\d.]+ +[\d.]+$")
        self.assertRegex(done.stdout, r"(?m)^gather +512 +small +cached l[12] \d+ 1(?: \d+)? +cached l[12] \d+ 1(?: \d+)? +[\d.]+ +[\d.]+ +[\d.]+$")
        self.assertRegex(done.stdout, r"large from \d+ bytes written \(default \d+\)")
        self.assertEqual(len(self.stored()), 1)
        self.assertEqual(self.row_plan(**self.own_cache)["origin"], "stored")

    def test_a_run_measures_no_plan(self):
        self.assertEqual(self.row_plan(**self.own_cache)["origin"], "defaults")
        self.assertEqual(self.stored(), [])

    def test_the_environment_names_the_defaults_or_a_file(self):
        fixed = self.row_plan(**{**self.own_cache, "SPEEDTORCH_PLAN": "fixed"})
        self.assertEqual(fixed["origin"], "SPEEDTORCH_PLAN=fixed")
        self.assertEqual(self.stored(), [])
        mine = {**fixed["plan"], "thread_bytes": "12345"}
        file = self.cache / "mine.plan"
        file.write_text("".join(f"{key}: {value}\n" for key, value in mine.items()), encoding="utf-8")
        self.assertEqual(self.row_plan(**{**self.own_cache, "SPEEDTORCH_PLAN": str(file)}),
                         {"origin": "SPEEDTORCH_PLAN=mine.plan", "plan": mine})

    def test_a_bad_file_is_named_and_nothing_is_measured(self):
        file = self.cache / "mine.plan"
        file.write_text("thread_bytes: many\n", encoding="utf-8")
        done = self.run_program(*RUN, warm=False, **{**self.own_cache, "SPEEDTORCH_PLAN": str(file)})
        self.assertEqual(done.returncode, 2)
        self.assertIn("the plan 'mine.plan': 'thread_bytes' cannot be 'many'", done.stderr)

    def test_a_run_beside_a_baseline_takes_its_plan(self):
        file = self.cache / "mine.plan"
        fixed = self.row_plan(**{**self.own_cache, "SPEEDTORCH_PLAN": "fixed"})["plan"]
        fixed["thread_bytes"] = "54321"
        file.write_text("".join(f"{key}: {value}\n" for key, value in fixed.items()), encoding="utf-8")
        place = ("--baselines", str(self.cache / "baselines"))
        self.row_plan("--save-baseline", "b", *place, **{**self.own_cache, "SPEEDTORCH_PLAN": str(file)})
        done = self.run_program(*RUN, "--baseline", "b", *place, "--json", "new.json", warm=False, **self.own_cache)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        new = json.loads((Path(self.folder) / "new.json").read_text(encoding="utf-8"))
        self.assertEqual(new["environment"]["row_plan"]["plan"], fixed)
        self.assertEqual(self.stored(), [])

    def test_a_plan_of_another_version_is_named(self):
        place = ("--baselines", str(self.cache / "baselines"))
        self.row_plan("--save-baseline", "b", *place, **{**self.own_cache, "SPEEDTORCH_PLAN": "fixed"})
        [report] = (self.cache / "baselines").rglob("*.json")
        text = json.loads(report.read_text(encoding="utf-8"))
        plan = text["environment"]["row_plan"]["plan"]
        text["environment"]["row_plan"]["plan"] = {key: value for key, value in plan.items() if not key.endswith(".640")}
        report.write_text(json.dumps(text), encoding="utf-8")
        done = self.run_program(*RUN, "--baseline", "b", *place, warm=False, **self.own_cache)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertRegex(done.stderr, r"stbench: the baseline's row plan cannot be used \('\S+\.640' is missing\): this run uses its own plan; ")

    def test_takes_no_words(self):
        done = self.run_program("tune", "quickly")
        self.assertEqual(done.returncode, 2)
        self.assertIn("tune: 'quickly' is unknown", done.stderr)

    def test_refuses_to_measure_what_it_cannot_store(self):
        done = self.run_program("tune", warm=False, XDG_CACHE_HOME="", HOME="")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("neither XDG_CACHE_HOME nor HOME names a folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
