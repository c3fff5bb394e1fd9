"""`stbench doctor` on this machine: what it says, how it is told to say it, and what it says where something is amiss."""

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import unittest
from pathlib import Path

from program import PROGRAM, SMALL, ProgramTest, environment, run

CGROUPS = Path("/sys/fs/cgroup")
PR_SET_THP_DISABLE = 41
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
VERDICTS = {"fine", "note", "spoils", "unknown"}


def findings(*prefix, preexec_fn=None):
    done = subprocess.run([*prefix, PROGRAM, "doctor", "--json"], capture_output=True, text=True, env=environment(),
                          timeout=60, check=True, preexec_fn=preexec_fn)
    return {one["check"]: one for one in json.loads(done.stdout)["findings"]}


class Group:
    """A control group with half a CPU, gone afterwards."""

    def __init__(self):
        v1 = CGROUPS / "cpu"
        self.folder = (v1 if (v1 / "cgroup.procs").exists() else CGROUPS) / f"stbench-test-{os.getpid()}"

    def __enter__(self):
        self.folder.mkdir()
        try:
            if (self.folder / "cpu.max").exists():
                (self.folder / "cpu.max").write_text("50000 100000")
            else:
                (self.folder / "cpu.cfs_period_us").write_text("100000")
                (self.folder / "cpu.cfs_quota_us").write_text("50000")
        except OSError:
            self.folder.rmdir()
            raise
        return self

    def __exit__(self, *_):
        self.folder.rmdir()

    def join(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


class DoctorCommandTest(ProgramTest):
    def test_names_findings_rows_and_cures(self):
        done = run("doctor")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name, finding in findings().items():
            self.assertIn(finding["verdict"], VERDICTS)
            self.assertTrue(finding["found"], name)
            self.assertEqual(finding["rows"] is not None, finding["verdict"] in ("spoils", "note"), name)
            if finding["verdict"] == "spoils":
                self.assertTrue(finding["cure"], name)
            self.assertRegex(done.stdout, rf"(?<![\w-]){name}(?![\w-])")
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_text_can_be_pasted_into_a_bug_report(self):
        done = run("doctor", "--text", HOME="/home/named-nowhere", USER="named-nowhere")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in ("stbench ", "LibTorch ", "built by ", "Linux ", "driver "):
            self.assertIn(words, done.stdout)
        for secret in ("named-nowhere", str(Path.home()) + "/", str(Path(PROGRAM).parent), "\x1b"):
            self.assertNotIn(secret, done.stdout)
        if len(socket.gethostname()) > 4:
            self.assertNotIn(socket.gethostname(), done.stdout)

    def test_is_part_of_each_report(self):
        report, _, _ = self.measure(*SMALL, "--direction", "to", "--placement", "libtorch", "--cores", "1")
        stored = report["environment"]["doctor"]["findings"]
        self.assertEqual([one["check"] for one in stored], list(findings()))
        self.assertEqual(set(stored[0]), {"check", "verdict", "found", "rows", "cure"})

    def test_status_is_zero_unless_strict(self):
        spoilt = any(one["verdict"] == "spoils" for one in findings().values())
        self.assertEqual(run("doctor", "--strict").returncode, int(spoilt))
        self.assertEqual(run("doctor").returncode, 0)

    def test_refuses_what_it_does_not_know(self):
        for words in (["--csv", "a"], ["--suite", "transfer"], ["twice"], ["--text", "--json"]):
            done = run("doctor", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, r"^stbench: doctor: ")
        self.assertIn("doctor", run("doctro").stderr)
        self.assertEqual(run("doctor", "--help").stdout, run("--help").stdout)

    def test_says_so_without_a_gpu(self):
        if shutil.which("nvidia-smi"):
            self.skipTest("this machine has an NVIDIA driver")
        driver = findings()["driver"]
        self.assertRegex(driver["found"], "no NVIDIA driver")
        self.assertIn("not measured", driver["rows"])

    def test_says_so_in_a_control_group_with_a_quota(self):
        try:
            with Group() as group:
                found = findings(preexec_fn=group.join)["cpu-quota"]
        except (OSError, subprocess.SubprocessError) as error:
            self.skipTest(f"no control group can be made here: {error}")
        self.assertEqual(found["verdict"], "spoils")
        self.assertRegex(found["found"], r"^0\.5 CPUs of time on \d+ CPU")
        self.assertNotRegex(findings()["cpu-quota"]["found"], r"^0\.5 CPUs")

    def test_says_so_with_huge_pages_off_for_the_process(self):
        prctl = ctypes.CDLL(None, use_errno=True).prctl

        def without_huge_pages():
            if prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")

        if "THP_enabled" not in Path("/proc/self/status").read_text():
            self.skipTest("this kernel does not tell of the huge pages of a process")
        found = findings(preexec_fn=without_huge_pages)["huge-pages"]
        self.assertEqual((found["verdict"], found["found"]), ("spoils", "turned off for this process"))

    def test_says_so_with_huge_pages_off_for_all(self):
        """The kernel's file is replaced for the program only: others on this machine keep their huge pages."""
        never = self.file("enabled", "always madvise [never]\n")
        mounted = ["unshare", "--mount", "sh", "-c", f'mount --bind "{never}" {HUGE_PAGES} && exec "$@"', "sh"]
        if not HUGE_PAGES.exists() or subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no file can be mounted for one program here")
        found = findings(*mounted)["huge-pages"]
        self.assertEqual(found["verdict"], "spoils")
        self.assertRegex(found["found"], "^never")
        self.assertTrue(re.search(r"as root: echo madvise > ", found["cure"]))


if __name__ == "__main__":
    unittest.main()
