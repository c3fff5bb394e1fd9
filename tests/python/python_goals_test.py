"""scripts/python-goals: on small tables every goal has a ratio, and the verdicts follow from made-up ones."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import torch

import speedtorch

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/python-goals"


def load():
    loader = importlib.machinery.SourceFileLoader("python_goals", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("python_goals", loader))
    sys.modules["python_goals"] = module
    loader.exec_module(module)
    return module


goals = load()
RATIOS = {"Y1": 7.0, "Y2": 11.0, "Y3": 2.9, "Y4": 6.5, "Y5": 4.1, "Y6": 0.99, "Y7": 2.0}


class GoalsTest(unittest.TestCase):
    def judged(self, outputs, *words):
        """Exit status and table for the outputs of processes."""
        done = [subprocess.CompletedProcess([], status, json.dumps(ratios)) for status, ratios in outputs]
        out = io.StringIO()
        with mock.patch.object(goals.subprocess, "run", side_effect=done), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(out):
            status = goals.main([*words, "--processes", str(len(outputs))])
        return status, out.getvalue()

    def test_each_goal_is_measured(self):
        ratios = {}
        with mock.patch.multiple(goals, ROWS=500, DIM=4, BATCH=20, BATCHES=2, TENSORS=3, ELEMENTS=5):
            for work in (goals.gathers, goals.dense_step, goals.sparse_steps):
                ratios |= work(torch, speedtorch)
        self.assertEqual(set(ratios) | {"Y7"}, {goal.id for goal in goals.GOALS})
        self.assertTrue(all(value > 0 for value in ratios.values()), ratios)

    def test_a_ratio_is_the_median_of_rounds(self):
        clock = iter([0, 4, 4, 5, 10, 18, 20, 21, 30, 32, 40, 42])  # rounds of 4 / 1, 8 / 1 and 2 / 2 seconds
        with mock.patch.object(goals.time, "perf_counter", lambda: next(clock)):
            self.assertEqual(goals.medians(lambda: None, lambda: None, rounds=3), [4, 1])

    def test_verdicts_follow_from_the_ratios(self):
        status, table = self.judged([(0, RATIOS)] * 5)
        verdicts = {line.split()[0]: line.split("  ")[-1] for line in table.splitlines()[1:]}
        self.assertEqual(verdicts, {"Y1": "met", "Y2": "met: aim met", "Y3": "missed", "Y4": "met", "Y5": "met: aim met",
                                    "Y6": "met", "Y7": "met"})
        self.assertEqual(status, 1)
        self.assertEqual(self.judged([(0, {**RATIOS, "Y3": 3})] * 5)[0], 0)
        spread = [(0, {**RATIOS, "Y3": ratio}) for ratio in (2, 4, 3, 2.5, 3.5)]
        self.assertIn("| open |", self.judged(spread, "--markdown")[1])

    def test_a_failed_process_is_named(self):
        status, text = self.judged([(0, RATIOS), (3, RATIOS)])
        self.assertEqual(status, 2)
        self.assertIn("a process ended with status 3", text)


if __name__ == "__main__":
    unittest.main()
