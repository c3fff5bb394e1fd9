"""Every shell script of the project is free of what ShellCheck knows to be wrong."""

import shutil
import subprocess
import unittest

from checkout import ROOT


def shell_scripts():
    files = [ROOT / "stbench", ROOT / "test", ROOT / ".ci/run", *(ROOT / "scripts").iterdir()]
    return [file for file in files if file.is_file() and file.read_text().startswith("#!/usr/bin/env bash")]


class ShellTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed; CI's machine need not have it")
    def test_shellcheck_finds_nothing(self):
        done = subprocess.run(["shellcheck", "--external-sources", *shell_scripts()],
                              cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_script_stops_at_its_first_error(self):
        scripts = shell_scripts()
        self.assertGreaterEqual(len(scripts), 6)
        for script in scripts:
            self.assertIn("\nset -euo pipefail\n", script.read_text(), script)


if __name__ == "__main__":
    unittest.main()
