"""Two outputs that are one file are refused before anything is measured."""

import os
import subprocess
import unittest

from program import HOST, PROGRAM, SMALL, ProgramTest, environment, read_csv, read_json

# Its samples would take hours.
ENDLESS = (*SMALL[:-2], *HOST, "--samples", "1M")
QUICK = (*SMALL, "--direction", "to", "--placement", "pageable", "--method", "copy", *HOST)


class OutputPathsTest(ProgramTest):
    def assert_refused(self, *arguments, parts, stdout=subprocess.PIPE):
        with self.subTest(arguments=arguments):
            done = subprocess.run([PROGRAM, *map(str, arguments)], check=False, cwd=self.folder, stdout=stdout,
                                  stderr=subprocess.PIPE, text=True, timeout=60, env=environment())
            self.assertEqual(done.returncode, 2, done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)

    def test_one_file_by_two_names_is_refused(self):
        self.file("old", "old\n")
        os.link(self.folder / "old", self.folder / "hard")
        for name, target in (("soft", "old"), ("dangling", "fresh"), ("second", "dangling"), ("here", ".")):
            (self.folder / name).symlink_to(target)
        for first, other in (("old", "old"), ("old", "hard"), ("old", "soft"), ("soft", "hard"), ("fresh", "dangling"),
                             ("dangling", "second"), ("new", "here/new"), ("new", self.folder / "new"),
                             ("here/fresh", "second")):
            self.assert_refused(*ENDLESS, "--json", first, "--csv", other,
                                parts=["--csv", "--json", f"'{first}'", f"'{other}'", "a file of its own"])
        for options in (("--events", "--trace"), ("--benchmark_out", "--json"), ("--trace", "--csv")):
            self.assert_refused(*ENDLESS, options[0], "old", options[1], "soft", parts=options)
        self.assertEqual((self.folder / "old").read_text(encoding="utf-8"), "old\n")
        self.assertFalse((self.folder / "fresh").exists())

    def test_outputs_of_a_comparison_are_apart_too(self):
        self.measure(*QUICK)
        (self.folder / "soft").symlink_to("c.csv")
        self.assert_refused("compare", "r.json", "r.json", "--csv", "c.csv", "--markdown", "soft",
                            parts=["--csv 'c.csv'", "--markdown 'soft'"])
        self.assert_refused(*ENDLESS, "--baseline", "main", "--csv", "c.csv", "--markdown", "soft",
                            parts=["--csv 'c.csv'", "--markdown 'soft'"])

    def test_the_file_that_stdout_goes_to_is_no_report_of_its_own(self):
        with open(self.folder / "out.txt", "w", encoding="utf-8") as out:
            self.assert_refused(*ENDLESS, "--json", "out.txt", parts=["--json", "'out.txt'", "stdout"], stdout=out)
            self.assert_refused(*ENDLESS, "--json", "-", "--csv", "out.txt", parts=["--csv", "'out.txt'", "stdout"],
                                stdout=out)

    def test_files_in_different_places_are_taken(self):
        (self.folder / "elsewhere").mkdir()
        (self.folder / "link.json").symlink_to("elsewhere/r")
        done = self.run_program(*QUICK, "--json", "link.json", "--csv", "r", "--trace", "/dev/null", "--events",
                                "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "link.json").is_symlink())
        self.assertEqual(len(read_json(self.folder / "elsewhere/r")["cases"]), len(read_csv(self.folder / "r")))

    def test_events_through_a_dangling_link_leave_the_link(self):
        (self.folder / "link").symlink_to("events")
        self.assert_refused(*ENDLESS, "--events", "link", "--filter", "no such case", parts=["matches no case"])
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertFalse((self.folder / "events").exists())


if __name__ == "__main__":
    unittest.main()
