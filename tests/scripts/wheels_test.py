"""The lock files of scripts/lib/wheels/: they cover what is asked for, and pip takes no other wheel."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "scripts/lib/wheels"
SOURCES = 'set -euo pipefail; ROOT=$1 CACHE=$2; . "$ROOT/scripts/lib/common.sh"; . "$ROOT/scripts/lib/python.sh"; '


def locked(text):
    """The hashes of each wheel of a lock file: {("numpy", "2.4.6"): ["sha256:…"]}."""
    found = {}
    for block in re.split(r"\n(?=[^ ])", text.strip()):
        name, version = re.match(r"([^ =]+)==([^ ]+)", block).groups()
        found[name, version] = re.findall(r"--hash=(sha256:[0-9a-f]{64})(?: |$|\n)", block)
    return found


def asked(name):
    """The lines of NAME.in, and of the files that it includes."""
    for line in (WHEELS / f"{name}.in").read_text().splitlines():
        if line.startswith("-r "):
            yield from asked(line[3:].removesuffix(".in"))
        elif line and not line.startswith("#"):
            yield line.partition(";")[0].strip()


class WheelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="stbench wheels "))
        self.addCleanup(shutil.rmtree, self.folder)

    def call(self, function, *arguments, **variables):
        return subprocess.run(["bash", "-c", SOURCES + function + ' "${@:3}"', "bash", ROOT, self.folder / "cache", *arguments],
                              env={**os.environ, **variables}, capture_output=True, text=True, timeout=300)

    def test_every_wheel_that_is_asked_for_is_locked_by_its_hashes(self):
        names = sorted(file.stem for file in WHEELS.glob("*.in"))
        self.assertEqual(names, sorted(file.stem for file in WHEELS.glob("*.txt")))
        for name in names:
            lock = locked((WHEELS / f"{name}.txt").read_text())
            self.assertTrue(all(lock.values()), f"{name}.txt names a wheel without a hash")
            for line in asked(name):
                package, version = line.split("==")
                there = [found for known, found in lock if known == package]
                self.assertTrue(any(re.fullmatch(version.replace(".*", r"\..*"), one) for one in there),
                                f"{name}.txt has {package} {there}, {name}.in asks for {version}: scripts/lock-wheels renews it")

    def make_wheel(self, text):
        wheel = self.folder / "wheels/small-1.0-py3-none-any.whl"
        wheel.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("small.py", text)
            archive.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
            archive.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr("small-1.0.dist-info/RECORD", "")
        return wheel

    def test_a_changed_wheel_is_refused(self):
        wheel = self.make_wheel("value = 1\n")
        lock = self.folder / "lock.txt"
        lock.write_text(f"small==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent).replace(" ", "%20")}
        offline["PIP_FIND_LINKS"] = f"file://{offline['PIP_FIND_LINKS']}/"
        done = self.call("make_venv", self.folder / "as locked", lock, **offline)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "as locked/.complete").exists())
        self.make_wheel("value = 2\n")
        done = self.call("make_venv", self.folder / "changed", lock, **offline)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "DO NOT MATCH THE HASHES(.|\n)*pip could not install the wheels of .*lock.txt")
        self.assertFalse((self.folder / "changed/.complete").exists())

    def test_peers_are_installed_once_and_not_of_a_bundle(self):
        script = """. "$ROOT/scripts/lib/peers.sh"
            TORCH_PYTHON=$3 TORCH_ROOT=/torch WITH_PEERS=yes
            require_packages() { :; }; has_modules() { :; }; compile_deepspeed() { echo "compiled in ${1##*/}"; }
            make_venv() { echo "${2##*/} with $VENV_FLAGS"; mkdir -p "$1"; touch "$1/.complete"; }
            for time in first second; do choose_peers; echo "$time ${PEERS_PYTHON##*/}"; done; : """
        done = self.call(f"BUNDLE_DIR=''; {script}", sys.executable)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^peers.txt with --system-site-packages\ncompiled in peers-py\S+\nfirst python3\nsecond python3\n$")
        done = self.call(f"BUNDLE_DIR=/bundle; {script}", sys.executable)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("scripts/lib/wheels/peers.in are needed, and a bundle has none", done.stderr)

    def test_tools_are_made_once_and_not_of_a_bundle(self):
        made = ('require_packages() { :; }; make_venv() { echo "made $1 of ${2##*/} by $VENV_PYTHON with ${*:3}"; mkdir -p "$1"; '
                'touch "$1/.complete"; }; ')
        arguments = (self.folder / "tools", "wheel", "the wheel", "30", "one", "two")
        bundle = self.call(f"{made} BUNDLE_DIR=/bundle; require_tools", *arguments)
        self.assertEqual((bundle.returncode, bundle.stdout), (2, ""))
        self.assertRegex(bundle.stderr, "the wheel: the Python packages of scripts/lib/wheels/wheel.in are needed")
        offered = self.call(f"{made} BUNDLE_DIR=/bundle; offer_tools", *arguments)
        self.assertEqual((offered.returncode, offered.stdout), (0, ""))
        for expected in (f"made {self.folder / 'tools'} of wheel.txt by python9 with one two\n", ""):
            done = self.call(f"{made} BUNDLE_DIR=''; VENV_PYTHON=python9 require_tools", *arguments)
            self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
            self.assertEqual("about 30 MB" in done.stderr, bool(expected))
        failing = self.call(f"{made} make_venv() {{ fail 'no network'; }}; BUNDLE_DIR=''; offer_tools", self.folder / "others", *arguments[1:])
        self.assertEqual(failing.returncode, 0)
        self.assertRegex(failing.stderr, "no network(.|\n)*the wheel: continuing without; the tests will be skipped")

    def test_packages_that_are_there_are_left_out_of_a_lock(self):
        done = self.call("without_packages", WHEELS / "tests.txt", "numpy", "pandas")
        whole = locked((WHEELS / "tests.txt").read_text())
        self.assertEqual(locked(done.stdout), {key: value for key, value in whole.items() if key[0] not in ("numpy", "pandas")})
        self.assertLess(len(locked(done.stdout)), len(whole))


if __name__ == "__main__":
    unittest.main()
