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


def mpirun(ranks, *arguments):
    return run("mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(ranks), *arguments)


class LaunchersTest(unittest.TestCase):
    def require_right(self, done, ranks):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} of {ranks}: right\n", done.stdout)

    def require_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is missing (Debian: openmpi-bin)")

    def test_torchrun(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no torch, which brings torchrun")
        self.require_right(run(sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone",
                               "--nproc-per-node", "2", PROGRAM), 2)

    def test_mpirun_with_an_empty_batch(self):
        self.require_mpirun()
        for ranks in (1, 3, 4):
            self.require_right(mpirun(ranks, PROGRAM), ranks)

    def test_mpirun_with_a_killed_rank(self):
        self.require_mpirun()
        # A shell around each rank keeps mpirun from ending the others when one dies.
        done = mpirun(4, "sh", "-c", f"'{PROGRAM}' 2; exit 0")
        self.assertEqual(done.stdout.count("GroupError: rank "), 3, done.stdout + done.stderr)
        self.assertIn("rank 0 at 127.0.0.1:", done.stdout)
        self.assertNotIn("another error", done.stdout)


if __name__ == "__main__":
    unittest.main()
