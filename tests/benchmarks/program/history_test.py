"""`stbench history`: each case over many reports of one machine, and the table for Apache Otava."""

import csv
import json
import os
import re
import subprocess
import sys
import unittest

from program import HOST, ROOT, SMALL, ProgramTest, read_json, run


def otava_configuration(case):
    """The `otava.yaml` that docs/compare.md shows, for this case."""
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    shown = re.search(r"^    tests:\n(?:    .*\n)+", page, re.MULTILINE)[0]
    return re.sub(r"\bcolumn: .*", lambda _: f"column: {case}", re.sub(r"^    ", "", shown, flags=re.MULTILINE))


class HistoryTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_program(*SMALL, *HOST, "--cores", "1", "--placement", "libtorch,hugepage", "--direction", "to", "--json", "one.json")
        self.report = read_json(self.folder / "one.json")
        (self.folder / "history").mkdir()

    def write(self, count, creep=1.0, since=None, **changes):
        """Reports of the same samples with a little noise, one a day. Speedtorch's rows in huge pages get slower by the factor
        `creep` in each report, or once, in the report number `since`."""
        names = []
        for i in range(count):
            report = json.loads(json.dumps(self.report))
            report["started_at"] = f"2026-03-{i + 1:02}T00:00:00Z"
            report["environment"]["build"]["git_revision"] = f"{i:07x}"
            for k, case in enumerate(report["cases"]):
                noise = 1 + 0.004 * ((i * 7 + k * 3) % 5 - 2)
                slower = 1
                if (case["method"], case["placement"]) == ("speedtorch", "hugepage"):
                    slower = creep**i if since is None else creep if i >= since else 1
                case["samples_s"] = [sample * noise * slower for sample in case["samples_s"]]
                for name in ("median_s", "min_s", "p05_s", "p95_s"):
                    case[name] = case[name] and case[name] * noise * slower
            report.update(changes)
            names.append(f"history/{count - i:03}.json")  # the order of the names is not that of time
            (self.folder / names[-1]).write_text(json.dumps(report))
        return names

    def test_a_creep_is_called_slower(self):
        self.write(20, creep=1.01)
        done = self.run_program("history", "history")
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertTrue(done.stdout.startswith("1 case crept slower over the series, by +"), done.stdout)
        self.assertIn("20 reports, 2026-03-01 to 2026-03-20\n", done.stdout)
        row = next(line for line in done.stdout.splitlines() if "▁" in line)
        self.assertRegex(row, r"^  hugepage speedtorch +▁[▁-█]{18}█ .* \+(1[5-9]|2\d)\.\d% !$")
        quiet = self.run_program("history", "history", "--quiet")
        self.assertEqual((quiet.returncode, quiet.stdout), (1, "".join(done.stdout.partition("\n20 reports")[0] + "\n")))

    def test_the_same_thing_raises_no_alarm(self):
        names = self.write(20)
        done = self.run_program("history", *names)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn("!\n", done.stdout)
        for case in self.report["cases"]:
            self.assertIn(case["method"], done.stdout)

    def test_the_table_is_otavas(self):
        self.write(9)
        report = read_json(self.folder / "history/003.json")
        dropped = report["cases"].pop()
        (self.folder / "history/003.json").write_text(json.dumps(report))
        done = self.run_program("history", "history", "--csv", "otava.csv")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertIn(f"-> {dropped['method']} ->", done.stderr)
        with open(self.folder / "otava.csv", newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        self.assertEqual(header[:2], ["time", "commit"])
        self.assertTrue(all(name.startswith("transfer to ") for name in header[2:]), header)
        self.assertEqual([row[0] for row in rows], [f"2026-03-{day:02}T00:00:00Z" for day in range(1, 10)])
        self.assertEqual(rows[1][1], "0000001")
        self.assertTrue(all(float(cell) > 0 for row in rows for cell in row[2:]))
        self.assertEqual(self.run_program("history", "history", "--csv", "-").stdout.splitlines()[0].split(",")[:2], ["time", "commit"])

    def test_otava_finds_the_report_of_a_step(self):
        """Its wheels come from PyPI, into an environment of their own; by `./test --long` only."""
        python = self.folder / "otava/bin/python"
        subprocess.run([sys.executable, "-m", "venv", "otava"], cwd=self.folder, check=True)
        installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r",
                                    ROOT / "scripts/lib/wheels/otava.txt"], capture_output=True, text=True)
        if "Failed to establish a new connection" in installed.stderr:
            self.skipTest("no network: Apache Otava cannot be installed")
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.write(20, creep=1.1, since=12)
        self.run_program("history", "history", "--csv", "otava.csv", "--quiet")
        with open(self.folder / "otava.csv", newline="", encoding="utf-8") as file:
            header = next(csv.reader(file))
        stepped, = (name for name in header if "hugepage -> speedtorch" in name)
        steady, = (name for name in header if "libtorch -> speedtorch" in name)
        for case, days in (stepped, ["2026-03-13"]), (steady, []):
            (self.folder / "otava.yaml").write_text(otava_configuration(case), encoding="utf-8")
            said = subprocess.run([python.with_name("otava"), "analyze", "stbench", "--since", "2026-01-01"], cwd=self.folder,
                                  capture_output=True, text=True, env={**os.environ, "OTAVA_CONFIG": "otava.yaml"})
            self.assertEqual(said.returncode, 0, said.stderr)
            # The change stands between two lines of dots, above the first report that has it.
            changes = re.findall(r"^ *·+ *\n.*%.*\n *·+ *\n(2026-\d\d-\d\d)", said.stdout, re.MULTILINE)
            self.assertEqual(changes, days, said.stdout + said.stderr)

    def test_another_machine_is_refused_unless_told(self):
        names = self.write(3)
        report = read_json(self.folder / names[1])
        report["environment"]["cpu"]["model"] = "Another"
        (self.folder / names[1]).write_text(json.dumps(report))
        done = self.run_program("history", "history")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("another machine: cpu.model", done.stderr)
        self.assertEqual(self.run_program("history", "history", "--across", "machine").returncode, 0)

    def test_bad_words_are_named(self):
        for words, why in (((), "history needs reports"), (("one.json",), "a history needs two reports or more"), (("--csw", "x"), "did you mean '--csv'"),
                           (("one.json", "none.json"), "none.json"), (("one.json", "one.json", "--must-see", "2%"), "no option --must-see")):
            done = self.run_program("history", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(why, done.stderr)
        self.assertIn("history REPORT...", run("-h").stdout)


if __name__ == "__main__":
    unittest.main()
