"""speedtorch.ShardedTable under torchrun, with two ranks, against torch's own indexing."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# They go on with the group of the document's example, because a second one in a process may meet the first one's addresses in
# torchrun's store.
CHECKS = '''
import numpy as np
from speedtorch import errors

whole = torch.arange(50 * 4, dtype=torch.float32).view(50, 4)


def batch(rank, count):
    return torch.randint(0, 50, (count,), generator=torch.Generator().manual_seed(rank))


def refused(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise SystemExit(f"no {kind}")


for sharding in ("blocks", "cyclic", "hashed"):
    for group in (None, dist.new_group([0, 1])):
        table = speedtorch.ShardedTable.from_array(whole, group=group, sharding=sharding, chunk_bytes=32,
                                                    node_first=sharding == "cyclic")
        assert table.shape == (50, 4) and table.dtype == torch.float32 and table.sharding == sharding and len(table) == 50
        mine = batch(rank, 30 * rank)  # rank 0 has an empty batch
        assert torch.equal(table.gather(mine), whole[mine])
        assert torch.equal(table.gather([[3, 1], [49, 3]]), whole[torch.tensor([[3, 1], [49, 3]])])
        out = torch.empty(len(mine), 4)
        assert table.gather(mine, out=out) is out and torch.equal(out, whole[mine])
        assert torch.equal(table.shard.tensor, whole[table.row_numbers()])
        expected = whole.clone()
        for other in (0, 1):
            expected.index_add_(0, batch(other + 5, 9), torch.full((9, 4), other + 1.0))
        table.scatter(batch(rank + 5, 9), torch.full((9, 4), rank + 1.0), "accumulate")
        assert torch.equal(table.shard.tensor, expected[table.row_numbers()])
        table.scatter([rank], torch.full((1, 4), 9.0))
        assert torch.equal(table.gather([0, 1]), torch.full((2, 4), 9.0))

# 50 steps of two ranks that share each batch equal those of one process, bit for bit.
table = speedtorch.ShardedTable.from_array(whole, sharding="hashed")
alone = torch.nn.Parameter(whole.clone())
optimizers = [speedtorch.optim.Adagrad([each], lr=0.1) for each in (torch.nn.Parameter(table.shard.tensor), alone)]
for step in range(50):
    index, grad = batch(step, 20), torch.rand(20, 4, generator=torch.Generator().manual_seed(step))
    share = slice(13 * rank, 13 if rank == 0 else 20)
    table.step(optimizers[0], index[share], grad[share])
    alone.grad = torch.sparse_coo_tensor(index[None], grad, alone.shape)
    optimizers[1].step()
assert torch.equal(table.shard.tensor, alone.detach()[table.row_numbers()]) and not torch.equal(alone.detach(), whole)

saved = os.path.join(os.path.dirname(__file__), "saved")
table.save(saved)
again = speedtorch.ShardedTable.load(saved, sharding="cyclic")
assert torch.equal(again.gather(range(50)), table.gather(range(50)))
assert np.load(os.path.join(saved, f"shard-{rank}.npy")).shape == (25, 4)
alone = speedtorch.ShardedTable.load_as_table(saved, placement="pageable", shared=True)
assert alone.placement == "pageable" and torch.equal(alone.tensor, table.gather(range(50)))
speedtorch.SharedTable.hold(f"loaded by rank {rank} of {os.getpid()}", alone)  # refuses a table that is not in shared memory
if rank == 0:  # without the other rank
    file = saved + " as one.npy"
    speedtorch.ShardedTable.load_as_table(saved, placement="mapped", file=file)
    assert np.array_equal(np.load(file), alone.numpy())
    text = refused(FileExistsError, lambda: speedtorch.ShardedTable.load_as_table(saved, placement="mapped", file=file))
    assert "as one.npy" in text, text
    text = refused(errors.FileError, lambda: speedtorch.ShardedTable.load_as_table(saved + " absent"))
    assert "manifest.json" in text, text

# Ranks read each other's rows from memory if they are of one node.
for node, other_rows in ("", 25), (f"node {rank}", 0):
    near = speedtorch.ShardedTable.from_array(whole, sharding="cyclic", node_first=True, node=node)
    assert torch.equal(near.gather(range(50)), whole)
    counts = near.last_exchange
    assert (counts.node_rows, counts.asked_rows, counts.served_rows) == (other_rows, 25 - other_rows, 25 - other_rows), counts

bad = errors.IndexError if rank == 1 else errors.RankError
text = refused(bad, lambda: table.gather([1, 77 if rank == 1 else 2]))
assert "index 77 at position 1 names no row" in text and "on rank 1 of 2" in text, text
text = refused(errors.DuplicateError, lambda: table.scatter([4], torch.zeros(1, 4), "reject"))
assert "row 4 is named at positions 0 and 0" in text and "on ranks 0 and 1" in text, text
text = refused(errors.DisagreementError, lambda: speedtorch.ShardedTable.empty([5 + rank, 2]))
assert "rank 0 has [5, 2], rank 1 has [6, 2]" in text, text
refused(errors.OptionError, lambda: speedtorch.ShardedTable.empty([5, 2], sharding="rings"))


def refused_by_rank_1(kind, call):
    """`call` gets whether this rank is to call it wrongly. Rank 1 does, and rank 0 does not wait for it."""
    text = refused(kind if rank == 1 else errors.RankError, lambda: call(rank == 1))
    assert rank == 1 or text.startswith("rank 1: "), text


one = torch.ones(1, 4)
refused_by_rank_1(TypeError, lambda bad: table.gather("none" if bad else [1]))
refused_by_rank_1(errors.ShapeError, lambda bad: table.gather(torch.tensor([True] * (7 if bad else 50))))
refused_by_rank_1(TypeError, lambda bad: table.gather([1], out=[] if bad else one))
refused_by_rank_1(TypeError, lambda bad: table.scatter([1], "none" if bad else one))
refused_by_rank_1(errors.OptionError, lambda bad: table.scatter([1], one, "first" if bad else "accumulate"))
refused_by_rank_1(TypeError, lambda bad: table.scatter([1], one, 3 if bad else "accumulate"))
weights = torch.nn.Parameter(table.shard.tensor)
sgd = speedtorch.optim.SGD([weights], lr=1.0)
refused_by_rank_1(errors.OptimizerError, lambda bad: table.step(None if bad else sgd, [1], one))
refused_by_rank_1(errors.OptimizerError, lambda bad: table.step(speedtorch.optim.SGD([one], lr=1.0) if bad else sgd, [1], one))
refused_by_rank_1(errors.ShapeError, lambda bad: table.step(sgd, [1], torch.ones(2 if bad else 1, 4)))
refused_by_rank_1(TypeError, lambda bad: table.save(1.5 if bad else saved + " again"))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.load(None if bad else saved))
refused_by_rank_1(errors.OptionError, lambda bad: speedtorch.ShardedTable.load(saved, sharding="rings" if bad else "blocks"))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.empty("ab" if bad else [5, 2]))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.empty([5, 2], "float" if bad else torch.float32))
refused_by_rank_1(errors.OptionError, lambda bad: speedtorch.ShardedTable.empty([5], placement="paper" if bad else "hugepage"))
refused_by_rank_1(errors.OptionError, lambda bad: speedtorch.ShardedTable.empty([5, 2], node="a" if bad else ""))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.empty([5, 2], chunk_bytes="all" if bad else 64))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.from_array(whole, placement="\\udcff" if bad else "hugepage"))
refused_by_rank_1(TypeError, lambda bad: speedtorch.ShardedTable.from_array("none" if bad else whole))
assert torch.equal(table.gather([3]), again.gather([3]))
assert speedtorch.ShardedTable.empty([5, 2], torch.int64).gather([]).shape == (0, 2)
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} is right")
'''

# Two threads are the ranks. Rank 0 ends its group while an exchange of that group waits for rank 1, which needs Python's lock.
LAST_OF_A_GROUP = '''
import datetime
import threading
import time

import torch
import torch.distributed as dist

import speedtorch

store = dist.HashStore()
ending = threading.Event()


def rank(number):
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), number, 2, datetime.timedelta(seconds=60))
    group = dist.ProcessGroup(dist.PrefixStore("group", store), number, 2)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    table = speedtorch.ShardedTable.from_array(torch.ones(10, 2), group=group)
    if number == 1:
        ending.wait()
        for _ in range(20):
            time.sleep(0.01)
        gloo.allreduce([torch.ones(1)]).wait()
        done.append(number)
        return
    gloo.allreduce([torch.ones(1)])
    del gloo, group
    ending.set()
    del table
    done.append(number)


done = []
threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(done))
'''


class ShardedTest(unittest.TestCase):
    def test_two_ranks_under_torchrun(self):
        (example,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/sharded.md").read_text(encoding="utf-8"),
                                re.MULTILINE | re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "checks.py"
            left = "dist.destroy_process_group()\n"
            self.assertTrue(example.endswith(left))
            program.write_text(example.removesuffix(left) + CHECKS, encoding="utf-8")
            run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program],
                                 capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} is right", run.stdout)
            self.assertIn(f"rank {rank} holds rows {list(range(rank, 10, 2))}", run.stdout)

    def test_last_of_a_group_ends_without_the_interpreters_lock(self):
        run = subprocess.run([sys.executable, "-c", LAST_OF_A_GROUP], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.stdout, "[0, 1]\n", run.stderr)

    def test_without_a_group(self):
        import speedtorch

        with self.assertRaisesRegex(speedtorch.errors.OptionError, "init_process_group"):
            speedtorch.ShardedTable.empty([4, 2])


if __name__ == "__main__":
    unittest.main()
