"""--table: the rows of a file that the program only reads, in each suite that has tables."""

import hashlib
import json
import random
import re
import struct
import unittest

from program import HOST, MEASURED, PLANTED, ROOT, ProgramTest, options_of, run

SUITES = ("memory", "optimizer", "transfer")
ROWS, DIM = 400, 24
FEW = ("--samples", "3", "--batch", "100", "--cores", "1")


def npy(descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def safetensors(tensors):
    """tensors: {name: (dtype, shape, data)}"""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class RealTableTest(ProgramTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(26)
        self.numbers = struct.pack(f"<{ROWS * DIM}f", *(draw.uniform(-1, 1) for _ in range(ROWS * DIM)))
        self.bytes = draw.randbytes(ROWS * DIM * 2)
        self.npy = self.folder / "table.npy"
        self.npy.write_bytes(npy("<f4", (ROWS, DIM), self.numbers))
        # Before it is a tensor that moves it off any page.
        self.model = self.folder / "model.safetensors"
        self.model.write_bytes(safetensors({
            "norm/weight": ("F16", [5000], draw.randbytes(10000)), "embed/weight": ("BF16", [ROWS, 2, DIM // 2], self.bytes),
            "small": ("F32", [ROWS, DIM], self.numbers), "quantised": ("F8_E4M3", [ROWS, DIM * 2], self.bytes)}))

    def state(self, path):
        return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, path.stat().st_size

    def on_table(self, suite, path, *arguments, tensor="", **options):
        """The report of a run, which must leave the file as it was."""
        before = self.state(path)
        table = f"{path}:{tensor}" if tensor else path
        report, _, done = self.measure("--suite", suite, "--table", table, *arguments, **options)
        self.assertEqual(self.state(path), before)
        return report, done

    def check_all_verified(self, report, directions=()):
        for case in report["cases"]:
            with self.subTest(**{name: case[name] for name in ("direction", "placement", "method")}):
                self.assertIn(case["status"], (*MEASURED, "waived"), case["reason"])
                if case["status"] in MEASURED:
                    self.assertGreater(case["verified_rows"], 0)
                    self.assertEqual(case["mismatches"], 0)
        measured = [case for case in report["cases"] if case["status"] in MEASURED]
        for name in directions:
            self.assertTrue(any(case["direction"] == name for case in measured), name)
        return measured

    def test_no_suite_changes_the_file(self):
        told = run("list").stdout
        for suite in re.findall(r"^(\w+): ", told, re.MULTILINE):
            self.assertEqual("--table" in options_of(suite), suite in SUITES, suite)
        for path, tensor in ((self.npy, ""), (self.model, "small")):
            directions = ("to", "from", "sum", "round_trip", "consume")
            transfer, _ = self.on_table("transfer", path, "--preset", "quick", "--direction", ",".join(directions), "--placement",
                                        "libtorch,pageable,hugepage,mapped", *FEW, *HOST, tensor=tensor)
            measured = self.check_all_verified(transfer, directions)
            self.assertEqual({case["placement"] for case in measured}, {"libtorch", "pageable", "hugepage", "mapped"})
            self.assertEqual({(case["rows"], case["dim"], case["dtype"]) for case in measured}, {(ROWS, DIM, "float32")})
            optimizer, _ = self.on_table("optimizer", path, "--preset", "quick", *FEW, tensor=tensor)
            measured = self.check_all_verified(optimizer, ("to", "from", "step"))
            self.assertEqual({(case["rows"], case["dim"]) for case in measured}, {(ROWS, DIM)})
            memory, _ = self.on_table("memory", path, "--placement", "pageable,mapped", tensor=tensor)
            measured = self.check_all_verified(memory)
            self.assertEqual({case["placement"] for case in measured}, {"pageable", "mapped"})
            for report in (transfer, optimizer, memory):
                told = report["environment"]["table"]
                self.assertEqual((told["file"], told["dtype"], told["shape"], told["bytes"]),
                                 (f"{path.name}:{tensor}" if tensor else path.name, "float32", [ROWS, DIM], ROWS * DIM * 4))
                self.assertEqual(path.read_bytes()[told["offset"]:told["offset"] + told["bytes"]], self.numbers)
                self.assertTrue(any("the file is only read" in warning for warning in report["warnings"]), report["warnings"])
                self.assertNotIn(str(self.folder), json.dumps(report))

    def test_each_dtype_is_read_cold_and_warm_from_the_file_itself(self):
        for tensor, dtype, dim in (("embed/weight", "bfloat16", DIM), ("quantised", "bytes", DIM * 2)):
            for cache in ("warm", "cold"):
                report, done = self.on_table(
                    "transfer", self.model, "--direction", "to", "--placement", "mapped,pageable", "--cache", cache, *FEW, *HOST,
                    "--method", "speedtorch,file_rows,index_select,copy", "--peers", "mmap,pread,io_uring", tensor=tensor)
                measured = self.check_all_verified(report, ("to",))
                self.assertEqual({(case["dtype"], case["dim"]) for case in measured}, {(dtype, dim)})
                if any(case["placement"] == "mapped" for case in measured):
                    self.assertLessEqual({"speedtorch", "file_rows", "pread", "mmap"},
                                         {case["method"] for case in measured if case["placement"] == "mapped"}, done.stdout)
                self.assertIn(f"model.safetensors:{tensor}", report["argv"])

    def test_the_command_of_the_page_runs(self):
        page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
        command = re.search(r"real_table_test.py -->\n```sh\n\./stbench (.*)\n```", page)[1]
        self.model.write_bytes(safetensors({"embed.weight": ("BF16", [ROWS, DIM], self.bytes)}))
        report, _ = self.measure(*command.split(), "--samples", "3", "--cores", "1", *HOST)[::2]
        self.check_all_verified(report, ("to",))
        self.assertEqual({case["cache"] for case in report["cases"]}, {"warm", "cold"})

    def test_wrong_rows_of_the_file_are_caught(self):
        faults = ["last_row_skipped", "off_by_one", "two_rows_swapped", "stale_buffer", "column_shift"]
        report, _ = self.on_table("transfer", self.npy, *FEW, *HOST, "--placement", "mapped,pageable", "--direction", "to,from",
                                  "--method", ",".join(["speedtorch", "index_select", *faults]), program=PLANTED, status=1)
        self.assertGreaterEqual(len(report["cases"]), 20)
        for case in report["cases"]:
            with self.subTest(**{name: case[name] for name in ("direction", "placement", "method")}):
                self.assertEqual(case["status"] == "wrong", case["method"] in faults, case["reason"])

    def test_rows_alone_take_the_first_of_the_table(self):
        words = ("--rows", "300", "--direction", "to,from", "--placement", "mapped,pageable", *FEW, *HOST)
        part, _ = self.on_table("transfer", self.npy, *words)
        measured = self.check_all_verified(part, ("to", "from"))
        self.assertEqual({(case["rows"], case["dim"]) for case in measured}, {(300, DIM)})
        told = part["environment"]["table"]
        self.assertEqual((told["shape"], told["bytes"]), ([300, DIM], 300 * DIM * 4))
        whole, _ = self.on_table("transfer", self.npy, "--direction", "to", "--placement", "mapped", *FEW, *HOST)
        self.assertRegex(told["hash"], "^[0-9a-f]{16}$")
        self.assertNotEqual(told["hash"], whole["environment"]["table"]["hash"])
        # The same rows in a file of their own have the same hash, and one other byte another.
        for changed in (b"", b"?"):
            other = self.folder / "other.npy"
            rows = self.numbers[:300 * DIM * 4]
            other.write_bytes(npy("<f4", (300, DIM), changed + rows[len(changed):]))
            report, _ = self.on_table("transfer", other, "--direction", "to", "--placement", "mapped", *FEW, *HOST)
            self.assertEqual(report["environment"]["table"]["hash"] == told["hash"], not changed)

    def test_a_file_without_a_header_has_the_shape_that_is_stated(self):
        raw = self.folder / "table.bin"
        raw.write_bytes(self.numbers)
        for shape in (("--rows", "400", "--dim", "24", "--dtype", "float32"), ("--rows", "400", "--row-bytes", "96")):
            report, _ = self.on_table("transfer", raw, *shape, "--direction", "to", "--placement", "mapped", *FEW, *HOST)
            self.check_all_verified(report, ("to",))
        self.check_refused("--suite", "transfer", "--table", raw, "--rows", "401", "--row-bytes", "96",
                           says="table.bin: it has 38400 bytes and no header; 401 rows of 96 bytes are 38496")
        self.check_refused("--suite", "transfer", "--table", raw, says="does not begin as a .npy file does")

    def test_a_case_runs_on_the_table_if_it_has_its_shape(self):
        case = "transfer to mapped -> speedtorch -> cpu float32 400×24 batch 50 unique int64 cores=1"
        report, _ = self.on_table("transfer", self.npy, "--case", case, "--samples", "3")
        self.check_all_verified(report, ("to",))
        self.check_refused("--table", self.npy, "--case", case.replace("400", "300"),
                           says="the table has 300 × 24 float32, and --table table.npy has 400 × 24 float32")

    def check_refused(self, *arguments, says):
        done = self.run_program(*arguments, "--dry-run")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(says, " ".join(done.stderr.split()))
        self.assertNotIn(str(self.folder), done.stderr)

    def test_what_cannot_be_is_refused(self):
        transfer = ("--suite", "transfer", "--table")
        scalar = self.folder / "scalar.npy"
        scalar.write_bytes(npy("<f4", (), b"1234"))
        for arguments, says in (
            ((*transfer, self.folder / "no.npy"), "'no.npy' cannot be opened: No such file"),
            ((*transfer, self.model), "has 4 tensors; name one as FILE:NAME"),
            ((*transfer, f"{self.model}:x"), "has no tensor 'x'"),
            ((*transfer, scalar), "scalar.npy: it has no rows"),
            ((*transfer, self.npy, "--dim", "5"), "table.npy has 400 × 24 float32: leave out --dim"),
            ((*transfer, self.npy, "--rows", "401"), "--table table.npy --rows 401: the table has 400 rows"),
            ((*transfer, self.npy, "--rows", "3,5"), "--table table.npy: --rows takes one number"),
            ((*transfer, self.npy, "--workload", "tiny"), "--table and --workload exclude each other"),
            (("--suite", "contiguous", "--table", self.npy), "--table has no meaning for --suite contiguous; it goes with memory"),
            (("--suite", "optimizer", "--table", f"{self.model}:embed/weight"), "has bfloat16; --suite optimizer has float32 only"),
        ):
            with self.subTest(says):
                self.check_refused(*arguments, says=says)


if __name__ == "__main__":
    unittest.main()
