"""Sharded tables under the launchers torchrun, mpirun and srun, also with a rank that is killed."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

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


# A cluster of this machine alone, without munge. Its node has more processors than it may have, for four ranks.
SLURM = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/log
SlurmdLogFile={folder}/log
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes={host} Default=YES
"""


@contextlib.contextmanager
def slurm():
    """How to start ranks by Slurm, of whose daemons two run meanwhile."""
    controller, node = (shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("slurmctld", "slurmd"))
    if not (controller and node and shutil.which("srun")):
        raise unittest.SkipTest("Slurm is missing (Debian: slurmctld, slurmd, slurm-client)")
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can start Slurm's daemons")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        (Path(folder) / "state").mkdir()
        ports = [running.enter_context(held_port()) for _ in range(2)]
        file = Path(folder) / "slurm.conf"
        file.write_text(SLURM.format(host=socket.gethostname().split(".")[0], folder=folder, controller=ports[0], node=ports[1]))
        for daemon in (controller, node):
            process = subprocess.Popen([daemon, "-D", "-f", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.callback(process.wait)
            running.callback(process.terminate)
        end = time.monotonic() + 60
        while "idle" not in (said := subprocess.run(["sinfo"], env={**os.environ, "SLURM_CONF": str(file)}, capture_output=True,
                                                    text=True, check=False).stdout):
            if time.monotonic() > end:
                raise AssertionError(f"Slurm's node does not come: {said}{(Path(folder) / 'log').read_text()}")
            time.sleep(0.1)
        yield ["env", f"SLURM_CONF={file}", "srun"]


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
            self.require_right(run(*launcher, "-n", str(ranks), PROGRAM), ranks)

    def check_slow_rank(self, launcher):
        self.require_right(run(*launcher, "-n", "4", PROGRAM, "-1", "1"), 4)

    def check_killed_rank(self, launcher):
        # A shell around each rank keeps the launcher from ending the others when one dies.
        done = run(*launcher, "-n", "4", "sh", "-c", f"'{PROGRAM}' 2 1; exit 0")
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

    def test_slurm(self):
        with slurm() as launcher:
            self.check_launcher(launcher)
            self.check_slow_rank(launcher)
            self.check_killed_rank(launcher)


if __name__ == "__main__":
    unittest.main()
