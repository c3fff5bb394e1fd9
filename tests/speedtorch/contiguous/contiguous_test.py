"""Compares ContiguousOptimizer with Python torch's own optimizers, run here tensor by tensor for 5 and 50 steps, on parameters
of random and of special shapes, and exchanges checkpoints with them.

As in sparse_rows_test.py, each optimizer is compared twice: with the wheel as it is, whose square root misses the nearest
number about once in a hundred, and with the processor's square root in its place, where results must be equal bit for bit."""

import os
import tempfile
import unittest
from pathlib import Path

from sparse_rows_program import Program, Refused
from torch_oracles import CASES, ROOTLESS, nearest_roots, torchs

try:
    import numpy as np
    import torch
except ImportError:
    torch = None

PROGRAM = os.environ["STBENCH_CONTIGUOUS_STEPS"]
SHAPES = [(17, 5), (), (3,), (0, 4), (2, 3, 4, 5), (64,), (1, 65)]


def some_shapes(rng):
    """Special shapes, and random ones of one to four dimensions."""
    return [*SHAPES, *(tuple(int(size) for size in rng.integers(1, 20, dims)) for dims in (1, 2, 3, 4))]


def parameters(rng, dtype, shapes=SHAPES):
    """Transposes every other matrix; images are channels_last."""
    made = [torch.from_numpy(np.asarray(rng.standard_normal(shape))).to(dtype) for shape in shapes]
    return [
        tensor.t() if tensor.dim() == 2 and k % 2 == 0 else tensor.contiguous(memory_format=torch.channels_last)
        if tensor.dim() == 4
        else tensor
        for k, tensor in enumerate(made)
    ]


def gradients(rng, tensors, steps, unused=()):
    """The gradients of each step; None for parameters that are unused in every third step."""
    return [
        [
            None
            if step % 3 == 2 and k in unused
            else torch.from_numpy(np.asarray(rng.standard_normal(tuple(tensor.shape)))).to(tensor.dtype)
            for k, tensor in enumerate(tensors)
        ]
        for step in range(steps)
    ]


class Torch:
    """Steps tensor by tensor; half precision through float32 masters."""

    def __init__(self, name, options, tensors, first_group=0):
        self.params = [torch.nn.Parameter(tensor.clone().to(self.wide(tensor))) for tensor in tensors]
        given = self.params
        if first_group:
            half = options["lr"] / 2
            given = [{"params": given[:first_group]}, {"params": given[first_group:], "lr": half}]
        self.optimizer = getattr(torch.optim, name)(given, foreach=False, **torchs(options))

    @staticmethod
    def wide(tensor):
        return torch.float32 if tensor.element_size() == 2 else tensor.dtype

    def run(self, steps):
        self.largest = [param.detach().abs() for param in self.params]  # of each element so far
        for step in steps:
            for param, grad in zip(self.params, step):
                param.grad = None if grad is None else grad.to(param.dtype)
            self.optimizer.step()
            self.largest = [torch.maximum(most, param.detach().abs()) for most, param in zip(self.largest, self.params)]
        return [param.detach() for param in self.params]


@unittest.skipIf(torch is None, "no Python torch here (scripts/lib/wheels/torch.txt)")
class ContiguousTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.enterContext(Program(PROGRAM))
        self.rng = np.random.default_rng(3)

    def ours(self, name, options, tensors, steps, unused="skip", none=False, load="-", save="-", frozen=None, first_group=0):
        given = {
            "parameters": [tensor.clone() for tensor in tensors],
            "frozen": frozen or [False] * len(tensors),
            "gradients": steps,
            "unused": unused,
            "none": none,
            "first_group": first_group,
        }
        torch.save(given, self.folder / "in")
        words = [f"{key}={float(value)!r}" for key, value in options.items()]
        files = [str(self.folder / "in"), str(self.folder / "out"), str(load), str(save)]
        isa = self.program.ask("steps", name, *words, *files)
        # Without FMA instructions both sides fuse in different places.
        self.fuses = isa in ("avx512", "avx2") and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        return torch.load(self.folder / "out", weights_only=False)

    def same(self, found, oracle, given, what, exact):
        """Compares bit for bit, or within 2 units in the last place per step of the element's largest value. Half precision is
        rounded from masters that differ by less than its unit, so to the same number or to a neighbour."""
        for mine, other, largest in zip(found, oracle.run(given), oracle.largest):
            if exact and self.fuses:
                self.assertTrue(torch.equal(mine, other.to(mine.dtype)), what)
                continue
            half = mine.element_size() == 2
            unit = np.spacing(largest.float().numpy())
            if half:
                unit = unit * (torch.finfo(mine.dtype).eps / torch.finfo(torch.float32).eps)
            worst = (mine.double() - other.to(mine.dtype).double()).abs().numpy() / unit
            self.assertLessEqual(np.max(worst, initial=0), 1 if half else 2 * len(given), what)

    def follows(self, name, options, steps, dtype=torch.float32, **how):
        start = parameters(self.rng, dtype, some_shapes(self.rng))
        given = gradients(self.rng, start, steps, how.pop("absent", ()))
        found = self.ours(name, options, start, given, **how)
        with self.subTest(name, steps=steps, **options):
            # If roots differ, or one side fuses and the other does not, momentum accumulates the differences (RMSprop: 13
            # units after 5 steps in one of some thousand elements of random shapes, 25 after 9). Random shapes are compared
            # bit for bit only.
            special = found if name in ROOTLESS else found[: len(SHAPES)]
            if dtype == torch.float32:
                self.same(special, Torch(name, options, start), given, f"{name} {options}", name in ROOTLESS)
            with nearest_roots():
                random_too = found if self.fuses else special
                self.same(random_too, Torch(name, options, start), given, f"{name} {options}, nearest roots", True)

    def test_every_optimizer_steps_as_torchs_5_and_50_times(self):
        for name, options in CASES:
            for steps in (5, 50):
                self.follows(name, options, steps)

    def test_every_optimizer_steps_as_torchs_in_float64(self):
        for name, options in CASES:
            self.follows(name, options, 5, torch.float64)

    def test_every_optimizer_steps_half_precision_by_float32_masters(self):
        for dtype in (torch.bfloat16, torch.float16):
            for name, options in CASES:
                self.follows(name, options, 6, dtype)

    def test_gradients_set_to_none_and_unused_parameters_step_as_in_torch(self):
        for name, options in CASES[::3]:
            self.follows(name, options, 9, none=True, absent=(1, 4))
            self.follows(name, options, 9, none=False, absent=(0, 5))

    def test_frozen_parameters_do_not_move(self):
        start = parameters(self.rng, torch.float32)
        given = gradients(self.rng, start, 4, ())
        frozen = [k in (2, 4) for k in range(len(start))]
        for step in given:
            step[2] = step[4] = None
        found = self.ours("AdamW", {"lr": 0.1}, start, given, frozen=frozen)
        self.assertTrue(torch.equal(found[2], start[2]) and torch.equal(found[4], start[4]))
        self.same(found, Torch("AdamW", {"lr": 0.1}, start), given, "AdamW", False)

    def test_torch_resumes_from_our_checkpoint(self):
        for name, options in CASES:
            with self.subTest(name, **options), nearest_roots():
                start = parameters(self.rng, torch.float32)
                given = gradients(self.rng, start, 6)
                half = self.ours(name, options, start, given[:3], save=self.folder / "state")
                theirs = Torch(name, options, half)
                theirs.optimizer.load_state_dict(torch.load(self.folder / "state"))  # weights_only, torch's default
                self.same(theirs.run(given[3:]), Torch(name, options, start), given, name, True)

    def test_our_optimizer_resumes_from_torchs_checkpoint(self):
        for name, options in CASES:
            with self.subTest(name, **options), nearest_roots():
                start = parameters(self.rng, torch.float32)
                given = gradients(self.rng, start, 6)
                theirs = Torch(name, options, start)
                half = [tensor.clone() for tensor in theirs.run(given[:3])]
                torch.save(theirs.optimizer.state_dict(), self.folder / "state")
                # The options of the file replace these.
                kind = {key: value for key, value in options.items() if key in ("amsgrad", "momentum", "centered")}
                found = self.ours(name, kind, half, given[3:], load=self.folder / "state")
                self.same(found, theirs, given[3:], name, True)

    def test_checkpoints_of_groups_with_a_frozen_parameter_go_both_ways(self):
        for name in ("AdamW", "SGD"):
            options = {"lr": 0.1} if name == "AdamW" else {"lr": 0.1, "momentum": 0.9}
            start = parameters(self.rng, torch.float32)
            frozen = [k == 1 for k in range(len(start))]
            given = gradients(self.rng, start, 6)
            for step in given:
                step[1] = None
            with self.subTest(name), nearest_roots():
                whole = Torch(name, options, start, first_group=3)
                half = self.ours(name, options, start, given[:3], save=self.folder / "state", frozen=frozen, first_group=3)
                theirs = Torch(name, options, half, first_group=3)
                theirs.optimizer.load_state_dict(torch.load(self.folder / "state"))
                self.same(theirs.run(given[3:]), whole, given, name, True)
                begun = Torch(name, options, start, first_group=3)
                half = [tensor.clone() for tensor in begun.run(given[:3])]
                torch.save(begun.optimizer.state_dict(), self.folder / "state")
                others = {key: value for key, value in options.items() if key != "lr"} | {"lr": 7.0}
                found = self.ours(name, others, half, given[3:], load=self.folder / "state", frozen=frozen, first_group=3)
                self.same(found, begun, given[3:], name, True)

    def test_a_checkpoint_that_does_not_fit_is_refused(self):
        start = parameters(self.rng, torch.float32)
        given = gradients(self.rng, start, 1)
        self.ours("Adam", {}, start, given, save=self.folder / "state")
        with self.assertRaisesRegex(Refused, "has 7 parameters in the file and 3 here"):
            self.ours("Adam", {}, start[:3], [step[:3] for step in given], load=self.folder / "state")
        with self.assertRaisesRegex(Refused, "the state exp_inf of parameter 0 is missing"):
            self.ours("Adamax", {}, start, given, load=self.folder / "state")
        with self.assertRaisesRegex(Refused, "the state exp_avg of parameter 0 is Float .5, 17., the parameter"):
            self.ours("Adam", {}, [tensor.t() if k == 0 else tensor for k, tensor in enumerate(start)], [], load=self.folder / "state")
        (self.folder / "state").write_bytes(b"not a zip file")
        with self.assertRaisesRegex(Refused, "'state' is no whole file that torch.save"):
            self.ours("Adam", {}, start, given, load=self.folder / "state")
        for other in ([1, 2], {}, {"state": {}}, {"param_groups": []}, {"state": {}, "param_groups": [{"lr": 1.0}]}):
            torch.save(other, self.folder / "state")
            with self.subTest(other), self.assertRaisesRegex(Refused, "'state' holds no state_dict|0 parameter groups"):
                self.ours("Adam", {}, start, given, load=self.folder / "state")

    def test_adam_and_adamw_are_distinguished(self):
        start = parameters(self.rng, torch.float32)
        given = gradients(self.rng, start, 1)
        for name, other in (("Adam", "AdamW"), ("AdamW", "Adam")):
            self.ours(name, {}, start, given, save=self.folder / "ours")
            theirs = Torch(name, {}, start)
            theirs.run(given)
            torch.save(theirs.optimizer.state_dict(), self.folder / "theirs")
            for file in ("ours", "theirs"):
                with self.assertRaisesRegex(Refused, f"the file is of {name}, the optimizer is {other}; give it {name}Options"):
                    self.ours(other, {}, start, given, load=self.folder / file)
                self.ours(name, {}, start, given, load=self.folder / file)


if __name__ == "__main__":
    unittest.main()
