"""Sharded tables under the launchers torchrun and mpirun, also with a rank that is killed."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import unittest

PROGRAM = os.environ["STBENCH_SHARDED_PROGRAM"]
LAUNCHERS = ("MASTER_", "OMPI_", "PMI_", "RANK", "SLURM_", "WORLD_", "TORCHELASTIC_")


@contextlib.contextmanager
def held_port():
    """A port that no other test takes meanwhile. A rank can listen to it, because the holder does not listen and shares it."""
    with socket.socket() as holder:
        for port in range(20000 + os.getpid() % 9000, 30000):
            with contextlib.suppress(OSError):
                holder.bind(("", port))
                break
        else:
            raise AssertionError("no free port")
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield str(port)


def run(*command):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    with held_port() as port:
        environment = {**kept, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return subprocess.run([*command], env=environment, capture_output=True, text=True, timeout=300, check=False)


def open_mpi():
    """How to start ranks by Open MPI."""
    found = shutil.which("mpirun")
    if found is None or "Open MPI" not in subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout:
        raise unittest.SkipTest("Open MPI's mpirun is missing (Debian: openmpi-bin)")
    return ["mpirun", "--oversubscribe", "--allow-run-as-root"]


def mpich():
    """The same by MPICH, of Debian or in this Python's environment."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec.hydra")
    found = shutil.which("mpiexec.hydra") or (beside if os.path.exists(beside) else None)
    if found is None:
        raise unittest.SkipTest("MPICH's mpiexec.hydra is missing (PyPI: mpich)")
    return [found]


class LaunchersTest(unittest.TestCase):
    def require_right(self, done, ranks):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} of {ranks}: right\n", done.stdout)

    def test_torchrun(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no torch, which brings torchrun")
        self.require_right(run(sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone",
                               "--nproc-per-node", "2", PROGRAM), 2)

    # Rank 0 has an empty batch in all of these.
    def check_launcher(self, launcher):
        for ranks in (1, 3, 4):
            self.require_right(run(*launcher, "-np", str(ranks), PROGRAM), ranks)

    def check_slow_rank(self, launcher):
        self.require_right(run(*launcher, "-np", "4", PROGRAM, "-1", "1"), 4)

    def check_killed_rank(self, launcher):
        # A shell around each rank keeps the launcher from ending the others when one dies.
        done = run(*launcher, "-np", "4", "sh", "-c", f"'{PROGRAM}' 2 1; exit 0")
        self.assertEqual(done.stdout.count("GroupError: rank "), 3, done.stdout + done.stderr)
        self.assertIn("rank 0 at 127.0.0.1:", done.stdout)
        self.assertNotIn("another error", done.stdout)

    def test_open_mpi(self):
        self.check_launcher(open_mpi())

    def test_open_mpi_with_a_slow_rank(self):
        self.check_slow_rank(open_mpi())

    def test_open_mpi_with_a_slow_and_a_killed_rank(self):
        self.check_killed_rank(open_mpi())

    def test_mpich(self):
        self.check_launcher(mpich())

    def test_mpich_with_a_slow_rank(self):
        self.check_slow_rank(mpich())

    def test_mpich_with_a_slow_and_a_killed_rank(self):
        self.check_killed_rank(mpich())


if __name__ == "__main__":
    unittest.main()
