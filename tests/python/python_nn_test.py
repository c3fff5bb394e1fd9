"""speedtorch.nn.Embedding against torch.nn.Embedding."""

import copy
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

import speedtorch
from speedtorch import nn, optim


def batches(rows, count=5):
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(0, rows, (6, 3), generator=generator) for _ in range(count)]


class EmbeddingTest(unittest.TestCase):
    def twins(self, **options):
        ours = nn.Embedding(40, 5, fill=speedtorch.Normal(seed=1), **options)
        theirs = torch.nn.Embedding(40, 5, sparse=True)
        theirs.weight.data.copy_(ours.weight.data)
        return ours, theirs

    def test_trains_itself_as_torchs_does_with_sparse_adam(self):
        for placement in ("libtorch", "hugepage", "mapped"):
            with self.subTest(placement):
                ours, theirs = self.twins(placement=placement, optimizer="SparseAdam", lr=0.05)
                self.assertEqual(list(ours.parameters()), [])
                optimizer = torch.optim.SparseAdam(theirs.parameters(), lr=0.05)
                for index in batches(40):
                    ours(index).square().sum().backward()
                    ours.step()
                    optimizer.zero_grad()
                    theirs(index).square().sum().backward()
                    optimizer.step()
                torch.testing.assert_close(ours.weight.detach(), theirs.weight.detach(), rtol=1e-5, atol=1e-6)
                self.assertEqual(ours.weight.data_ptr(), ours.table.tensor.data_ptr())
                self.assertIsNone(ours.weight.grad)

    def test_is_a_parameter_for_any_optimizer(self):
        ours, theirs = self.twins(sparse=False)
        theirs.sparse = False
        for module in (ours, theirs):
            optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
            module(batches(40)[0]).square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(ours.weight.detach(), theirs.weight.detach())
        theirs.load_state_dict(ours.state_dict())

    def test_goes_on_from_its_state_dict_and_as_a_copy(self):
        index = batches(40)

        def train(module):
            for one in index:
                module(one).square().sum().backward()
                module.step()

        first, _ = self.twins(optimizer=optim.Adagrad, lr=0.1)
        train(first)
        second = nn.Embedding(40, 5, optimizer=optim.Adagrad, lr=0.1)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        third = copy.deepcopy(first)
        self.assertEqual(third.weight.data_ptr(), third.table.tensor.data_ptr())
        self.assertNotEqual(third.weight.data_ptr(), first.weight.data_ptr())
        for module in (first, second, third):
            train(module)
        self.assertTrue(torch.equal(first.weight, second.weight))
        self.assertTrue(torch.equal(first.weight, third.weight))

    def test_lives_in_a_file_and_stays_there(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.npy"
            module = torch.nn.Sequential(nn.Embedding(40, 5, placement="mapped", file=file, optimizer="SGD", lr=1.0))
            module.to(torch.float64)
            self.assertEqual(module[0].weight.dtype, torch.float32)
            before = np.load(file)
            module(torch.tensor([3, 3])).sum().backward()
            module[0].step()
            module[0].table.flush()
            after = np.load(file)
            np.testing.assert_array_equal(after[3], before[3] - 2)
            np.testing.assert_array_equal(np.delete(after, 3, 0), np.delete(before, 3, 0))

    def test_compiles_whole_with_dynamic_shapes(self):
        for sparse in (True, False):
            ours, theirs = self.twins(sparse=sparse)
            compiled = torch.compile(torch.nn.Sequential(ours, torch.nn.Tanh()), fullgraph=True, dynamic=True, backend="aot_eager")
            for rows in (2, 6, 4):
                index = batches(40)[0][:rows]
                ours.weight.grad = theirs.weight.grad = None
                compiled(index).sum().backward()
                theirs(index).tanh().sum().backward()
                self.assertEqual(ours.weight.grad.is_sparse, sparse)
                grad = ours.weight.grad.to_dense() if sparse else ours.weight.grad
                torch.testing.assert_close(grad, theirs.weight.grad.to_dense())

    def test_says_what_it_is(self):
        ours, _ = self.twins(optimizer="Adam")
        self.assertEqual(repr(ours), "Embedding(40, 5, dtype=torch.float32, placement='hugepage', optimizer=Adam)")
        with self.assertRaisesRegex(TypeError, "lr: options without an optimizer"):
            nn.Embedding(4, 5, lr=0.1)
        with self.assertRaisesRegex(TypeError, "has no optimizer"):
            nn.Embedding(4, 5).step()


if __name__ == "__main__":
    unittest.main()
