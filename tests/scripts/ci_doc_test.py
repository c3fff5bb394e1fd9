"""docs/ci.md and docs/compare.md: the shell version runs, the workflow is YAML whose commands the program knows."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import ROOT, require_program

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SMALL = "--placement hugepage --direction to --method speedtorch,copy --rows 2k --batch 300 --cores 1 --device cpu --samples 5"

# Stands for gh: keeps what would be posted.
COMMENTER = """#!/bin/sh
[ "$1 $2 $3 $4" = "pr comment 7 --body-file" ] && cp "$5" posted.md
"""
# What stands for ./stbench: the same words with a small suite, and as few processes as can be.
LAUNCHER = f"""#!/usr/bin/env bash
arguments=("$@")
for i in "${{!arguments[@]}}"; do [[ ${{arguments[i]}} != --processes ]] || arguments[i + 1]=2; done
[[ $1 != calibrate ]] || arguments+=(--processes 3)
[[ $1 != history ]] || exec "$STBENCH_PROGRAM" "$@"
[[ $1 != compare ]] || exec "$STBENCH_PROGRAM" compare --processes 2 "${{@:2}}"  # starts this one with the options of a run
exec "$STBENCH_PROGRAM" "${{arguments[@]}}" {SMALL}
"""


def snippet(language, with_word=""):
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return next(code for code in found if with_word in code)


class CiPageTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ci test "))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "stbench").write_text(LAUNCHER)
        (self.folder / "git").write_text("#!/bin/sh\nmkdir base && cp stbench base\n")  # stands for a checkout of the base
        (self.folder / "gh").write_text(COMMENTER)
        for name in ("stbench", "git", "gh"):
            (self.folder / name).chmod(0o755)

    def run_shell(self, code, **variables):
        path = f"{self.folder}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "STBENCH_PROGRAM": str(require_program()), **variables}
        return subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=240, check=False)

    def test_the_shell_versions_run(self):
        for with_word in ("--run", "--save-baseline"):
            (self.folder / "comparison.md").unlink(missing_ok=True)
            self.check_shell(snippet("sh", with_word))
        self.assertEqual([len(list((self.folder / "reports" / side).iterdir())) for side in ("base", "new")], [2, 2])

    def check_shell(self, code):
        done = self.run_shell(code)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)no slowdown of 10 %|^inconclusive" if done.returncode == 0 else "slower, or a case was lost")
        comparison = (self.folder / "comparison.md").read_text(encoding="utf-8")
        self.assertRegex(comparison, r"^### (No slowdown|Inconclusive|Slower|Missing)\n\n[^\n]+\.\n\n- BASE: [^\n]*2 processes\n"
                                     r"- NEW: [^\n]*2 processes\n- stbench [^\n]*\n\n\d+ cases: ")

    def test_the_history_grows(self):
        code = snippet("sh", "stbench history").replace("%H%M%S", "%H%M%S%N")
        for merge in range(3):
            done = self.run_shell(code, RUNNER_CLASS="tiny")
            self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
            self.assertEqual("reports, " in done.stdout, merge > 0)
        self.assertIn("3 reports, ", done.stdout)
        self.assertTrue((self.folder / "otava.csv").read_text(encoding="utf-8").startswith("time,commit,"))

    def test_the_workflow_runs_its_commands(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no PyYAML in this Python: the workflow is not parsed")
        workflow = yaml.safe_load(snippet("yaml"))
        steps = workflow["jobs"]["speed"]["steps"]
        runs = {step["name"]: step["run"] for step in steps if "run" in step}
        self.assertEqual(list(runs), ["Check out the base", "Compare", "Comment"])
        self.assertIn("compare --run base/stbench ./stbench", runs["Compare"])
        self.assertEqual(workflow["permissions"]["pull-requests"], "write")
        variables = {"GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"), "GITHUB_BASE_REF": "main", "NUMBER": "7"}
        self.assertEqual(self.run_shell(runs["Check out the base"], **variables).returncode, 0)
        self.assertIn(self.run_shell(runs["Compare"], **variables).returncode, (0, 1))
        self.assertEqual(self.run_shell(runs["Comment"], **variables).returncode, 0)
        posted = (self.folder / "posted.md").read_text(encoding="utf-8")
        self.assertIn(" cases: ", posted)
        self.assertEqual((self.folder / "summary.md").read_text(encoding="utf-8"), posted)


if __name__ == "__main__":
    unittest.main()
