"""stbench compare, calibrate and baselines, run as a user runs them."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from program import HOST, PLANTED, PROGRAM, ROOT, ProgramTest, environment, read_csv, read_json

REPORT = ROOT / "tests" / "data" / "report-1.0.json"
TINY = ("--suite", "transfer", "--placement", "hugepage", "--direction", "to", "--method", "speedtorch,copy",
        "--rows", "2k", "--batch", "300", "--cores", "1", *HOST)
GIB = 1 << 30


def changed(report, method="speedtorch", slower=1.0, noise=0.0, **fields):
    """A copy in which one method is slower, and every row a little off, each in its own way."""
    report = copy.deepcopy(report)
    for number, case in enumerate(report["cases"]):
        factor = (slower if case["method"] == method else 1) * (1 + noise * ((number * 7919) % 11 - 5) / 5)
        if case["method"] == method:
            case.update(fields)
        case["samples_s"] = [sample * factor for sample in case["samples_s"]]
        for name in ("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s"):
            case[name] = case[name] and case[name] * factor
    return report


class CompareTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.report = json.loads(REPORT.read_text(encoding="utf-8"))

    def save(self, name, report):
        return self.file(name, json.dumps(report))

    def side(self, name, slower=1.0):
        """Five processes' reports that differ by up to half a per cent."""
        return [self.save(f"{name}{i}.json", changed(self.report, slower=slower, noise=0.001 * i)) for i in range(5)]

    def compare(self, *words, status):
        done = self.run_program("compare", *words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_exit_status_0_where_nothing_is_slower(self):
        done = self.compare(*self.side("a"), "--", *self.side("b"), status=0)
        self.assertIn("10 cases: 0 slower", done.stdout)
        self.compare(*self.side("a"), "--", *self.side("b", slower=0.5), status=0)

    def test_exit_status_1_where_a_row_is_slower(self):
        done = self.compare(*self.side("a"), "--", *self.side("b", slower=1.3), status=1)
        self.assertIn("2 slower", done.stdout)
        self.assertRegex(done.stdout, r"speedtorch.*\+30\.")

    def test_exit_status_1_where_a_case_is_lost_or_failed(self):
        lost = copy.deepcopy(self.report)
        lost["cases"] = lost["cases"][1:]
        none = dict.fromkeys(("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s", "gb_per_s"))
        failed = changed(self.report, status="failed", reason="no end", samples=0, **none)
        for case in failed["cases"]:
            if case["status"] == "failed":
                case.update(none, samples_s=[])
        for now in (lost, failed):
            base, new = self.save("base.json", self.report), self.save("new.json", now)
            self.assertIn("missing", self.compare(base, new, status=1).stdout)
            self.compare("--allow-missing", base, new, status=0)

    def test_exit_status_2_where_a_result_is_wrong_or_nothing_can_be_read(self):
        wrong = copy.deepcopy(self.report)
        wrong["cases"][0].update({"status": "wrong", "reason": "row 3 differs", "median_s": None, "samples_s": []})
        done = self.compare(self.save("base.json", self.report), self.save("new.json", wrong), status=2)
        self.assertIn("now-wrong", done.stdout)
        self.assertIn("cannot read", self.compare("none.json", "new.json", status=2).stderr)
        self.assertIn("two sides", self.compare("base.json", status=2).stderr)
        self.assertIn("BASE1 BASE2 -- NEW1 NEW2", self.compare("a", "b", "c", status=2).stderr)
        self.assertIn("did you mean", self.compare("--effekt", "2%", "a", "b", status=2).stderr)

    def test_exit_status_3_where_the_reports_cannot_be_compared(self):
        base = self.save("base.json", self.report)
        for part, name, value, kind in (("cpu", "model", "Another", "machine"), ("gpu", "driver_version", "1", "driver"),
                                        ("build", "flags", "-O0", "build"), ("libtorch", "version", "9", "build")):
            other = copy.deepcopy(self.report)
            other["environment"][part][name] = value
            new = self.save("new.json", other)
            self.assertIn(f"another {kind}", self.compare(base, new, status=3).stderr)
            self.compare("--across", kind, base, new, status=0)
        table = {"file": "model.safetensors:embed", "bytes": 100, "hash": "0123456789abcdef"}
        real = copy.deepcopy(self.report)
        real["environment"]["table"] = table
        base_of_table = self.save("table.json", real)
        for name, value in (("file", "other.npy"), ("bytes", 99), ("hash", "f" * 16), ("", None)):
            other = copy.deepcopy(real)
            if name:
                other["environment"]["table"][name] = value
            else:
                del other["environment"]["table"]
            new = self.save("new.json", other)
            for sides in ((base_of_table, new), (new, base_of_table)):
                refused = self.compare(*sides, status=3).stderr
                self.assertIn(f"another table: table.{name or 'file'}: ", refused)
                self.assertIn("--across machine,driver,build,table", refused)
                self.compare("--across", "table", *sides, status=0)
        del real["environment"]["table"]["hash"]  # of a report before schema 1.6
        self.compare(base_of_table, self.save("new.json", real), status=0)
        other = copy.deepcopy(self.report)
        other["environment"]["build"]["git_revision"] = "f" * 40
        self.compare(base, self.save("new.json", other), status=0)
        other["cases"][0].update({"status": "wrong", "reason": "row 3 differs", "median_s": None, "samples_s": []})
        other["environment"]["cpu"]["model"] = "Another"
        self.assertIn("another machine", self.compare(base, self.save("new.json", other), status=2).stderr)
        other["schema_version"] = "2.0"
        self.assertIn("schema", self.compare(base, self.save("new.json", other), status=3).stderr)

    def test_single_runs_decide_nothing_and_say_what_to_do(self):
        base, new = self.save("base.json", self.report), self.save("new.json", changed(self.report, slower=1.3))
        done = self.compare(base, new, status=0)
        self.assertIn("10 unresolved", done.stdout)
        self.assertIn("stbench calibrate", done.stdout)

    def test_outputs_say_the_same(self):
        sides = (*self.side("a"), "--", *self.side("b", slower=1.3))
        self.compare("--csv", "c.csv", "--json", "c.json", "--markdown", "c.md", *sides, status=1)
        cases = read_json(self.folder / "c.json")["cases"]
        rows = read_csv(self.folder / "c.csv")
        self.assertEqual([case["verdict"] for case in cases], [row["verdict"] for row in rows])
        self.assertEqual([case["change"] for case in cases], [float(row["change"]) for row in rows])
        text = (self.folder / "c.md").read_text(encoding="utf-8")
        self.assertRegex(text, r"^### Slower\n\nSlower: 2 cases, [^\n]*\n\n- BASE: revision [0-9a-f]{12}[^\n]*, 20\d\d-[^\n]*Z, "
                               r"5 processes\n- NEW: revision [^\n]*\n- stbench [^\n]* allowed, ")
        self.assertIn("| case | change |", text)
        self.assertNotIn("cache=warm", text)
        alone = self.compare("--json", "-", *sides, status=1)
        self.assertEqual(json.loads(alone.stdout)["verdicts"]["slower"], 2)

    def test_different_row_plans_are_named(self):
        plans = ({"thread_bytes": "1", "scatter.large_from": "2"}, {"thread_bytes": "1", "scatter.large_from": "3", "z": "4"})
        sides = []
        for name, plan in zip(("base", "new"), plans):
            report = copy.deepcopy(self.report)
            report["environment"]["row_plan"] = {"origin": "stored", "plan": plan}
            sides.append(self.save(f"{name}.json", report))
        differs = "The sides moved rows by different plans: 2 of 3 choices differ, such as scatter.large_from."
        for compared, named in ((sides, True), (sides[:1] * 2, False)):
            self.compare("--markdown", "c.md", *compared, status=0)
            text = (self.folder / "c.md").read_text(encoding="utf-8").replace("\\", "")
            self.assertEqual(differs in text, named, text)

    def test_csv_reports_are_compared_with_less_power(self):
        self.measure(*TINY, "--samples", "11")
        done = self.compare("r.csv", "r.json", status=0)
        self.assertIn("less power", " ".join(done.stdout.split()))
        self.assertIn("does not say which machine", done.stdout)

    def test_calibrate_then_single_runs_are_judged(self):
        done = self.run_program("calibrate", *TINY, "--samples", "11", "--processes", "4", "--save-baseline", "main")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 6 pairs", done.stdout)
        names = sorted(path.name for path in (self.folder / "baselines").iterdir())
        self.assertEqual(len(names), 2)
        self.assertTrue(names[0].startswith("calibration-"))
        self.assertEqual(len(list((self.folder / "baselines" / "main").iterdir())), 4)
        done = self.compare("baselines/main/1.json", "baselines/main/2.json", status=0)
        self.assertIn("Calibrated on this machine by 4 processes", done.stdout)
        self.assertNotIn("Single runs, and nothing tells", done.stdout)
        calibration = self.folder / "baselines" / names[0]
        other = read_json(calibration)
        other["machine"]["cpu"]["model"] = "Another 9000"
        calibration.write_text(json.dumps(other))
        done = self.compare("baselines/main/1.json", "baselines/main/2.json", status=0)
        self.assertRegex(" ".join(done.stdout.split()), r"Refused a calibration of another machine\. calibration-\S+: cpu\.model: "
                                                        "Another 9000; ")
        self.assertNotIn("Calibrated on this machine", done.stdout)

    def test_calibrate_needs_no_stdout_and_no_signal_of_ended_processes(self):
        start = ("import os, signal, sys; os.close(1); signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
                 "os.execv(sys.argv[1], sys.argv[1:])")
        done = self.run_program("calibrate", *TINY, "--processes", "3", prefix=(sys.executable, "-c", start))
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(len(list((self.folder / "baselines").glob("calibration-*"))), 1)

    def test_a_run_is_compared_with_a_baseline_in_one_go(self):
        done = self.run_program(*TINY, "--samples", "11", "--save-baseline", "main", "--json", "first.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("is as it was", done.stderr)
        self.assertEqual(read_json(self.folder / "baselines" / "main" / "1.json")["cases"],
                         read_json(self.folder / "first.json")["cases"])
        done = self.run_program(*TINY, "--samples", "11", "--baseline", "main", "--processes", "2", "--markdown", "c.md")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertNotIn("killed", done.stderr)
        self.assertIn(" cases: ", done.stdout)
        self.assertTrue((self.folder / "c.md").exists())
        self.assertEqual(self.run_program(*TINY, "--baseline", "other").returncode, 2)

    def test_only_a_conclusive_comparison_is_saved_and_a_slower_one_never_over_its_baseline(self):
        run = ("--suite", "transfer", "--placement", "hugepage,libtorch", "--direction", "to", "--method",
               "speedtorch,copy,index_select", "--rows", "2k", "--batch", "300", "--cores", "1", "--samples", "11", *HOST)
        self.assertEqual(self.run_program(*run, "--save-baseline", "main").returncode, 0)
        baselines = self.folder / "baselines"
        (baselines / "link").symlink_to("main")
        good = read_json(baselines / "main" / "1.json")

        def plant(chosen):
            """Makes these rows of main so fast that any run is slower by far."""
            report = copy.deepcopy(good)
            for case in filter(chosen, report["cases"]):
                case["samples_s"] = [sample / 1000 for sample in case["samples_s"]]
                for name in ("median_s", "ci_low_s", "ci_high_s", "min_s", "p05_s", "p95_s"):
                    case[name] = case[name] and case[name] / 1000
            text = json.dumps(report)
            (baselines / "main" / "1.json").write_text(text, encoding="utf-8")
            return text

        def saved(baseline, name, status):
            done = self.run_program(*run, "--baseline", baseline, "--save-baseline", name)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            is_kept = f"baseline {name} is as it was" in done.stderr
            self.assertEqual(done.stderr.count("stbench: the comparison"), is_kept, done.stderr)
            return not is_kept

        main = plant(lambda case: case["placement"] == "libtorch" and case["method"] == "index_select")
        self.assertFalse(saved("main", "main", 4))
        self.assertFalse(saved("main", "other", 4))
        self.assertFalse((baselines / "other").exists())
        self.assertEqual((baselines / "main" / "1.json").read_text(encoding="utf-8"), main)
        main = plant(lambda case: case["method"] == "speedtorch")
        self.assertFalse(saved("main", "main", 1))
        self.assertFalse(saved("link", "main", 1))
        self.assertEqual((baselines / "main" / "1.json").read_text(encoding="utf-8"), main)
        self.assertTrue(saved("main", "other", 1))
        self.assertTrue((baselines / "other" / "1.json").exists())
        main = plant(lambda case: False)
        self.assertTrue(saved("main", "main", 0))
        self.assertNotEqual((baselines / "main" / "1.json").read_text(encoding="utf-8"), main)

    def test_a_run_with_a_wrong_result_saves_no_baseline_and_calibrates_nothing(self):
        wrong = [word.replace("speedtorch,copy", "copy,off_by_one") for word in (*TINY, "--samples", "3")]
        for command, status, said in ((["run", *wrong, "--save-baseline", "main"], 1, "baseline main is as it was"),
                                      (["calibrate", *wrong, "--processes", "3"], 1, "nothing was calibrated")):
            done = self.run_program(*command, program=PLANTED)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(f"exit status 1: {said}", done.stderr)
            self.assertNotIn("process 2", done.stderr)
            self.assertFalse((self.folder / "baselines" / "main").exists())
        self.assertEqual(self.run_program(*TINY, "--samples", "3", "--save-baseline", "main").returncode, 0)
        done = self.run_program(*wrong, "--baseline", "main", program=PLANTED)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_an_interrupt_reaches_the_process_that_measures_once(self):
        slow = ("--suite", "transfer", "--direction", "to", "--placement", "pageable", "--method", "slow", "--rows", "1k",
                "--batch", "300", "--cores", "1", "--samples", "2000", *HOST)
        process = self.start(*slow, "--save-baseline", "main", announced="slow")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, stderr)
        self.assertNotIn("killed", stderr)
        self.assertIn("exit status 143: baseline main is as it was", stderr)
        self.assertFalse((self.folder / "baselines" / "main").exists())

    def test_options_that_would_be_ignored_are_refused(self):
        for words, what in (((*TINY, "--effect", "2%"), "--baseline NAME"),
                            ((*TINY, "--processes", "2", "--json", "r.json"), "--save-baseline keeps"),
                            ((*TINY, "--processes", "2", "--events", "e.jsonl"), "--events is of one process"),
                            (("calibrate", *TINY, "--processes", "2"), "3 or more"),
                            (("compare", "--effect", "0", "a", "b"), "--effect 0"),
                            (("compare", "--metric", "speedup", "a", "b"), "--metric speedup")):
            done = self.run_program(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(what, done.stderr)


class HostileReportTest(ProgramTest):
    """Whatever stands in a report: an error with its place, within seconds and 1 GiB, never a crash."""

    def setUp(self):
        super().setUp()
        self.good = REPORT.read_text(encoding="utf-8")
        self.file("good.json", self.good)

    def refused(self, name, content, place=r"line \d+, column \d+|json: cases\[\d+\]\.\w+: "):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        begin = time.monotonic()
        process = subprocess.Popen([PROGRAM, "compare", "good.json", name], cwd=self.folder, env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.stdout.read(), process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        process.stdout.close(), process.stderr.close()
        self.assertEqual(os.waitstatus_to_exitcode(status), 2, err[-400:])
        self.assertEqual(out, b"")
        self.assertRegex(err, place)
        self.assertLess(len(err), 1500)
        self.assertNotRegex(err, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertLess(usage.ru_maxrss * 1024, GIB)
        self.assertLess(time.monotonic() - begin, 60)
        path.unlink()
        return err

    def test_truncated(self):
        for size in (1, 100, len(self.good) // 2, len(self.good) - 3):
            self.refused("t.json", self.good[:size])

    def test_bad_numbers(self):
        for number in ("NaN", "Infinity", "1e999", "-1", "1.5", "18446744073709551616", '"1"', "1000000000000000000000000"):
            report = self.good.replace('"rows": 1000000', f'"rows": {number}', 1)
            self.assertNotEqual(report, self.good)
            self.refused("n.json", report)

    def test_the_field_and_the_place_are_right(self):
        text = json.dumps(json.loads(self.good), indent=1, ensure_ascii=False)
        self.assertIn("l.json: cases[0].dim: is", self.refused("l.json", text.replace('"dim": 128', '"dim": "x"', 1)))
        broken = text.replace('"dim": 128', '"dim": ?', 1)
        line = next(i for i, row in enumerate(broken.split("\n"), 1) if '"dim": ?' in row)
        column = broken.split("\n")[line - 1].index("?") + 1
        self.assertIn(f"l.json, line {line}, column {column}: syntax", self.refused("l.json", broken))

    def test_keys_and_cases_twice(self):
        self.assertIn("appears twice", self.refused("k.json", self.good.replace('"seed": ', '"seed": 1, "seed": ', 1)))
        report = json.loads(self.good)
        report["cases"].append(report["cases"][0])
        self.assertIn("same case", self.refused("c.json", json.dumps(report), place="cases 1 and 11"))

    def test_what_show_cannot_tell_apart_is_refused(self):
        report = json.loads(self.good)
        report["cases"].append(report["cases"][0])
        twice = self.file("twice.json", json.dumps(report))
        report = json.loads(self.good)
        report["cases"][0]["median_s"] = -1e-5
        negative = self.file("negative.json", json.dumps(report))
        for path, parts in ((twice, ("cases 1 and 11", "same case")),
                            (negative, ("cases[0].median_s", "-1e-05", "from 0 on"))):
            for options in ((), ("--columns", "median_s")):
                done = self.run_program("show", path, *options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                for part in (path.name, *parts):
                    self.assertIn(part, done.stderr)

    def test_a_hundred_thousand_brackets(self):
        for text in ("[" * 100_000, '{"a":' * 100_000, self.good[:-3] + ', "x": ' + "[" * 100_000):
            self.assertIn("nests deeper", self.refused("d.json", text))

    def check_that_size_is_refused(self, size):
        for name, content in (
            ("values.json", '{"cases": [' + "1," * (size // 2)),
            ("keys.json", "{" + ",".join(f'"{i}":1' for i in range(size // 100))),
            ("string.json", '{"program": "' + "x" * size),
            ("commas.csv", "," * size),
            ("lines.csv", "a,b\n" * (size // 4)),
            ("quote.csv", '"' + "x" * size),
            ("zeros.json", bytes(size)),
        ):
            with self.subTest(name):
                self.refused(name, content)

    def test_ten_megabytes(self):
        self.check_that_size_is_refused(10_000_000)

    def test_hundred_megabytes(self):
        self.check_that_size_is_refused(100_000_000)

    def test_more_than_a_report_can_be(self):
        with open(self.folder / "h.json", "wb") as file:
            file.truncate(3 * GIB)
        done = self.run_program("compare", "good.json", "h.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("larger than", done.stderr)

    def test_texts_of_a_hostile_report_stay_texts(self):
        report = json.loads(self.good)
        report["cases"][0].update({"method": "\u001b[2J=1+1|<b>", "reason": "@x", "status": "unstable"})
        self.file("x.json", json.dumps(report))
        done = self.run_program("compare", "good.json", "x.json", "--csv", "c.csv", "--markdown", "c.md", "--all")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("\u001b", done.stdout)
        self.assertNotIn("<b>", re.sub("`[^`]*`", "", (self.folder / "c.md").read_text(encoding="utf-8")))

    def test_csv(self):
        good = self.folder / "good.csv"
        names = "suite,direction,placement,method,device,dtype,index_dtype,distribution,rows,dim,batch,cores," \
                "status,reason,samples,median_s,ci_low_s,ci_high_s,min_s,p05_s,p95_s,payload_bytes,index_bytes," \
                "gb_per_s,copy_fraction,speedup,verified_rows,mismatches"
        row = "transfer,to,hugepage,copy,cpu,float32,int64,unique,1000,8,16,2,ok,,11,0.1,0.1,0.1,0.1,0.1,0.1,1,1,1.0,,,16,0"
        good.write_text(f"{names}\n{row}\n", encoding="utf-8")
        self.assertEqual(self.run_program("compare", "good.csv", "good.csv").returncode, 0)
        for old, new in (("0.1", "nan"), ("0.1", "1e999"), ("1000", "=1000"), ("1000", "-1"), ("ok", "fine"),
                         ("copy", '"copy'), ("copy", 'co"py'), (",cpu", ""), ("1000", "99999999999999999999")):
            self.refused("b.csv", f"{names}\n{row.replace(old, new, 1)}\n")
        self.assertIn("line 3, column 1: has 2 cells", self.refused("b.csv", f"{names}\n{row}\na,b\n"))
        error = self.refused("b.csv", f"{names}\n{row.replace('ok', 'fine')}\n")
        self.assertIn(f"line 2, column {row.index('ok') + 1}: status", error)
        self.assertIn("appears twice", self.refused("b.csv", names.replace("dim", "rows") + "\n"))


if __name__ == "__main__":
    unittest.main()
