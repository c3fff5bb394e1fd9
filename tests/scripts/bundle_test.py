"""scripts/bundle and scripts/setup --bundle: small, checked to the byte, unpacked without root."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import unittest

from checkout import ROOT, CheckoutTest, write

LIMIT = 64 << 20


def write_manifest(folder):
    files = sorted(file for file in folder.iterdir() if file.name != "manifest.sha256")
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / "manifest.sha256").write_text("".join(lines))


@unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb on this machine to make a package with")
class UnpackTest(CheckoutTest):
    def setUp(self):
        super().setUp()
        tree = self.folder / "tree"
        write(tree / "DEBIAN/control", "Package: libsmall-dev\nVersion: 1\nArchitecture: all\n"
              "Maintainer: none <none@example.org>\nDescription: small\n")
        write(tree / "usr/include/small.h", "#pragma once\n")
        write(tree / "usr/lib/x86_64-linux-gnu/pkgconfig/small.pc",
              "prefix=/usr\nincludedir=${prefix}/include\nName: small\nDescription: small\nVersion: 1\n"
              "Cflags: -I${includedir}\n")
        self.packed = self.folder / "packed"
        self.packed.mkdir()
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, self.packed / "small.deb"],
                       check=True, capture_output=True)
        write_manifest(self.packed)
        self.archive = self.folder / "small bundle.tar"

    def pack(self):
        with tarfile.open(self.archive, "w") as archive:
            archive.add(self.packed, arcname=".")

    def unpack(self, **variables):
        return self.set_up("--bundle", self.archive, **variables)

    def prefix(self):
        (folder,) = (self.cache / "stbench").glob("bundle-*")
        return folder / "sysroot/usr"

    def check_unpacked(self):
        self.assertTrue((self.prefix() / "include/small.h").exists())
        variables = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix() / "lib/x86_64-linux-gnu/pkgconfig")}
        value = subprocess.run(["pkg-config", "--variable=includedir", "small"], env=variables,
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(value.strip(), str(self.prefix() / "include"))
        self.assertIn(f"set(CMAKE_PREFIX_PATH [==[{self.prefix()}]==]", self.cmake_values())

    def test_unpacked_where_cmake_and_pkg_config_find_it(self):
        self.pack()
        done = self.unpack()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_unpacked()
        again = self.run_script("scripts/setup")  # remembered, and not unpacked again
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("unpacking", again.stderr)
        self.check_unpacked()

    def test_unpacked_without_dpkg(self):
        self.pack()
        done = self.unpack(path=self.make_path(without={"dpkg-deb", "dpkg", "apt-get", "nvcc"}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_unpacked()

    def test_one_flipped_byte_is_refused(self):
        package = self.packed / "small.deb"
        content = bytearray(package.read_bytes())
        content[len(content) // 2] ^= 1
        package.write_bytes(content)
        self.pack()
        self.assert_damaged()

    def test_file_that_the_manifest_lacks_is_refused(self):
        write(self.packed / "other.deb", "")
        self.pack()
        self.assert_damaged()

    def test_file_that_is_missing_is_refused(self):
        (self.packed / "small.deb").unlink()
        self.pack()
        self.assert_damaged()

    def test_text_that_is_no_archive_is_refused(self):
        self.archive.write_text("no archive")
        done = self.unpack()
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not an archive of scripts/bundle", done.stderr)

    def assert_damaged(self):
        done = self.unpack()
        self.assertEqual(done.returncode, 2)
        self.assertIn("does not match its manifest", done.stderr)
        self.assertFalse((self.root / "build/setup.cmake").exists())
        self.assertEqual([folder.name for folder in (self.cache / "stbench").glob("bundle-*")
                          if not folder.name.endswith(".partial")], [])


class PackTest(CheckoutTest):
    def test_real_bundle_is_small_and_whole(self):
        archive = self.folder / "real.tar"
        done = subprocess.run([ROOT / "scripts/bundle", archive], capture_output=True, text=True, timeout=500)
        if done.returncode == 2 and ("could not fetch" in done.stderr or "download failed" in done.stderr
                                     or "apt-get is not" in done.stderr):
            self.skipTest("the packages cannot be fetched here: " + done.stderr.splitlines()[-2])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(archive.stat().st_size, LIMIT)
        with tarfile.open(archive) as content:
            names = {name.removeprefix("./").split("_")[0] for name in content.getnames()}
        needed = {line.split()[-1] for line in (ROOT / "scripts/lib/packages.sh").read_text().splitlines()
                  if " header " in line and line.split()[-1].endswith("-dev")}
        self.assertGreater(len(needed), 5)
        self.assertLessEqual(needed, names)

    def test_folder_that_cannot_be_written_is_refused_at_once(self):
        self.assert_refused(self.run_script("scripts/bundle", "/no such folder/b.tar"), "/no such folder/b.tar")


if __name__ == "__main__":
    unittest.main()
