"""Sharded tables under the launchers torchrun, mpirun and srun, also with a rank that is killed."""

import contextlib
import os
import pwd
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


def run(*command, address={"MASTER_ADDR": "127.0.0.1"}):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    with held_port() as port:
        environment = {**kept, **address, "OMP_NUM_THREADS": "1", "MASTER_PORT": port}
        return subprocess.run([*command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                              check=False)


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


# A cluster of this machine alone, without munge. The node claims four processors, so that four ranks fit on any machine.
SLURM = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
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


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def slurm():
    """Runs Slurm's two daemons. Yields the command that starts ranks."""
    daemons = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("slurmctld", "slurmd")]
    if not (all(daemons) and shutil.which("srun")):
        raise unittest.SkipTest("Slurm is missing (Debian: slurmctld, slurmd, slurm-client)")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        (folder / "state").mkdir()
        controller, node = (running.enter_context(held_port()) for _ in range(2))
        file = folder / "slurm.conf"
        file.write_text(SLURM.format(host=socket.gethostname().split(".")[0], user=pwd.getpwuid(os.geteuid()).pw_name,
                                     folder=folder, controller=controller, node=node))
        said = running.enter_context(open(folder / "said", "w", encoding="utf-8"))
        processes = []
        for daemon in daemons:
            processes.append(subprocess.Popen([daemon, "-D", "-f", file], stdout=said, stderr=said))
            running.callback(end, processes[-1])
        give_up = time.monotonic() + 60
        state = ""
        while state != "idle":
            if time.monotonic() > give_up or any(process.poll() is not None for process in processes):
                texts = [path.read_text() for path in (folder / "said", folder / "log") if path.exists()]
                raise AssertionError(f"Slurm's node does not come: {state}\n" + "\n".join(texts))
            time.sleep(0.1)
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], env={**os.environ, "SLURM_CONF": str(file)},
                                   capture_output=True, text=True, check=False).stdout.strip()
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
        for ranks in (1, 2, 3, 4):
            self.require_right(run(sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone",
                                   "--nproc-per-node", str(ranks), PROGRAM), ranks)

    # Rank 0 has an empty batch in all of these.
    def check_launcher(self, launcher):
        for ranks in (1, 2, 3, 4):
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
            self.require_right(run(*launcher, "-n", "2", PROGRAM, address={}), 2)  # all ranks are on one host


if __name__ == "__main__":
    unittest.main()
