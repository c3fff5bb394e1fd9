"""speedtorch.gather_rows, scatter_rows and torch.ops.speedtorch against torch's own indexing."""

import multiprocessing
import unittest

import torch
from torch.autograd import forward_ad
from torch.utils.data import DataLoader, Dataset

import speedtorch
from speedtorch import errors

ops = torch.ops.speedtorch


def operands(rows=50, columns=6, shape=(4, 5), dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    table = torch.randint(-9, 9, (rows, columns), generator=generator).to(dtype)
    return table, torch.randint(0, rows, shape, generator=generator)


class Rows(Dataset):
    """Gathers in the worker's process."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return 8

    def __getitem__(self, item):
        return speedtorch.gather_rows(self.table, torch.arange(item, item + 40))


class RowsTest(unittest.TestCase):
    def test_gather_equals_indexing_for_each_dtype_and_index(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
            for index_dtype in (torch.int32, torch.int64):
                table, index = operands(dtype=dtype)
                index = index.to(index_dtype)
                with self.subTest(dtype=dtype, index=index_dtype):
                    self.assertTrue(torch.equal(speedtorch.gather_rows(table, index), table[index.long()]))
                    out = torch.empty(20, 6, dtype=dtype)
                    self.assertIs(speedtorch.gather_rows(table, index, out=out), out)
                    self.assertTrue(torch.equal(out, table[index.long()].view(20, 6)))
                    self.assertTrue(torch.equal(ops.gather_rows(table, index), table[index.long()]))

    def test_gradients_are_those_of_indexing(self):
        table, index = operands(dtype=torch.float64)
        table.requires_grad_()
        weight = torch.arange(120, dtype=torch.float64).view(4, 5, 6)
        expected, = torch.autograd.grad((table[index] * weight).sum(), table)
        for gather in (speedtorch.gather_rows, ops.gather_rows):
            found, = torch.autograd.grad((gather(table, index) * weight).sum(), table)
            self.assertTrue(torch.equal(found, expected))
        self.assertTrue(torch.autograd.gradcheck(lambda t: speedtorch.gather_rows(t, index[0]), [table]))
        self.assertTrue(torch.autograd.gradgradcheck(lambda t: speedtorch.gather_rows(t, index[0]) ** 2, [table]))

    def test_forward_mode_is_that_of_indexing(self):
        table, index = operands(dtype=torch.float64)
        tangent = torch.randn_like(table)
        for gather in (speedtorch.gather_rows, ops.gather_rows):
            rows, moved = torch.func.jvp(lambda t: gather(t, index).sin(), (table,), (tangent,))
            expected = torch.func.jvp(lambda t: t[index].sin(), (table,), (tangent,))
            self.assertTrue(torch.equal(rows, expected[0]))
            self.assertTrue(torch.equal(moved, expected[1]))
            with forward_ad.dual_level():
                dual = gather(forward_ad.make_dual(table, tangent), index)
                self.assertTrue(torch.equal(forward_ad.unpack_dual(dual).tangent, tangent[index]))
        rows = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
        few = torch.tensor([1, 3, 1])
        for function, operand in (
            (lambda t: speedtorch.gather_rows(t, few) ** 2, rows),
            (lambda t: speedtorch.gather_rows(t, few, sparse_grad=True).sin(), rows.detach()),
            (lambda v: ops._accumulate_rows(v, few, 4) ** 2, rows[:3].detach().requires_grad_()),
        ):
            check = dict(check_forward_ad=True, check_backward_ad=operand.requires_grad)
            if not operand.requires_grad:
                operand = operand.clone().requires_grad_()
            self.assertTrue(torch.autograd.gradcheck(function, [operand], **check))

    def test_a_write_that_would_lose_a_tangent_is_refused(self):
        table, index = operands()
        values, out = torch.ones(4, 5, 6), torch.zeros(4, 5, 6)
        states = [torch.zeros_like(table), torch.zeros_like(table)]
        step = ("SparseAdam", [0.1, 0.9, 0.999, 1e-8, 0], 1)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(table, torch.ones_like(table))
            moved = forward_ad.make_dual(values, torch.ones_like(values))
            for name, write in (
                ("the table", lambda: speedtorch.gather_rows(dual, index, out=out)),
                ("out", lambda: ops.gather_rows.out(table, index, out=moved)),
                ("the table", lambda: speedtorch.scatter_rows(dual, index, values)),
                ("values", lambda: speedtorch.scatter_rows(table, index, moved)),
                ("grad", lambda: ops.sparse_step_(table, states, index[0], moved[0], *step)),
            ):
                with self.assertRaisesRegex(errors.AutogradError, f"^{name} has a tangent of forward-mode differentiation"):
                    write()

        def scattered(rows):
            speedtorch.scatter_rows(table, index, rows)
            return table

        with self.assertRaisesRegex(errors.AutogradError, "values has a tangent"):
            torch.func.jvp(scattered, (values,), (values,))
        self.assertTrue(torch.equal(table, operands()[0]))
        self.assertFalse(out.any())

    def test_a_sparse_gradient_is_that_of_a_sparse_embedding(self):
        table, index = operands()
        ours = table.clone().requires_grad_()
        theirs = table.clone().requires_grad_()
        (speedtorch.gather_rows(ours, index, sparse_grad=True) ** 2).sum().backward()
        (torch.nn.functional.embedding(index, theirs, sparse=True) ** 2).sum().backward()
        self.assertTrue(ours.grad.is_sparse)
        self.assertTrue(torch.equal(ours.grad.to_dense(), theirs.grad.to_dense()))

    def test_scatter_defines_duplicates(self):
        table, _ = operands()
        index = torch.tensor([3, 1, 3, 7])
        values = torch.arange(24, dtype=torch.float32).view(4, 6)
        last = table.clone()
        speedtorch.scatter_rows(last, index, values)
        expected = table.clone()
        for row, value in zip(index, values):
            expected[row] = value
        self.assertTrue(torch.equal(last, expected))
        added = table.clone()
        ops.scatter_rows_(added, index, values, "accumulate")
        self.assertTrue(torch.equal(added, table.index_put((index,), values, accumulate=True)))
        untouched = table.clone()
        with self.assertRaisesRegex(errors.DuplicateError, "row 3 is named at positions 0 and 2"):
            speedtorch.scatter_rows(untouched, index, values, "reject")
        self.assertTrue(torch.equal(untouched, table))
        with self.assertRaisesRegex(ValueError, "duplicates is 'first'; choose none, reject, last, accumulate"):
            speedtorch.scatter_rows(untouched, index, values, "first")

    def test_writes_are_seen_by_autograd(self):
        table, index = operands()
        out = torch.empty(4, 5, 6)
        for write, written in (
            (lambda: speedtorch.gather_rows(table, index, out=out), out),
            (lambda: ops.gather_rows.out(table, index, out=out), out),
            (lambda: speedtorch.scatter_rows(table, index, out), table),
            (lambda: ops.scatter_rows_(table, index, out), table),
        ):
            before = written._version
            write()
            self.assertEqual(written._version, before + 1)
        with self.assertRaisesRegex(errors.Error, "requires a gradient"):
            speedtorch.gather_rows(table.requires_grad_(), index, out=out)

    def test_an_index_in_the_destination_is_refused(self):
        # A write would change the index after its check, and the next row go anywhere in memory.
        table = torch.zeros(4, 4, dtype=torch.long)
        table[0, 1] = 1
        before = table.clone()
        values = torch.full((2, 4), 1 << 40)
        for scatter in (speedtorch.scatter_rows, ops.scatter_rows_):
            for duplicates in ("none", "reject", "last", "accumulate"):
                with self.assertRaisesRegex(errors.ShapeError, "the index and the table overlap"):
                    scatter(table, table[0, :2], values, duplicates)
        self.assertTrue(torch.equal(table, before))
        out = torch.zeros(2, 4, dtype=torch.long)
        with self.assertRaisesRegex(errors.ShapeError, "the index and out overlap"):
            speedtorch.gather_rows(table, out[0, :2], out=out)
        states = [torch.zeros(4, 6), torch.zeros(4, 6)]
        with self.assertRaisesRegex(errors.ShapeError, "the state exp_avg and the index overlap"):
            ops.sparse_step_(torch.zeros(4, 6), states, states[0].view(torch.int32)[0, :2], torch.ones(2, 6), "SparseAdam",
                             [0.1, 0.9, 0.999, 1e-8, 0], 1)

    def test_distinct_rows_are_those_of_unique(self):
        _, index = operands()
        rows, positions = speedtorch.distinct_rows(index, 50)
        expected, inverse = torch.unique(index, return_inverse=True)
        self.assertTrue(torch.equal(rows, expected))
        self.assertTrue(torch.equal(positions, inverse))

    def test_errors_are_pythons_own_by_both_ways(self):
        table, _ = operands()
        message = "index 50 at position 1 names no row: the table's rows are 0 to 49"
        for gather in (speedtorch.gather_rows, ops.gather_rows):
            with self.assertRaisesRegex(IndexError, message) as caught:
                gather(table, torch.tensor([3, 50]))
            self.assertIsInstance(caught.exception, errors.IndexError)
            self.assertIsInstance(caught.exception, errors.Error)
            with self.assertRaises(ValueError):
                gather(table, torch.tensor([0.5]))
        for count in (1, 40):  # Python's lock is released for many rows only
            with self.assertRaisesRegex(IndexError, "index 60 at position 0"):
                speedtorch.gather_rows(table, torch.full((count,), 60), out=torch.empty(count, 6))
        with self.assertRaisesRegex(TypeError, "the index is a list; a torch.Tensor is needed"):
            speedtorch.gather_rows(table, [1], out=torch.empty(1, 6))
        with self.assertRaisesRegex(ValueError, "no optimizer is called 'Sgd'"):
            ops.sparse_step_(table, [], torch.tensor([0]), torch.zeros(1, 6), "Sgd", [0.1], 1)

    def test_sparse_step_is_torchs_step_of_those_rows(self):
        table, _ = operands()
        index, grad = torch.tensor([4, 9]), torch.ones(2, 6)
        ours = table.clone()
        means = [torch.zeros_like(table), torch.zeros_like(table)]
        # The values of option_names("SparseAdam").
        ops.sparse_step_(ours, means, index, grad, "SparseAdam", [0.1, 0.9, 0.999, 1e-8, 0], 1)
        theirs = torch.nn.Parameter(table.clone())
        theirs.grad = torch.sparse_coo_tensor(index[None], grad, table.shape)
        torch.optim.SparseAdam([theirs], lr=0.1).step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=1e-6)

    def test_the_operators_pass_opcheck(self):
        table, index = operands(shape=(3, 4))
        flat, values = index.flatten()[:5], torch.ones(5, 6)
        states = [torch.zeros_like(table), torch.zeros_like(table)]
        for op, arguments, named in (
            (ops.gather_rows.default, (table, index), {}),
            (ops.gather_rows.default, (table.clone().requires_grad_(), index), {}),
            (ops.gather_rows.out, (table, index), {"out": torch.empty(3, 4, 6)}),
            (ops.scatter_rows_.default, (table, flat, values, "accumulate"), {}),
            (ops.sparse_step_.default, (table, states, flat, values, "SparseAdam", [0.1, 0.9, 0.999, 1e-8, 0.0], 1), {}),
            (ops.distinct_rows.default, (flat, 50), {}),
            (ops._accumulate_rows.default, (values.clone().requires_grad_(), flat, 50), {}),
        ):
            with self.subTest(op=str(op)):
                passed = torch.library.opcheck(op, arguments, named)
                self.assertEqual(set(passed.values()), {"SUCCESS"})

    def test_a_training_step_compiles_whole_and_with_dynamic_shapes(self):
        table, _ = operands(dtype=torch.float64)
        out = torch.zeros(40, 6, dtype=torch.float64)

        def step(weight, index):
            rows = speedtorch.gather_rows(weight, index)
            loss = (rows.sin() * 2).sum()
            speedtorch.gather_rows(weight.detach(), index, out=out[: index.shape[0]])
            speedtorch.scatter_rows(out, index, rows.detach())
            return loss

        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for count in (3, 8, 17):
            index = torch.arange(count) * 2
            found, expected = table.clone().requires_grad_(), table.clone().requires_grad_()
            compiled(found, index).backward()
            written = out.clone()
            out.zero_()
            step(expected, index).backward()
            self.assertTrue(torch.equal(found.grad, expected.grad))
            self.assertTrue(torch.equal(written, out))
            out.zero_()

    def test_gather_is_exported(self):
        class Look(torch.nn.Module):
            def forward(self, table, index):
                return speedtorch.gather_rows(table, index) * 2

        table, index = operands()
        rows = torch.export.Dim("n", min=2, max=64)
        program = torch.export.export(Look(), (table, index), dynamic_shapes=({}, {0: rows}))
        self.assertIn("speedtorch.gather_rows", str(program.graph))
        more = index.repeat(3, 1)
        self.assertTrue(torch.equal(program.module()(table, more), table[more] * 2))

    def test_workers_of_a_data_loader_gather(self):
        table, _ = operands(rows=60)
        speedtorch.gather_rows(table, torch.arange(60))  # the pool of threads exists before the fork
        for start in ("fork", "spawn"):
            with self.subTest(start):
                loader = DataLoader(Rows(table), batch_size=4, num_workers=2,
                                    multiprocessing_context=multiprocessing.get_context(start))
                found = list(loader)
                for item in range(8):
                    self.assertTrue(torch.equal(found[item // 4][item % 4], table[item : item + 40]))


if __name__ == "__main__":
    unittest.main()
