"""speedtorch.optim against torch.optim, which runs beside it on equal parameters and gradients."""

import copy
import io
import pickle
import unittest

import torch

import speedtorch
from speedtorch import errors, optim

# Each optimizer, and each switch that changes its states.
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.4, 0.99), "weight_decay": 0.02, "amsgrad": True}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"weight_decay": 0.05, "amsgrad": True}),
    ("SparseAdam", {"lr": 0.02}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.01}),
    ("Adadelta", {"lr": 0.5}),
    ("Adamax", {"betas": (0.3, 0.99), "weight_decay": 0.01}),
    ("ASGD", {"lambd": 0.01, "t0": 2, "weight_decay": 0.01}),
    ("Rprop", {"etas": (0.4, 1.5), "step_sizes": (1e-6, 0.02)}),
]
SHAPES = [(9, 7), (33,), (2, 3, 5), ()]
NAMES = {name for name, _ in CASES}


def parameters(shapes=SHAPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes]


def groups(params):
    return [{"params": params[:2]}, {"params": params[2:], "lr": 0.004}]


class Twins:
    """Ours and torch's optimizer of the same parameters."""

    def __init__(self, name, options, dtype=torch.float32, contiguous=False, shapes=SHAPES):
        self.ours, self.theirs = parameters(shapes, dtype), parameters(shapes, dtype)
        self.our = getattr(optim, name)(groups(self.ours), contiguous=contiguous, **options)
        loops = {} if name == "SparseAdam" else {"foreach": False}
        self.their = getattr(torch.optim, name)(groups(self.theirs), **loops, **options)
        self.name = name
        self.generator = torch.Generator().manual_seed(11)

    def gradients(self, unused=None, sparse=False):
        for number, (our, their) in enumerate(zip(self.ours, self.theirs)):
            grad = torch.randn(our.shape, generator=self.generator, dtype=our.dtype)
            if number == unused:
                our.grad = their.grad = None
            elif sparse or self.name == "SparseAdam" and our.dim():
                rows = torch.randperm(our.shape[0], generator=self.generator)[: our.shape[0] // 2 + 1]
                our.grad, their.grad = (torch.sparse_coo_tensor(rows[None], grad[rows].clone(), our.shape) for _ in range(2))
            elif self.name == "SparseAdam":
                our.grad = their.grad = None
            else:
                our.grad, their.grad = grad.clone(), grad.clone()

    def step(self, unused=None):
        self.gradients(unused)
        self.our.step()
        self.their.step()


class OptimTest(unittest.TestCase):
    def same(self, twins, tolerance=1e-6):
        for our, their in zip(twins.ours, twins.theirs):
            torch.testing.assert_close(our.detach(), their.detach(), rtol=tolerance, atol=tolerance)

    def same_states(self, ours, theirs, tolerance=1e-6):
        self.assertEqual(ours["state"].keys(), theirs["state"].keys())
        for number, their in theirs["state"].items():
            our = ours["state"][number]
            self.assertEqual({name for name, value in our.items() if value is not None},
                             {name for name, value in their.items() if value is not None})
            for name, value in their.items():
                if isinstance(value, torch.Tensor):
                    self.assertEqual((our[name].dtype, our[name].shape), (value.dtype, value.shape), name)
                    torch.testing.assert_close(our[name], value, rtol=tolerance, atol=tolerance, msg=name)
                else:
                    self.assertEqual(our[name], value)

    def kinds(self, contiguous=(False, True)):
        for name, options in CASES:
            for flat in contiguous:
                if not (flat and name == "SparseAdam"):
                    yield name, options, flat

    def test_all_ten_are_here_and_torchs(self):
        self.assertEqual(set(optim.__all__), NAMES)
        for name in NAMES:
            self.assertTrue(issubclass(getattr(optim, name), getattr(torch.optim, name)))

    def test_steps_as_torch_does(self):
        for dtype in (torch.float32, torch.float64):
            for name, options, flat in self.kinds():
                with self.subTest(name, **options, contiguous=flat, dtype=dtype):
                    twins = Twins(name, options, dtype, flat)
                    for number in range(8):
                        twins.step(unused=1 if number % 3 == 0 else None)
                    self.same(twins)
                    self.same_states(twins.our.state_dict(), twins.their.state_dict())

    def test_a_sparse_gradient_steps_its_rows_and_no_others(self):
        for name, options, _ in self.kinds((False,)):
            with self.subTest(name, **options):
                table = torch.nn.Parameter(torch.randn(50, 3))
                start = table.detach().clone()
                optimizer = getattr(optim, name)([table], **options)
                dense = torch.nn.Parameter(start[[4, 9]].clone())
                loops = {} if name == "SparseAdam" else {"foreach": False}
                theirs = getattr(torch.optim, name)([dense], **loops, **options)
                for step in range(3):
                    # Row 9 twice: its gradients are summed first.
                    values = torch.randn(3, 3)
                    table.grad = torch.sparse_coo_tensor(torch.tensor([[4, 9, 9]]), values, table.shape)
                    summed = torch.stack([values[0], values[1] + values[2]])
                    dense.grad = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), summed, (2, 3)) if name == "SparseAdam" else summed
                    optimizer.step()
                    theirs.step()
                others = torch.ones(50, dtype=torch.bool)
                others[[4, 9]] = False
                self.assertTrue(torch.equal(table.detach()[others], start[others]))
                torch.testing.assert_close(table.detach()[[4, 9]], dense.detach(), rtol=1e-6, atol=1e-6)

    def test_state_dicts_go_both_ways(self):
        for name, options, flat in self.kinds():
            with self.subTest(name, **options, contiguous=flat):
                first, second = Twins(name, options, contiguous=flat), Twins(name, options, contiguous=flat)
                for _ in range(4):
                    first.step()
                # Ours goes on with torch's states, and torch's with ours, in the other's parameters.
                for target, source in ((second.ours, first.theirs), (second.theirs, first.ours)):
                    for to, value in zip(target, source):
                        to.data.copy_(value.data)
                second.our.load_state_dict(self.through_a_file(first.their.state_dict()))
                second.their.load_state_dict(self.through_a_file(first.our.state_dict()))
                second.generator.set_state(first.generator.get_state())
                for _ in range(4):
                    first.step()
                    second.step()
                self.same(second, 2e-6)
                for one, other in zip(first.theirs, second.ours):
                    torch.testing.assert_close(one.detach(), other.detach(), rtol=2e-6, atol=2e-6)

    @staticmethod
    def through_a_file(state_dict):
        file = io.BytesIO()
        torch.save(state_dict, file)
        file.seek(0)
        return torch.load(file)

    def test_schedulers_set_the_rate(self):
        for name, options, flat in self.kinds():
            if name == "Rprop":
                continue  # its rate is of the first step alone
            with self.subTest(name, **options, contiguous=flat):
                twins = Twins(name, options, contiguous=flat)
                schedules = [torch.optim.lr_scheduler.ExponentialLR(one, 0.7) for one in (twins.our, twins.their)]
                for _ in range(6):
                    twins.step()
                    for schedule in schedules:
                        schedule.step()
                self.same(twins, 2e-6)

    def test_a_closure_is_called_with_gradients_on(self):
        for flat in (False, True):
            weight = torch.nn.Parameter(torch.ones(3))
            optimizer = optim.SGD([weight], lr=0.5, contiguous=flat)

            def closure():
                optimizer.zero_grad()
                loss = (weight**2).sum()
                loss.backward()
                return loss

            self.assertEqual(float(optimizer.step(closure)), 3)
            self.assertTrue(torch.equal(weight.detach(), torch.zeros(3)))

    def test_a_grad_scaler_unscales_and_skips(self):
        for flat in (False, True):
            weight = torch.nn.Parameter(torch.ones(3))
            optimizer = optim.SGD([weight], lr=0.25, contiguous=flat)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for factor in (1.0, float("inf"), 1.0):
                optimizer.zero_grad()
                scaler.scale((weight * factor).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
            self.assertTrue(torch.equal(weight.detach(), torch.full((3,), 0.5)))
            self.assertEqual(scaler.get_scale(), 512)

    def test_clips_and_zeroes_in_the_step(self):
        for flat in (False, True):
            for limit in (0.5, 100.0):
                twins = Twins("Adam", {}, contiguous=flat)
                twins.gradients()
                torch.nn.utils.clip_grad_norm_(twins.theirs, limit)
                twins.our.step(max_norm=limit, zero_grad=True)
                twins.their.step()
                self.same(twins)
                for parameter in twins.ours:
                    self.assertTrue(parameter.grad is None or not parameter.grad.any())

    def test_zero_grad_leaves_unused_parameters_alone(self):
        for to_none in (True, False):
            used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
            optimizer = optim.AdamW([used, unused], contiguous=True)
            optimizer.zero_grad(set_to_none=to_none)
            used.sum().backward()
            optimizer.step()
            self.assertTrue(torch.equal(unused.detach(), torch.ones(2)))
            self.assertFalse(torch.equal(used.detach(), torch.ones(2)))

    def test_half_precision_keeps_masters(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(dtype):
                half, full = parameters([(200,)], dtype), parameters([(200,)])
                full[0].data.copy_(half[0].data)
                our, their = optim.Adam(half, contiguous=True), torch.optim.Adam(full)
                for number in range(40):
                    if number == 20:  # goes on from its state dict without a loss
                        saved = self.through_a_file(our.state_dict())
                        half = [torch.nn.Parameter(half[0].detach().clone())]
                        our = optim.Adam(half, contiguous=True)
                        our.load_state_dict(saved)
                    grad = torch.randn(200, dtype=dtype)
                    half[0].grad, full[0].grad = grad, grad.float()
                    our.step()
                    their.step()
                self.assertTrue(torch.equal(half[0].detach(), full[0].detach().to(dtype)))
                with self.assertRaisesRegex(ValueError, "contiguous=True"):
                    optimizer = optim.Adam(half)
                    half[0].grad = torch.zeros(200, dtype=dtype)
                    optimizer.step()

    def test_copies_and_pickles_go_on(self):
        for flat in (False, True):
            for copied in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
                model = torch.nn.Linear(4, 3)
                optimizer = optim.Adam(model.parameters(), lr=0.1, contiguous=flat)

                def train(model, optimizer):
                    optimizer.zero_grad()
                    model(torch.ones(2, 4)).square().sum().backward()
                    optimizer.step()

                train(model, optimizer)
                other, its = copied((model, optimizer))
                for pair in ((model, optimizer), (other, its)):
                    train(*pair)
                    train(*pair)
                self.assertTrue(torch.equal(model.weight, other.weight))

    def test_groups_are_added_and_moved_parameters_found(self):
        first, second = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
        optimizer = optim.Adam([first], lr=0.1, contiguous=True)
        first.grad = torch.ones(3)
        optimizer.step()
        optimizer.add_param_group({"params": [second], "lr": 0.2})
        first.grad, second.grad = torch.ones(3), torch.ones(3)
        optimizer.step()
        torch.testing.assert_close(first.detach(), torch.full((3,), 0.8))
        torch.testing.assert_close(second.detach(), torch.full((3,), 0.8))
        first.data = first.data.clone()
        with self.assertRaisesRegex(BufferError, "rebuild"):
            optimizer.step()
        optimizer.rebuild()
        optimizer.step()

    def test_asgd_keeps_the_step_size_of_the_step_before(self):
        for flat in (False, True):
            with self.subTest(contiguous=flat):
                twins = Twins("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 2}, contiguous=flat)
                for number in range(9):
                    twins.step(unused=(None, 1, 1, 3)[number % 4])
                    for optimizer in (twins.our, twins.their):
                        for group in optimizer.param_groups:
                            group["lr"] *= 0.6
                    if number == 4:  # the loaded step sizes are not those of the loaded rates
                        twins.our.load_state_dict(self.through_a_file(twins.their.state_dict()))
                        twins.their.load_state_dict(self.through_a_file(twins.their.state_dict()))
                    self.same(twins)
                    self.same_states(twins.our.state_dict(), twins.their.state_dict())

    def test_a_refused_step_changes_nothing(self):
        def fresh(**more):
            params = [torch.nn.Parameter(one) for one in (torch.ones(4, 2), torch.ones(4, 2), torch.ones(2).half())]
            groups = [{"params": params[:2]}, {"params": params[2:]}]
            return params, optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.5, **more)

        def refused(params, optimizer, error, **options):
            before = [one.detach().clone() for one in params]
            gradients = [None if one.grad is None else one.grad.to_dense().clone() for one in params if one.dtype != torch.half]
            for _ in range(2):
                with self.assertRaises(error):
                    optimizer.step(**options)
            self.assertTrue(all(map(torch.equal, before, params)))
            self.assertFalse(optimizer.state_dict()["state"])
            for one, was in zip(params, gradients):
                self.assertTrue(was is None or torch.equal(one.grad.to_dense(), was))

        for sparse in (False, True):
            for options in ({}, {"max_norm": 0.5}):
                params, optimizer = fresh()
                for one in params:
                    one.grad = torch.ones_like(one)
                if sparse:
                    params[0].grad = torch.sparse_coo_tensor([[1, 1]], torch.ones(2, 2), (4, 2), check_invariants=True)
                refused(params, optimizer, errors.ShapeError, **options)
                # Goes on as if no step had been tried.
                params[2].grad = None
                optimizer.step()
                if not sparse:
                    torch.testing.assert_close(params[0].detach(), torch.full((4, 2), 0.9))
                    torch.testing.assert_close(optimizer.state[params[0]]["momentum_buffer"], torch.ones(4, 2))
        params, optimizer = fresh()
        params[0].grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (4, 2), check_invariants=True)
        params[1].grad = torch.sparse_coo_tensor([[7]], torch.ones(1, 2), (4, 2), check_invariants=False)
        refused(params[:1], optimizer, IndexError)
        params[1].grad = torch.ones(4, 2)
        refused(params, optimizer, errors.OptionError, max_norm=-1.0)
        params, optimizer = fresh(contiguous=True)
        params[0].grad = torch.ones(4, 2)
        with self.assertRaises(errors.OptionError):
            optimizer.step(max_norm=-1.0)
        self.assertTrue(torch.equal(params[0].detach(), torch.ones(4, 2)))

    def test_clips_sparse_gradients(self):
        for limit in (0.5, 100.0):
            table, dense = torch.nn.Parameter(torch.ones(5, 2)), torch.nn.Parameter(torch.ones(3))
            references = [torch.nn.Parameter(one.detach().clone()) for one in (table, dense)]
            values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
            table.grad = torch.sparse_coo_tensor([[4, 1, 4]], values, (5, 2), check_invariants=True)
            dense.grad = torch.tensor([1.0, -2.0, 3.0])
            references[0].grad, references[1].grad = table.grad.to_dense(), dense.grad.clone()
            torch.nn.utils.clip_grad_norm_(references, limit)
            torch.optim.SGD(references, lr=0.1).step()
            optim.SGD([table, dense], lr=0.1).step(max_norm=limit)
            torch.testing.assert_close(table.detach(), references[0].detach())
            torch.testing.assert_close(dense.detach(), references[1].detach())
            torch.testing.assert_close(table.grad.to_dense(), references[0].grad)

    def test_a_state_dict_of_other_states_loads(self):
        kinds = [("Adam", {"amsgrad": True}), ("RMSprop", {"momentum": 0.9, "centered": True}), ("SGD", {"momentum": 0.9})]
        for name, options in kinds:
            for flat in (False, True):
                for to, of in ((options, {}), ({}, options)):
                    with self.subTest(name, contiguous=flat, options=of):
                        twins = Twins(name, {"lr": 0.01, **of})
                        for _ in range(2):
                            twins.step()
                        ours = [torch.nn.Parameter(one.detach().clone()) for one in twins.theirs]
                        our = getattr(optim, name)(groups(ours), contiguous=flat, lr=0.01, **to)
                        for one in ours:  # so that it has states of its own already
                            one.grad = torch.zeros_like(one)
                        our.step()
                        for one, value in zip(ours, twins.theirs):
                            one.data.copy_(value.data)
                        our.load_state_dict(self.through_a_file(twins.their.state_dict()))
                        twins.ours, twins.our = ours, our
                        our.zero_grad()
                        for number in range(3):
                            twins.step(unused=1 if number == 0 else None)
                        self.same(twins)
                        self.same_states(our.state_dict(), twins.their.state_dict())

    def test_contiguous_groups_may_change(self):
        twins = Twins("SGD", {"lr": 0.1}, contiguous=True)
        twins.step()
        for optimizer in (twins.our, twins.their):
            for group in optimizer.param_groups:
                group["momentum"] = 0.9
        for _ in range(2):
            twins.step()
        self.same(twins)
        for optimizer in (twins.our, twins.their):
            optimizer.param_groups.pop()
        for _ in range(2):
            twins.step(unused=0)
        self.same(twins)
        used, unused, added = (torch.nn.Parameter(torch.ones(3)) for _ in range(3))
        optimizer = optim.AdamW([used, unused], contiguous=True)
        optimizer.zero_grad()
        used.sum().backward()
        optimizer.add_param_group({"params": [added]})  # an unused gradient stays unused in the next buffer
        optimizer.step()
        self.assertLess(float(used.detach().max()), 1)
        self.assertTrue(torch.equal(unused.detach(), torch.ones(3)))
        with self.assertRaisesRegex(errors.OptionError, "group 1 has other states"):
            optim.Adam([{"params": twins.ours[:1]}, {"params": twins.ours[1:], "amsgrad": True}], contiguous=True)

    def test_takes_gradients_that_were_written_past_their_versions(self):
        for write in (lambda grad: grad.data.fill_(1.0), lambda grad: grad.detach().numpy().fill(1.0)):
            written, unused = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
            optimizer = optim.AdamW([written, unused], lr=0.1, contiguous=True)
            optimizer.zero_grad()
            write(written.grad)
            optimizer.step()
            self.assertLess(float(written.detach().max()), 0.95)
            self.assertTrue(torch.equal(unused.detach(), torch.ones(3)))

    def test_a_sparse_momentum_of_torchs_is_named(self):
        table = torch.nn.Parameter(torch.ones(6, 2))
        theirs = torch.optim.SGD([table], lr=0.1, momentum=0.9)
        table.grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (6, 2), check_invariants=True)
        theirs.step()
        saved = theirs.state_dict()
        ours = optim.SGD([table], lr=0.1, momentum=0.9)
        ours.load_state_dict(saved)
        for grad in (table.grad, table.grad.to_dense()):
            table.grad = grad
            with self.assertRaisesRegex(errors.ShapeError, r"momentum_buffer is a sparse tensor.*to_dense\(\)"):
                ours.step()
        saved["state"][0]["momentum_buffer"] = saved["state"][0]["momentum_buffer"].to_dense()
        ours.load_state_dict(saved)
        ours.step()

    def test_groups_have_no_options_of_the_whole(self):
        weight = torch.nn.Parameter(torch.ones(3))
        for option in ("fused", "foreach", "capturable", "differentiable", "contiguous"):
            with self.assertRaisesRegex(errors.OptionError, option):
                optim.Adam([{"params": [weight], option: True}])
        with self.assertRaisesRegex(errors.OptionError, "fused"):
            optim.Adam([torch.nn.Parameter(torch.ones(3))]).add_param_group({"params": [weight], "fused": True})

    def test_refuses_what_it_does_not_do(self):
        weight = torch.nn.Parameter(torch.ones(3))
        with self.assertRaisesRegex(ValueError, "fused=True chooses another loop"):
            optim.Adam([weight], fused=True)
        with self.assertRaises(ValueError):
            optim.Adam([weight], lr=-1)
        with self.assertRaises(errors.OptionError):
            optim.SparseAdam([weight], contiguous=True)
        table = torch.nn.Parameter(torch.ones(3, 2))
        optimizer = optim.SGD([table], lr=0.1)
        table.grad = torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (3, 2))
        with self.assertRaisesRegex(ValueError, "sparse in its first dimension"):
            optimizer.step()
        self.assertTrue(torch.equal(table.detach(), torch.ones(3, 2)))


class ContiguousParamsTest(unittest.TestCase):
    def test_any_optimizer_steps_the_buffer(self):
        ours, theirs = parameters(), parameters()
        flat = speedtorch.ContiguousParams(ours)
        self.assertEqual([id(one) for one in flat.original()], [id(one) for one in ours])
        self.assertEqual(len(flat.contiguous()), 1)
        optimizer, reference = torch.optim.Adam(flat.contiguous(), lr=0.1), torch.optim.Adam(theirs, lr=0.1)
        for _ in range(4):
            for params in (ours, theirs):
                for one in params:
                    one.grad = None
                sum((one * (one + 1)).sum() for one in params).backward()
            flat.prepare_step()
            optimizer.step()
            reference.step()
        for our, their in zip(ours, theirs):
            torch.testing.assert_close(our.detach(), their.detach())
        self.assertTrue(flat.buffer_is_valid())
        ours[0].data = ours[0].data.clone()
        self.assertFalse(flat.buffer_is_valid())
        with self.assertRaises(BufferError):
            flat.assert_buffer_is_valid()
        flat.make_params_contiguous()
        flat.assert_buffer_is_valid()


if __name__ == "__main__":
    unittest.main()
