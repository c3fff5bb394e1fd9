"""--trace: a time line that viewers read, whose spans nest and hold the report's samples."""

import json
import os
import signal
import unittest

from program import HOST, SMALL, ProgramTest, read_json

QUICK = (*SMALL, *HOST, "--cores", "1", "--placement", "libtorch", "--direction", "to,sum,from")
PHASES = {"plan", "group", "preparation", "warm-up", "prepare", "timed", "sample", "verify", "latency", "check",
          "conclusion", "last check"}


def spans(path):
    events = read_json(path)["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def sentence_parts(case):
    return (f"{case['suite']} {case['direction']} {case['placement']} -> {case['method']} -> {case['device']} "
            f"{case['dtype']} ")


class TraceTest(ProgramTest):
    def test_has_each_phase_and_nests(self):
        self.measure(*QUICK, "--trace", "t.json")
        found = spans(self.folder / "t.json")
        self.assertEqual({span["cat"] for span in found}, PHASES)
        open_spans = []
        last = 0
        for span in found:
            self.assertEqual(span["name"], f"{span['cat']}: {span['args']['subject']}")
            self.assertGreaterEqual(span["ts"], last)
            last = span["ts"]
            self.assertGreaterEqual(span["dur"], 0)
            while open_spans and open_spans[-1]["ts"] + open_spans[-1]["dur"] <= span["ts"]:
                open_spans.pop()
            if open_spans:  # it began within: it ends within, too (to a thousandth of a microsecond)
                outer = open_spans[-1]
                self.assertLessEqual(span["ts"] + span["dur"], outer["ts"] + outer["dur"] + 1e-3, (span, outer))
            open_spans.append(span)

    def test_holds_the_samples_of_the_report(self):
        report, _, _ = self.measure(*QUICK, "--trace", "t.json")
        timed = [span for span in spans(self.folder / "t.json") if span["cat"] == "timed"]
        sampled = [span for span in spans(self.folder / "t.json") if span["cat"] == "sample"]
        cases = [case for case in report["cases"] if case["samples"]]
        self.assertGreater(len(cases), 5)
        for case in cases:
            windows = [(span["ts"], span["ts"] + span["dur"]) for span in sampled
                       if span["args"]["subject"].startswith(sentence_parts(case))]
            inside = [span for span in timed if span["args"]["subject"].startswith(sentence_parts(case))
                      and any(begin <= span["ts"] <= end for begin, end in windows)]
            self.assertEqual(len(inside), case["samples"])
            for span, sample in zip(inside, case["samples_s"]):
                self.assertEqual(span["args"]["runs"], case["repeat"])
                self.assertAlmostEqual(span["dur"] / 1e6 / case["repeat"], sample, delta=1e-9)

    def test_is_written_whole_when_the_run_is_interrupted(self):
        process = self.start("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--cores", "1", "--rows",
                             "2k", "--batch", "100", "--method", "slow", "--samples", "2000", *HOST, "--trace", "t.json",
                             announced="slow")
        self.assertEqual(os.listdir(self.folder), [])
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)
        self.assertEqual(os.listdir(self.folder), ["t.json"])
        self.assertTrue(spans(self.folder / "t.json"))

    def test_alone_on_stdout(self):
        done = self.run_program(*QUICK, "--trace", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("traceEvents", json.loads(done.stdout))


if __name__ == "__main__":
    unittest.main()
