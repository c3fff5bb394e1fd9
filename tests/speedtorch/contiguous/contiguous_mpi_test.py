"""Two processes, each with half of a batch, train like one process with the whole batch."""

import os
import shutil
import subprocess
import unittest

PROGRAM = os.environ["STBENCH_CONTIGUOUS_MPI"]
MPIRUN = shutil.which("mpirun")


@unittest.skipUnless(PROGRAM and MPIRUN, "MPI is missing (Debian: libopenmpi-dev and openmpi-bin)")
class ContiguousMpiTest(unittest.TestCase):
    def run_on(self, processes):
        command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(processes), PROGRAM]
        alone = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1"}
        # Open MPI 4.1 leaks some 20 kB per process.
        alone["ASAN_OPTIONS"] = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **alone})

    def test_two_processes_equal_one_with_the_whole_batch(self):
        for processes in (1, 2, 4):
            done = self.run_on(processes)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count(f" of {processes}: "), processes)


if __name__ == "__main__":
    unittest.main()
