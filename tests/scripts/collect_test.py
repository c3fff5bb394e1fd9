"""scripts/collect with a made-up program: what it leaves in its folder, what it skips, what it says of a failure."""

import json
import platform
import tarfile
import unittest

from checkout import CheckoutTest, write

FILES = {"STATUS", "build.log", "tests.log", "suites.log", "environment.json", "reports.tar.gz"}

PROGRAM = """#!/bin/bash
if [[ $1 == list ]]; then
  printf 'transfer: rows to and from\\n  direction  to from\\nmemory     what tables hold\\n'
  exit
fi
echo "ran $*"
echo "$2" >>"$(dirname "$0")/runs"
echo '{}' >"$4"
echo a >"$6"
[[ $2 != "${FAILING:-}" ]] || exit 1
[[ $2 != "${SLOW:-}" ]] || exec sleep 60
"""


class CollectTest(CheckoutTest):
    def setUp(self):
        super().setUp()
        write(self.root / "stbench", PROGRAM, executable=True)
        write(self.root / "test", '#!/bin/bash\necho "test $*"\necho test >>"$(dirname "$0")/runs"\n', executable=True)
        write(self.root / "scripts/setup", '#!/bin/bash\necho "setup $*"\n', executable=True)
        self.out = self.folder / "to send"

    def collect(self, *arguments, **variables):
        return self.run_script("scripts/collect", *arguments, self.out, **variables)

    def runs(self):
        return (self.root / "runs").read_text().split()

    def status(self):
        lines = (self.out / "STATUS").read_text().splitlines()
        return {name: result.rsplit(",", 1)[0] for name, result in (line.split(": ", 1) for line in lines)}

    def reports(self):
        with tarfile.open(self.out / "reports.tar.gz") as archive:
            return {name.removeprefix("./") for name in archive.getnames()} - {".", ""}

    def test_everything_lies_flat_in_six_files(self):
        done = self.collect("--bundle", "some bundle.tar", "--cuda-arch", "90")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({file.name for file in self.out.iterdir()}, FILES)
        self.assertEqual(self.reports(), {"transfer.json", "transfer.csv", "memory.json", "memory.csv"})
        self.assertEqual(set(self.status().values()), {"ok"})
        self.assertIn("setup --tests --bundle some bundle.tar --cuda-arch 90", (self.out / "build.log").read_text())

    def test_environment_names_no_host(self):
        self.collect("--only", "build")
        text = (self.out / "environment.json").read_text()
        self.assertGreater(json.loads(text)["cpu"]["allowed"], 0)
        self.assertNotIn(f'"{platform.node()}"', text)

    def test_what_is_done_is_not_done_again(self):
        self.collect()
        before = self.runs()
        self.assertEqual(self.collect().returncode, 0)
        self.assertEqual(self.runs(), before)
        self.assertEqual(self.collect("--again").returncode, 0)
        self.assertEqual(self.runs(), before * 2)

    def test_failing_suite_leaves_its_log_and_the_others_go_on(self):
        done = self.collect(FAILING="transfer")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.status()["suite transfer"], "failed with exit status 1")
        self.assertEqual(self.status()["suite memory"], "ok")
        self.assertIn("ran --suite transfer", (self.out / "suites.log").read_text())
        self.assertEqual(self.collect().returncode, 0)  # the one that failed, and no other
        self.assertEqual(self.runs()[-1], "transfer")
        self.assertEqual(self.runs().count("memory"), 1)

    def test_stage_that_runs_out_of_time_is_resumed(self):
        done = self.collect("--only", "suites", "--limit", "8", SLOW="transfer")
        self.assertEqual(done.returncode, 1)
        self.assertIn("stopped at its limit", self.status()["suite transfer"])
        self.assertEqual(self.status()["suite memory"], "left for the next call, no time")
        self.assertEqual(self.collect("--only", "suites").returncode, 0)
        self.assertEqual(self.reports(), {"transfer.json", "transfer.csv", "memory.json", "memory.csv"})

    def test_one_stage_only(self):
        self.assertEqual(self.collect("--only", "tests").returncode, 0)
        self.assertEqual(self.runs(), ["test"])

    def test_program_that_lists_nothing_is_a_failure(self):
        write(self.root / "stbench", "#!/bin/sh\nexit 3\n", executable=True)
        self.assertEqual(self.collect("--only", "suites").returncode, 1)
        self.assertIn("names none", self.status()["suites"])

    def test_bad_options_are_refused(self):
        self.assert_refused(self.run_script("scripts/collect"), "no folder named")
        self.assert_refused(self.collect("--only", "most"), "--only most", "build, tests or suites")
        self.assert_refused(self.collect("--limit", "soon"), "--limit soon")


if __name__ == "__main__":
    unittest.main()
