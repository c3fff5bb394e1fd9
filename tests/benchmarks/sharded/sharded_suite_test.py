"""The sharded suite: its figures against counts made another way, planted faults, ranks that end badly, launchers."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from program import MEASURED, PLANTED, PROGRAM, ProgramTest, environment, messages, read_json

ROWS, DIM, BATCH = 3000, 8, 500
ROW_BYTES = 4 * DIM
SPOTS = 240  # rows that are compared after a sample, on each rank
SHAPE = ("--suite", "sharded", "--rows", ROWS, "--dim", DIM)
SMALL = (*SHAPE, "--batch", BATCH, "--samples", 3)
GLOO = {"speedtorch", "all_gather", "all_to_all", "alltoall_base", "local"}
LAUNCHERS = ("MASTER_", "OMPI_", "PMI_", "RANK", "SLURM_", "WORLD_", "TORCHELASTIC_")


@contextlib.contextmanager
def held_port():
    """A port that no other process takes meanwhile; a rank can listen to it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield str(holder.getsockname()[1])


def children_of(folder):
    """Processes of the program that still run, by their working directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_bytes())
    return found


class ShardedSuiteTest(ProgramTest):
    def by_method(self, cases, **axes):
        return {case["method"]: case for case in cases if all(case[name] == value for name, value in axes.items())}

    def test_every_method_is_verified_on_each_number_of_ranks(self):
        report, rows, _ = self.measure(*SMALL, "--engine", "gloo,node,shared", "--ranks", "1,2,3", "--distribution", "zipf:1.05")
        self.assertEqual(report["axes"], ["engine", "ranks", "remote", "sharding"])
        for ranks in (1, 2, 3):
            gloo = self.by_method(report["cases"], engine="gloo", ranks=ranks)
            shared = self.by_method(report["cases"], engine="shared", ranks=ranks)
            node = self.by_method(report["cases"], engine="node", ranks=ranks)
            self.assertEqual(set(node), {"speedtorch", "local"})
            self.assertEqual((node["speedtorch"]["remote_bytes"], node["speedtorch"]["id_bytes"]), (0, 0))
            self.assertEqual(set(gloo), GLOO - ({"alltoall_base"} if ranks == 1 else set()))
            self.assertEqual(set(shared), {"speedtorch", "index_select", "local"})
            for case in (*gloo.values(), *node.values(), *shared.values()):
                self.check_case(case, ranks)
        self.assertEqual([row["status"] for row in rows], [case["status"] for case in report["cases"]])

    def check_case(self, case, ranks):
        self.assertIn(case["status"], MEASURED, case)
        self.assertEqual((case["mismatches"], case["samples"]), (0, 3), case)
        if case["method"] != "alltoall_base":  # which carries as many rows as are distinct and remote
            self.assertEqual(case["verified_rows"], ranks * (2 * BATCH + 3 * SPOTS), case)
        self.assertEqual(case["payload_bytes"], ranks * BATCH * ROW_BYTES)
        self.assertAlmostEqual(case["algbw_gb_per_s"], BATCH * ROW_BYTES / case["median_s"] / 1e9)
        if case["remote_bytes"]:
            self.assertAlmostEqual(case["busbw_gb_per_s"], case["remote_bytes"] / ranks / case["median_s"] / 1e9)
        self.assertLessEqual(case["distinct_rows"], ranks * BATCH)

    def test_bytes_that_cross_are_those_of_the_rows_that_others_hold(self):
        # Each rank asks for each row once, so that all but its own are remote.
        for sharding in ("blocks", "cyclic", "hashed"):
            cases, _ = self.sharded("--ranks", "3", "--sharding", sharding, "--distribution", "unique", "--batch", ROWS)
            self.assertEqual(set(cases), GLOO if sharding != "hashed" else {"speedtorch", "alltoall_base", "local"})
            for method in cases.keys() & {"speedtorch", "all_to_all", "alltoall_base"}:
                case = cases[method]
                rows = 2 * ROWS  # two thirds of the table for each of three ranks
                id_bytes = 8 if method == "all_to_all" else 4  # int32 while a shard's rows fit
                self.assertEqual((case["remote_bytes"], case["id_bytes"]), (rows * ROW_BYTES, rows * id_bytes), case)
                self.check_wire(case)
            self.assertEqual((cases["local"]["remote_bytes"], cases["local"]["wire_bytes"]), (0, 0))
            self.assertEqual(cases["speedtorch"]["distinct_rows"], 3 * ROWS)

    def check_wire(self, case):
        """The kernel counted what the methods say, and some words of Gloo's own."""
        told = case["remote_bytes"] + case["id_bytes"]
        self.assertGreaterEqual(case["wire_bytes"], told, case)
        self.assertLess(case["wire_bytes"], 1.1 * told + 20_000, case)

    def sharded(self, *arguments, **options):
        report, _, done = self.measure(*SHAPE, "--samples", 3, "--engine", "gloo", *arguments, **options)
        return self.by_method(report["cases"]), done

    def test_repeated_rows_travel_once_with_ours_alone(self):
        cases, _ = self.sharded("--ranks", "2", "--distribution", "zipf:2", "--batch", "2000")
        ours, by_hand = cases["speedtorch"], cases["all_to_all"]
        self.assertLess(4 * ours["remote_bytes"], by_hand["remote_bytes"])
        self.assertLess(2 * ours["wire_bytes"], by_hand["wire_bytes"])
        self.assertLess(ours["distinct_rows"], 2000)
        self.check_wire(by_hand)

    def test_batch_of_one_row_leaves_ranks_with_nothing_to_send(self):
        cases, _ = self.sharded("--ranks", "2", "--batch", "1", "--distribution", "uniform")
        self.assertEqual(set(cases), GLOO)
        for case in cases.values():
            self.assertIn(case["status"], MEASURED, case)
            self.assertEqual(case["mismatches"], 0, case)

    def test_share_of_remote_rows_is_as_asked(self):
        for share in (0, 0.25, 1):
            cases, _ = self.sharded("--ranks", "2", "--remote", share, "--batch", "2000", "--distribution", "uniform")
            remote = cases["all_to_all"]["remote_bytes"] / (2 * 2000 * ROW_BYTES)
            self.assertAlmostEqual(remote, share, delta=0.05)  # five standard deviations at 0.25
            self.assertEqual("alltoall_base" in cases, share > 0)

    def test_wrong_rows_of_one_rank_are_caught(self):
        faults = ("one_wrong_byte", "two_rows_swapped", "later_rows_wrong", "left_out")
        cases, _ = self.sharded("--ranks", "2", "--batch", BATCH, "--distribution", "unique", "--method",
                                ",".join(("speedtorch", *faults)), program=PLANTED, status=1)
        for name in faults:
            self.assertEqual((cases[name]["status"], cases[name]["median_s"]), ("wrong", None), cases[name])
            self.assertIn("rank 1: ", cases[name]["reason"])
            self.assertNotIn("rank 0: ", cases[name]["reason"])
        self.assertEqual(cases["two_rows_swapped"]["mismatches"], 2)
        self.assertIn(cases["speedtorch"]["status"], MEASURED)

    def test_rank_that_ends_fails_its_cell_and_no_other(self):
        for method, reason in (("rank_dies", "rank 2 of 3 was ended by signal 9"),
                               ("rank_throws", "rank 2 of 3 ended with exit status 2: planted: no rows today"),
                               ("rank_0_throws", "rank 0 of 3: planted: no rows today")):
            report, _, _ = self.measure(*SHAPE, "--samples", 3, "--engine", "gloo", "--ranks", "3", "--batch", "500,600",
                                        "--distribution", "uniform", "--method", f"speedtorch,{method}", program=PLANTED,
                                        status=2)
            small = self.by_method(report["cases"], batch=500)
            self.assertEqual((small[method]["status"], small[method]["median_s"]), ("failed", None))
            self.assertEqual(small[method]["reason"], reason)
            for case in self.by_method(report["cases"], batch=600).values():
                self.assertIn(case["status"], MEASURED, case)
            self.assertEqual(children_of(self.folder), [])

    def test_stopped_rank_fails_its_cell_within_the_time_out(self):
        report, _, _ = self.measure(*SMALL, "--engine", "gloo", "--ranks", "2", "--distribution", "uniform", "--timeout", "30",
                                    "--method", "rank_stops", program=PLANTED, status=2)
        self.assertEqual(report["cases"][0]["status"], "failed")
        self.assertIn("time-out 24000 ms", report["cases"][0]["reason"])
        self.assertEqual(children_of(self.folder), [])

    def test_what_is_not_here_is_waived(self):
        report, _, _ = self.measure(*SMALL, "--engine", "nccl,mpi", "--ranks", "2")
        self.assertEqual([(case["engine"], case["status"]) for case in report["cases"]], [("nccl", "waived"), ("mpi", "waived")])
        for case in report["cases"]:
            self.assertIn("not available here: ", case["reason"])

    def test_mpi_is_waived_where_another_started_the_ranks(self):
        _, rows, _ = self.measure(*SMALL, "--engine", "gloo", "--ranks", "1", "--method", "local", "--peers", "mpi_alltoallv")
        self.assertEqual({row["method"]: row["status"] for row in rows if row["method"] != "local"}, {"mpi_alltoallv": "waived"})
        (reason,) = [row["reason"] for row in rows if row["method"] == "mpi_alltoallv"]
        self.assertIn("MPI has to start the ranks, as mpiexec.hydra -n 2 ./stbench does", reason)

    def test_case_of_a_report_is_measured_again_with_what_it_is_compared_with(self):
        case = "sharded to pageable -> speedtorch -> cpu float32 3k×8 batch 500 zipf:1.05 int64 cores=1 ranks=3 sharding=cyclic"
        report, _, _ = self.measure("--case", case, "--samples", 3)
        self.assertEqual({one["method"] for one in report["cases"]}, GLOO)
        self.assertEqual({(one["ranks"], one["sharding"], one["distribution"]) for one in report["cases"]},
                         {(3, "cyclic", "zipf:1.05")})

    def test_processes_are_repetitions(self):
        done = self.run_program(*SMALL, "--engine", "gloo", "--ranks", "2", "--method", "speedtorch", "--processes", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("process 2 of 2", done.stderr)

    def test_mistakes_are_named(self):
        for words, message in (
                (("--ranks", "0"), "--ranks 0"),
                (("--ranks", "two"), "--ranks"),
                (("--ranks", "2000"), "--ranks 2000: 1024 at the most"),
                (("--ranks", "100", "--rows", "99"), "--rows 99: the last of 100 ranks holds none"),
                (("--engine", "ucx"), "--engine"),
                (("--sharding", "rows"), "--sharding"),
                (("--remote", "1.5"), "--remote 1.5: a share from 0 to 1, or drawn, is needed"),
                (("--placement", "device"), "--placement"),
                (("--device", "cuda"), "--device"),
                (("--batch", "100M"), "a batch of 100000000 × 128 float32 has more than 1.07 GB"),
                (("--rows", "1G", "--dim", "1k", "--engine", "shared"), "use fewer --rows"),
                (("--cores", "100000"), "--cores 100000"),
                (("--distribution", "unique", "--rows", "3k", "--batch", "4k"), "unique"),
                (("--method", "index_select", "--engine", "gloo"), "no case is left"),
        ):
            with self.subTest(words=words):
                done = self.run_program("--dry-run", "--suite", "sharded", *words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(message, messages(done.stderr))

    def launched(self, *command, status=0):
        kept = {name: None for name in os.environ if name.startswith(LAUNCHERS)}
        with held_port() as port:
            variables = environment(**{**kept, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"})
            done = subprocess.run([*map(str, command)], cwd=self.folder, env=variables, capture_output=True, text=True,
                                  timeout=280, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def check_launched(self, ranks):
        report = read_json(self.folder / "r.json")
        self.assertEqual({case["ranks"] for case in report["cases"]}, {ranks})
        self.assertEqual({case["method"] for case in report["cases"] if case["engine"] == "gloo"}, GLOO)
        for case in report["cases"]:
            self.assertIn(case["status"], MEASURED, case)

    def test_torchrun(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no torch, which brings torchrun")
        self.launched(sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", 2,
                      PROGRAM, *SMALL, "--engine", "gloo,shared", "--distribution", "uniform", "--json", "r.json")
        self.check_launched(2)

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is missing (Debian: openmpi-bin)")
        mpirun = ("mpirun", "--oversubscribe", "--allow-run-as-root", "-np", 3)
        done = self.launched(*mpirun, PROGRAM, *SMALL, "--engine", "gloo", "--distribution", "uniform", "--json", "r.json")
        self.check_launched(3)
        self.assertEqual(done.stdout.count("algbw_gb_per_s"), 1)  # of rank 0 alone

    def test_mpi_is_a_peer_where_it_started_the_ranks(self):
        hydra = shutil.which("mpiexec.hydra")
        library = Path(hydra or "/").resolve().parent.parent / "lib"
        if not (library / "libmpi_abi.so.1").exists():
            self.skipTest("MPICH 5 is missing (PyPI: mpich)")
        measure = (PROGRAM, *SMALL, "--engine", "gloo", "--distribution", "uniform", "--peers", "mpi_alltoallv", "--json", "r.json")
        self.launched("env", f"LD_LIBRARY_PATH={library}", hydra, "-n", 3, *measure)
        cases = read_json(self.folder / "r.json")["cases"]
        self.assertEqual({case["method"] for case in cases}, GLOO | {"mpi_alltoallv"})
        for case in cases:
            self.check_case(case, 3)
        self.launched("env", "LD_LIBRARY_PATH=", hydra, "-n", 2, *measure)
        (waived,) = [case for case in read_json(self.folder / "r.json")["cases"] if case["status"] == "waived"]
        self.assertEqual(waived["method"], "mpi_alltoallv")
        self.assertIn("libmpi_abi.so.1: cannot open shared object file", waived["reason"])

    def test_nixl_is_waived_where_its_library_is_missing(self):
        report, _, _ = self.measure(*SMALL, "--engine", "gloo", "--ranks", "1", "--method", "local", "--peers", "nixl_read",
                                    warm=False, LD_LIBRARY_PATH="")
        (waived,) = [case for case in report["cases"] if case["status"] == "waived"]
        self.assertEqual(waived["method"], "nixl_read")
        self.assertIn("libnixl_capi.so: cannot open shared object file", waived["reason"])
        self.assertIn("PyPI: nixl-cu13", waived["reason"])

    def test_nixl_is_a_peer_where_its_library_is_found(self):
        report, _, _ = self.measure(*SMALL, "--engine", "gloo", "--ranks", "1,2,3", "--sharding", "cyclic,blocks",
                                    "--distribution", "uniform", "--remote", "1", "--method", "local", "--peers", "nixl_read",
                                    warm=False)
        cases = [case for case in report["cases"] if case["method"] == "nixl_read"]
        if cases[0]["status"] == "waived":
            self.skipTest("NIXL is missing (PyPI: nixl-cu13; LD_LIBRARY_PATH has to name its folder)")
        self.assertEqual(len(cases), 6)
        for case in cases:
            self.check_case(case, case["ranks"])
            self.assertEqual(case["remote_bytes"], case["ranks"] * BATCH * ROW_BYTES if case["ranks"] > 1 else 0)

    def test_srun_by_its_variables(self):
        variables = {"SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "2"}
        with held_port() as port:
            ranks = [subprocess.Popen([PROGRAM, *map(str, SMALL), "--engine", "gloo", "--distribution", "uniform",
                                       "--json", "r.json"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, env=environment(**variables, MASTER_PORT=port, SLURM_PROCID=str(rank)))
                     for rank in (0, 1)]
            said = [rank.communicate(timeout=280) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        self.assertEqual(said[1], ("", ""))
        self.check_launched(2)

    def test_ranks_of_a_launcher_are_not_started_again(self):
        for words, message in ((("--ranks", "2"), "a launcher started this process as rank 1 of 4: leave out --ranks"),
                               (("--processes", "2"), "ranks of a launcher are one run")):
            done = self.run_program(*SMALL, *words, RANK="1", WORLD_SIZE="4")
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
