"""speedtorch.SharedTable between processes of Python."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import torch

from speedtorch import SharedTable, Table, errors

ATTACH = """
import sys, torch, speedtorch
shared = speedtorch.SharedTable.attach(sys.argv[1], writable=sys.argv[2] == "writable")
print("attached", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Other:
    """A process that attaches a table and evaluates lines."""

    def __init__(self, test, name, access="read_only"):
        self.process = subprocess.Popen([sys.executable, "-c", ATTACH, name, access], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        test.assertEqual(self.process.stdout.readline(), "attached\n")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.communicate()


class SharedTest(unittest.TestCase):
    def setUp(self):
        self.name = f"{self.id()} {os.getpid()}"[-80:]
        self.array = np.random.default_rng(3).integers(0, 1000, (50, 7))

    def hold(self, **options):
        return SharedTable.hold(self.name, Table.from_array(self.array, placement="pageable", shared=True), **options)

    def test_processes_gather_the_same_rows(self):
        held = self.hold()
        for access in (Other(self, self.name), Other(self, self.name)):
            self.assertEqual(access.ask("shared.gather([5, 2]).sum().item()"), str(self.array[[5, 2]].sum()))
            self.assertEqual(access.ask("(shared.shape, shared.holder, shared.writable)"),
                             f"(torch.Size([50, 7]), {os.getpid()}, False)")
        held.scatter([5], torch.full((1, 7), 3))
        self.assertEqual(access.ask("shared.numpy()[5].tolist()"), str([3] * 7))
        self.assertEqual((held.name, held.writers, held.dtype, len(held)), (self.name, "holder", torch.int64, 50))
        self.assertIn(f"SharedTable(name='{self.name}', shape=(50, 7)", repr(held))
        self.assertFalse(held.numpy().flags.writeable)

    def test_writers_add_under_locks_and_keep_the_table_of_a_killed_holder(self):
        held = self.hold(writers="row_locks")
        others = [Other(self, self.name, "writable") for _ in range(2)]
        for other in others:
            self.assertEqual(other.ask("shared.scatter(slice(0, 50), torch.ones(50, 7, dtype=torch.int64), 'accumulate')"), "None")
        np.testing.assert_array_equal(held.numpy(), self.array + 2)
        others[0].process.send_signal(signal.SIGKILL)
        self.assertEqual(held.finish_rows(), 0)
        del held
        self.assertEqual(others[1].ask("shared.scatter([0], [[1] * 7]) or shared.numpy()[0].tolist()"), str([1] * 7))
        with self.assertRaises(errors.NameError):
            SharedTable.attach(self.name, timeout=0)

    def test_a_pickled_table_is_its_name(self):
        held = self.hold(writers="row_locks")
        again = pickle.loads(pickle.dumps(held))
        self.assertTrue(again.writable)
        again.scatter([4], [[9] * 7])
        self.assertEqual(held.numpy()[4].tolist(), [9] * 7)

    def test_a_pickled_table_keeps_its_time_out_and_is_no_other_table(self):
        held = self.hold(writers="row_locks", lock_timeout=0.25)
        pickled = pickle.dumps(held)
        with unittest.mock.patch.object(SharedTable, "attach", wraps=SharedTable.attach) as attach:
            pickle.loads(pickled)
        self.assertEqual(attach.call_args.kwargs["lock_timeout"], 0.25)
        del held
        other = SharedTable.hold(self.name, Table.filled((50, 8), 1.0, shared=True))
        with self.assertRaises(errors.ShapeError):
            pickle.loads(pickled)
        del other

    def test_copies_are_the_same_table(self):
        held = self.hold(writers="row_locks")
        for copied in (copy.copy(held), copy.deepcopy(held), copy.deepcopy([held])[0]):
            self.assertIs(copied, held)
        del held, copied
        with self.assertRaises(errors.NameError):  # no copy holds the name
            SharedTable.attach(self.name, timeout=0)

    def test_a_mapped_file_is_shared(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.npy")
            held = SharedTable.hold(self.name, Table.from_array(self.array, placement="mapped", file=path), writers="row_locks")
            other = Other(self, self.name, "writable")
            self.assertEqual(other.ask("shared.scatter([1], [[8] * 7]) or shared.flush()"), "None")
            self.assertEqual(np.load(path)[1].tolist(), [8] * 7)
            self.assertEqual(held.placement, "mapped")

    def test_refusals_are_typed(self):
        held = self.hold()
        reader = SharedTable.attach(self.name)
        for error, built_in, act in (
                (errors.AccessError, PermissionError, lambda: reader.scatter([0], [[1] * 7])),
                (errors.AccessError, PermissionError, lambda: SharedTable.attach(self.name, writable=True)),
                (errors.NameError, LookupError, lambda: self.hold()),
                (errors.NameError, LookupError, lambda: SharedTable.attach("nobody holds this", timeout=0.01)),
                (errors.ShapeError, ValueError, lambda: SharedTable.attach(self.name, dtype=torch.float32)),
                (errors.ShapeError, ValueError, lambda: SharedTable.attach(self.name, shape=(50, 8))),
                (errors.PlacementError, ValueError, lambda: SharedTable.hold("own", Table.empty((2, 2), placement="pageable"))),
                (errors.OptionError, ValueError, lambda: SharedTable.hold("", Table.empty((2, 2), shared=True))),
                (errors.OptionError, ValueError, lambda: SharedTable.hold("a", Table.empty((2, 2), shared=True), writers="all")),
                (errors.OptionError, ValueError, lambda: SharedTable.attach(self.name, timeout=float("nan")))):
            with self.assertRaises(error) as raised:
                act()
            self.assertIsInstance(raised.exception, built_in)
        with self.assertRaises(TypeError):
            SharedTable.hold("tensor", torch.zeros(2, 2))
        np.testing.assert_array_equal(held.numpy(), self.array)


if __name__ == "__main__":
    unittest.main()
