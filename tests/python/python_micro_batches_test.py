"""speedtorch.MicroBatches: gradients and steps equal those of the whole batch, whatever the sizes and whenever memory runs out."""

import contextlib
import copy
import errno
import functools
import itertools
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import speedtorch
import torch
from speedtorch import micro_batches as mb
from speedtorch._micro_batch_parts import GradientSum, MicroBatchSize, SpeedTrials, is_out_of_memory
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SIZES = (1, 3, 4, 7, 16, 100)  # of micro-batches; the batch has 17 samples
SAMPLES = 17


def mlp(*, dropout=0.0, norm=None, dtype=torch.float64):
    torch.manual_seed(3)
    layers = [nn.Linear(6, 10), *([norm()] if norm else []), nn.Tanh(), nn.Dropout(dropout), nn.Linear(10, 4)]
    return nn.Sequential(*layers).to(dtype)


def data(samples=SAMPLES, dtype=torch.float64, classes=4):
    generator = torch.Generator().manual_seed(5)
    return (
        torch.randn(samples, 6, generator=generator, dtype=torch.float64).to(dtype),
        torch.randint(0, classes, (samples,), generator=generator),
    )


def gradients(model):
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def plain(model, criterion, inputs, targets):
    """Loss and gradients as everyone computes them."""
    model.zero_grad()
    loss = criterion(model(inputs), targets)
    loss.backward()
    found = gradients(model)
    model.zero_grad()
    return loss.item(), found


def distance(found, exact):
    """The largest difference of any gradient. NaN if one is: Python's max() may skip it."""
    return torch.stack([(found[name] - gradient).abs().max() for name, gradient in exact.items()]).max().item()


def info_nce(outputs, _targets=None):
    """A contrastive loss: each sample against all others."""
    return F.cross_entropy(outputs @ outputs.T, torch.arange(len(outputs)))


class Case(unittest.TestCase):
    def setUp(self):
        """A clock by which each micro-batch takes a second, so that no result depends on the machine's speed."""
        clock = mock.patch.object(MicroBatchSize, "clock", staticmethod(itertools.count(1).__next__))
        clock.start()
        self.addCleanup(clock.stop)

    def assert_gradients(self, found, expected, within=1e-12):
        self.assertEqual(found.keys(), expected.keys())
        for name, gradient in expected.items():
            if gradient is None:
                self.assertIsNone(found[name], name)
                continue
            difference = (found[name].to_dense() - gradient.to_dense()).abs().max().item()
            self.assertLessEqual(difference, within * max(1, gradient.to_dense().abs().max().item()), name)

    def assert_same_state(self, a, b):
        for name, value in a.state_dict().items():
            self.assertTrue(torch.equal(value, b.state_dict()[name]), name)

    def compare(self, model, criterion, inputs, targets, within=1e-12, **options):
        expected_loss, expected = plain(copy.deepcopy(model), criterion, inputs, targets)
        for size in SIZES:
            with self.subTest(micro_batch=size):
                ours = copy.deepcopy(model)
                micro = mb.MicroBatches(ours, criterion=criterion, micro_batch=size, **options)
                result = micro.backward(inputs, targets)
                self.assertAlmostEqual(result.loss, expected_loss, delta=1e-12)
                self.assert_gradients(gradients(ours), expected, within)
                self.assertLessEqual(result.largest_micro_batch, max(size, 2))
                self.assertGreaterEqual(result.micro_batches, math.ceil(SAMPLES / max(size, 2)))


class Gradients(Case):
    def test_means_and_sums_equal_the_batch(self):
        for criterion in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"), F.cross_entropy):
            self.compare(mlp(), criterion, *data())
        inputs, targets = data()
        self.compare(mlp(), nn.MSELoss(), inputs, torch.randn(SAMPLES, 4, dtype=torch.float64))
        self.compare(mlp(), nn.KLDivLoss(reduction="batchmean"), inputs, torch.rand(SAMPLES, 4, dtype=torch.float64))

    def test_class_weights_and_ignored_targets(self):
        inputs, targets = data()
        targets[::3] = 2
        weight = torch.tensor([0.1, 2.0, 0.7, 5.0], dtype=torch.float64)
        self.compare(mlp(), nn.CrossEntropyLoss(weight, ignore_index=2), inputs, targets)
        self.compare(mlp(), nn.CrossEntropyLoss(weight, label_smoothing=0.1), inputs, targets)
        self.compare(mlp(), functools.partial(F.cross_entropy, weight=weight, ignore_index=2), inputs, targets)
        self.compare(nn.Sequential(mlp(), nn.LogSoftmax(1)), nn.NLLLoss(weight), inputs, targets)
        targets[5:9] = -100  # whole micro-batches of 1 and 3 without a target that counts
        self.compare(mlp(), F.cross_entropy, inputs, targets)
        own = lambda outputs, targets: ((outputs[:, 0] - 1).square() * (targets != 2)).sum() / (targets != 2).sum()  # noqa: E731
        self.compare(mlp(), own, inputs, targets, divisor=lambda targets: (targets != 2).sum())

    def test_micro_batches_without_any_target(self):
        inputs, targets = data()
        targets[:12] = -100  # the first two micro-batches of each size but 16, and 100
        self.compare(mlp(), nn.CrossEntropyLoss(), inputs, targets)
        for size in (4, 100):
            ours, targets = mlp(), torch.full((SAMPLES,), -100)
            loss = mb.MicroBatches(ours, criterion=nn.CrossEntropyLoss(), micro_batch=size).backward(inputs, targets).loss
            expected_loss, expected = plain(mlp(), nn.CrossEntropyLoss(), inputs, targets)
            self.assertTrue(math.isnan(loss) and math.isnan(expected_loss))
            self.assert_gradients(gradients(ours), expected)  # zeros

    def test_classes_per_pixel(self):
        torch.manual_seed(1)
        model = nn.Conv2d(2, 3, 3).double()
        targets = torch.randint(0, 3, (SAMPLES, 4, 4))
        targets[:, :2, torch.rand(4) > 0.5] = -100
        targets[3] = -100
        self.compare(model, nn.CrossEntropyLoss(), torch.randn(SAMPLES, 2, 6, 6).double(), targets)

    def test_one_weight_per_sample(self):
        inputs, _ = data()
        targets = torch.rand(SAMPLES, 4, dtype=torch.float64)
        for weight in (torch.rand(SAMPLES, 1, dtype=torch.float64), torch.rand(4, dtype=torch.float64)):
            self.compare(mlp(), nn.BCEWithLogitsLoss(weight), inputs, targets)

    def test_coupled_loss_takes_two_passes(self):
        inputs, _ = data()
        self.compare(mlp(), info_nce, inputs, None, reduction="coupled")
        self.compare(mlp(), info_nce, *data(), reduction="coupled")

    def test_loss_of_ones_own(self):
        inputs, targets = data()
        expected_loss, expected = plain(mlp(), info_nce, inputs, targets)
        for size in SIZES:
            ours = mlp()
            micro = mb.MicroBatches(ours, micro_batch=size)
            loss = info_nce(micro.batch_(inputs))
            loss.backward()
            self.assertAlmostEqual(loss.item(), expected_loss, delta=1e-12)
            self.assert_gradients(gradients(ours), expected)
            with torch.no_grad():
                self.assertFalse(micro.batch_(inputs).requires_grad)

    def test_change_between_outputs_and_backward(self):
        """What the second pass needs has changed: refused by name. Another mode is none: the second pass has the first one's."""
        for change, text in (
            (lambda model, inputs: inputs.zero_(), "an input was changed"),
            (lambda model, inputs: model[0].weight.data.add_(1), "nothing that torch counts"),
            (lambda model, inputs: model[4].bias.add_(1), "parameter 4.bias was changed"),
            (lambda model, inputs: setattr(model[4].bias, "data", torch.ones(4).double()), "parameter 4.bias was changed"),
            (lambda model, inputs: model[1].running_mean.add_(1), "buffer 1.running_mean was changed"),
        ):
            model, inputs = mlp(norm=lambda: nn.BatchNorm1d(10).eval()), data()[0].clone()
            outputs = mb.MicroBatches(model, micro_batch=4).batch_(inputs)
            with torch.no_grad():
                change(model, inputs)
            with self.subTest(text=text):
                if "nothing" in text:  # as torch itself
                    outputs.sum().backward()
                    continue
                with self.assertRaisesRegex(mb.InfinityBatchError, text):
                    outputs.sum().backward()
                self.assertTrue(all(p.grad is None for p in model.parameters()))
        for optimizer in (torch.optim.SGD, speedtorch.optim.SGD, functools.partial(speedtorch.optim.SGD, contiguous=True)):
            model = mlp()
            optimizer = optimizer(model.parameters(), 0.1)
            model(data()[0]).sum().backward()
            outputs = mb.MicroBatches(model, micro_batch=4).batch_(data()[0])
            optimizer.step()
            with self.assertRaisesRegex(mb.InfinityBatchError, "parameter 0.weight was changed"):
                outputs.sum().backward()

        model = nn.Sequential(nn.Dropout(0.5, inplace=True), *mlp())
        for options in ({}, {"reduction": "coupled"}):  # in one pass it does no harm
            micro = mb.MicroBatches(model, criterion=F.cross_entropy, micro_batch=4, **options)
            with self.assertRaisesRegex(mb.InfinityBatchError, "an input was changed") if options else contextlib.nullcontext():
                micro.backward(data()[0].clone(), data()[1])

    def test_outputs_do_not_change_buffers_for_earlier_ones(self):
        model = mlp(norm=lambda: nn.BatchNorm1d(10).eval())
        model.register_buffer("scale", torch.ones(1))
        micro = mb.MicroBatches(model.eval(), micro_batch=4)
        first = micro.batch_(data()[0])
        model.train()
        model[1].eval()  # its statistics stay
        micro.batch_(data()[0]).sum().backward()
        self.assertEqual(model.scale._version, 0)
        model.eval()
        first.sum().backward()

    def test_mode_of_the_forward_pass_holds_in_the_second(self):
        found = []
        for later in (True, False):
            torch.manual_seed(8)
            model = mlp(dropout=0.5, norm=lambda: nn.BatchNorm1d(10))
            model[1].eval()
            outputs = mb.MicroBatches(model, micro_batch=4).batch_(data()[0])
            model.train(later)
            outputs.square().sum().backward()
            self.assertEqual({module.training for module in model.modules()}, {later})
            self.assertEqual(model[1].num_batches_tracked, 0)
            found.append(gradients(model))
        self.assert_gradients(*found)

    def test_gradients_of_inputs_and_of_unused_ones(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = mlp()

            def forward(self, a, unused):
                return {"out": self.inner(a), "same": a, "count": torch.arange(len(a))}

        inputs, _ = data()
        wanted = inputs.clone().requires_grad_()
        (Two()(wanted, None)["out"].square().mean() + wanted.sum()).backward()
        given, unused = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
        outputs = mb.MicroBatches(Two(), micro_batch=5).batch_((given, unused))
        self.assertTrue(torch.equal(outputs["count"], torch.arange(5).repeat(4)[:SAMPLES]))
        (outputs["out"].square().mean() + outputs["same"].sum()).backward()
        self.assertLess((given.grad - wanted.grad).abs().max(), 1e-12)
        self.assertTrue(torch.equal(unused.grad, torch.zeros_like(inputs)))

    def test_both_passes_draw_the_same(self):
        inputs, targets = data()
        for size in (1, 5, 100):
            masks = []

            class Noted(nn.Dropout):
                def forward(self, values):
                    made = super().forward(values)
                    masks.append(made == 0)
                    return made

            model = mlp()
            model[2] = Noted(0.5)
            mb.MicroBatches(model, criterion=info_nce, reduction="coupled", micro_batch=size).backward(inputs, targets)
            passes = torch.cat(masks[: len(masks) // 2]), torch.cat(masks[len(masks) // 2 :])
            self.assertTrue(torch.equal(*passes))
            self.assertTrue(passes[0].any())

    def test_buffer_that_the_forward_changes_is_the_same_in_both_passes(self):
        class Fading(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = mlp()
                self.register_buffer("scale", torch.ones((), dtype=torch.float64))

            def forward(self, x):
                self.scale = self.scale * 0.9  # another tensor each time
                return self.inner(x) * self.scale

        inputs, _ = data()
        expected, ours = Fading(), Fading()
        info_nce(torch.cat([expected(part) for part in inputs.split(5)])).backward()
        mb.MicroBatches(ours, criterion=info_nce, reduction="coupled", micro_batch=5).backward(inputs)
        self.assert_gradients(gradients(ours), gradients(expected))
        self.assertEqual(ours.scale, expected.scale)  # changed once per micro-batch

    def test_error_in_float32_is_at_most_twice_the_plain_batchs(self):
        inputs, targets = data(512, torch.float32)
        _, exact = plain(mlp(), nn.CrossEntropyLoss(), inputs.double(), targets)
        _, of_plain = plain(mlp(dtype=torch.float32), nn.CrossEntropyLoss(), inputs, targets)

        for size in (1, 7, 64):
            model = mlp(dtype=torch.float32)
            mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), micro_batch=size).backward(inputs, targets)
            self.assertLessEqual(distance(gradients(model), exact), 2 * distance(of_plain, exact))

    def test_distance_keeps_nan(self):
        numbers = {"a": torch.zeros(2), "b": torch.ones(3)}
        self.assertEqual(distance({"a": torch.zeros(2), "b": torch.tensor([1.0, 3, 1])}, numbers), 2)
        for name, value in numbers.items():
            self.assertTrue(math.isnan(distance(numbers | {name: value * math.nan}, numbers)), name)

    def test_frozen_tied_sparse_and_existing(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(2)
                self.words = nn.Embedding(9, 4, sparse=True)
                self.first, self.second, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
                self.second.weight = self.first.weight
                self.second.bias.requires_grad_(False)

            def forward(self, index):
                return self.second(self.first(self.words(index)).tanh())

        index, targets = torch.arange(SAMPLES) % 5, torch.arange(SAMPLES) % 4
        _, expected = plain(Model(), nn.CrossEntropyLoss(), index, targets)
        for size in (1, 4, 100):
            model = Model()
            micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), micro_batch=size)
            micro.backward(index, targets)
            self.assertTrue(model.words.weight.grad.is_sparse)
            self.assert_gradients(gradients(model), expected, 1e-6)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", mb.MissingCallWarning)
                micro.backward(index, targets)
            twice = {name: None if g is None else g * 2 for name, g in expected.items()}
            self.assert_gradients(gradients(model), twice, 1e-6)

    def test_parameters_of_the_criterion(self):
        class Scaled(nn.Module):
            reduction = "mean"

            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))

            def forward(self, outputs, targets):
                return F.cross_entropy(outputs * self.scale.exp(), targets) + self.scale

        inputs, targets = data()
        for reduction in ("mean", "coupled"):
            criterion, ours = Scaled(), Scaled()
            plain(mlp(), criterion, inputs, targets)
            expected = criterion.scale.grad
            mb.MicroBatches(mlp(), criterion=ours, reduction=reduction, micro_batch=4).backward(inputs, targets)
            self.assertAlmostEqual(ours.scale.grad.item(), expected.item(), delta=1e-12)

    def test_sum_copies_what_others_may_have(self):
        parameter = nn.Parameter(torch.zeros(3))
        shared = torch.ones(3)
        sums = GradientSum([parameter, nn.Parameter(torch.zeros(3))])
        for _ in range(3):
            sums.add([shared, shared])
        sums.publish()
        self.assertTrue(torch.equal(shared, torch.ones(3)))
        self.assertTrue(torch.equal(parameter.grad, torch.full((3,), 3.0)))
        sums.add([shared, shared.sum().expand(3)])
        sums.parameters[0].grad = None
        sums.publish()
        self.assertNotEqual(parameter.grad.data_ptr(), shared.data_ptr())

    def test_autocast_of_the_forward_pass_holds_in_the_second(self):
        inputs, targets = data(dtype=torch.float32)
        seen = []

        class Noted(nn.Linear):
            def forward(self, values):
                made = super().forward(values)
                seen.append(made.dtype)
                return made

        model = Noted(6, 4)
        micro = mb.MicroBatches(model, micro_batch=5)
        with torch.autocast("cpu", torch.bfloat16):
            outputs = micro.batch_(inputs)
        F.cross_entropy(outputs.float(), targets).backward()
        self.assertEqual(set(seen), {torch.bfloat16})
        self.assertGreater(model.weight.grad.abs().max(), 0)


class BatchNorm(Case):
    def model(self, **options):
        class Model(nn.Module):
            """Three normalisations, one of them twice, one by a function, dropout between them."""

            def __init__(self):
                super().__init__()
                torch.manual_seed(4)
                self.conv, self.more, self.out = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 3, 1), nn.Linear(3, 4)
                self.norm, self.last = nn.BatchNorm2d(3), nn.BatchNorm1d(3, affine=False, track_running_stats=False)
                self.drop = nn.Dropout(options.get("dropout", 0))

            def forward(self, images):
                x = self.norm(self.conv(images)).relu()
                x = self.norm(self.more(self.drop(x))).relu()
                x = F.batch_norm(x, None, None, training=True)
                return self.out(self.last(x.mean((2, 3))))

        return Model().double()

    def images(self, samples=SAMPLES):
        generator = torch.Generator().manual_seed(6)
        images = torch.randn(samples, 2, 5, 5, generator=generator, dtype=torch.float64)
        return images, torch.randint(0, 4, (samples,), generator=generator)

    def test_refusal_names_alternatives_and_changes_nothing(self):
        model = self.model(dropout=0.5)
        before, random = copy.deepcopy(model), torch.get_rng_state()
        micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), micro_batch=4)
        with self.assertRaisesRegex(ValueError, "group or layer normalisation.*evaluation mode.*per_micro_batch.*exact"):
            micro.backward(*self.images())
        self.assert_same_state(model, before)
        self.assertTrue(torch.equal(random, torch.get_rng_state()))
        self.assertIsNone(model.out.weight.grad)
        model.last = nn.Identity()
        model.norm = nn.GroupNorm(1, 3).double()
        with self.assertRaisesRegex(ValueError, "statistics of its samples"):  # by the function
            micro.backward(*self.images())

    def test_others_are_not_taken_for_it(self):
        for norm in (nn.LayerNorm, nn.InstanceNorm1d, lambda n: nn.BatchNorm1d(n).eval()):
            model = mlp(norm=lambda: norm(10))  # noqa: B023
            mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(*data())

    def test_running_statistics_of_instances(self):
        def model(**options):
            torch.manual_seed(2)
            return nn.Sequential(nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3, **options), nn.Flatten(), nn.Linear(27, 4)).double()

        images, targets = self.images()
        for norm in ("refuse", "exact"):
            with self.assertRaisesRegex(ValueError, "instance normalisation.*track_running_stats=False"):
                tracked = model(track_running_stats=True)
                mb.MicroBatches(tracked, criterion=nn.CrossEntropyLoss(), batch_norm=norm, micro_batch=4).backward(images, targets)
            self.assertTrue(torch.equal(tracked[1].running_mean, torch.zeros(3).double()))
        scripted = torch.jit.script(model(track_running_stats=True))
        with self.assertRaisesRegex(ValueError, "instance normalisation"):
            mb.MicroBatches(scripted, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(images, targets)
        accepted = mb.MicroBatches(tracked, criterion=nn.CrossEntropyLoss(), batch_norm="per_micro_batch", micro_batch=4)
        with self.assertWarnsRegex(mb.BatchNormWarning, "running statistics of instance normalisation"):
            accepted.backward(images, targets)
        for options in ({}, {"track_running_stats": True}):
            silent = model(**options)
            silent[1].train(not options)
            expected = plain(silent, nn.CrossEntropyLoss(), images, targets)[1]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                mb.MicroBatches(silent, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(images, targets)
            self.assert_gradients(gradients(silent), expected)

    def test_in_scripted_modules_too(self):
        scripted = torch.jit.script(mlp(norm=lambda: nn.BatchNorm1d(10)))
        with self.assertRaisesRegex(ValueError, "statistics of its samples"):
            mb.MicroBatches(scripted, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(*data())
        scripted.eval()
        mb.MicroBatches(scripted, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(*data())

    def test_in_compiled_modules_too(self):
        compiled = torch.compile(mlp(norm=lambda: nn.BatchNorm1d(10)), backend="eager")
        for options, text in (({}, "statistics of its samples"), ({"batch_norm": "exact"}, "compiled or scripted")):
            with self.assertRaisesRegex(ValueError, text):
                mb.MicroBatches(compiled, criterion=nn.CrossEntropyLoss(), micro_batch=4, **options).backward(*data())
        _, expected = plain(mlp(), nn.CrossEntropyLoss(), *data())
        model = mlp()
        compiled = torch.compile(model, backend="eager", dynamic=True)
        mb.MicroBatches(compiled, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(*data())
        self.assert_gradients(gradients(model), expected)

    def test_per_micro_batch_warns_and_leaves_no_sample_alone(self):
        counts = []
        model = mlp(norm=lambda: nn.BatchNorm1d(10))
        model[1].register_forward_hook(lambda module, inputs, outputs: counts.append(len(outputs)))
        by_hand = copy.deepcopy(model)
        micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), batch_norm="per_micro_batch", micro_batch=4)
        inputs, targets = data()
        with self.assertWarns(mb.BatchNormWarning):
            micro.backward(inputs, targets)
        self.assertEqual(sum(counts), SAMPLES)
        self.assertGreaterEqual(min(counts), 2)
        first = 0
        for count in list(counts):
            loss = F.cross_entropy(by_hand(inputs[first : first + count]), targets[first : first + count])
            (loss * count / SAMPLES).backward()
            first += count
        self.assert_gradients(gradients(model), gradients(by_hand))
        self.assert_same_state(model, by_hand)

    def test_exact_equals_the_plain_batch(self):
        images, targets = self.images()
        expected = self.model()
        expected_loss, by_plain = plain(expected, nn.CrossEntropyLoss(), images, targets)
        for size in (2, 5, 100):
            model = self.model()
            micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), batch_norm="exact", micro_batch=size)
            self.assertAlmostEqual(micro.backward(images, targets).loss, expected_loss, delta=1e-12)
            self.assert_gradients(gradients(model), by_plain)
            for name, buffer in expected.named_buffers():
                self.assertLess((buffer - model.get_buffer(name)).abs().max(), 1e-12, name)
            self.assertEqual(model.norm.num_batches_tracked, 2)  # twice per batch
            own = self.model()
            F.cross_entropy(mb.MicroBatches(own, batch_norm="exact", micro_batch=size).batch_(images), targets).backward()
            self.assert_gradients(gradients(own), by_plain)

    def test_exact_repeats_draws(self):
        """With dropout: as the plain batch whose masks are put together of the micro-batches'."""
        images, targets = self.images()
        for size in (3, 8):
            masks = []
            model = self.model(dropout=0.5)
            model.drop.register_forward_hook(lambda module, inputs, outputs: masks.append((outputs != 0).double() * 2))
            reference = self.model()
            micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), batch_norm="exact", micro_batch=size)
            result = micro.backward(images, targets)
            last_pass, expected_count = [], 0
            for mask in reversed(masks):
                last_pass.insert(0, mask)
                expected_count += len(mask)
                if expected_count == SAMPLES:
                    break
            # dropped or not: zeros of relu are dropped in both, so multiplying by the mask is right
            reference.drop = type("Masked", (nn.Module,), {"forward": lambda self, x: x * torch.cat(last_pass)})()
            loss, expected = plain(reference, nn.CrossEntropyLoss(), images, targets)
            self.assertAlmostEqual(result.loss, loss, delta=1e-12)
            self.assert_gradients(gradients(model), expected)

    def test_exact_in_float32_is_at_most_twice_as_far(self):
        images, targets = self.images(64)
        _, exact = plain(self.model(), nn.CrossEntropyLoss(), images, targets)
        _, of_plain = plain(self.model().float(), nn.CrossEntropyLoss(), images.float(), targets)
        model = self.model().float()
        micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), batch_norm="exact", micro_batch=7)
        micro.backward(images.float(), targets)
        self.assertLessEqual(distance(gradients(model), exact), 2 * distance(of_plain, exact))

    def test_exact_refuses_a_model_whose_calls_differ(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.norm, self.calls = nn.Linear(6, 4).double(), nn.BatchNorm1d(4).double(), 0

            def forward(self, x):
                self.calls += 1
                x = self.norm(self.inner(x))
                return self.norm(x) if self.calls % 2 else x

        with self.assertRaisesRegex(ValueError, "normalised .* times"):
            mb.MicroBatches(Odd(), criterion=nn.CrossEntropyLoss(), batch_norm="exact", micro_batch=4).backward(*data())


class Storm(TorchDispatchMode):
    """Refuses the memory of one operation: the `at`-th that returns a new tensor."""

    def __init__(self, at):
        super().__init__()
        self.at, self.seen = at, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        returned = function._schema.returns
        if any(isinstance(value.type, torch.TensorType) and value.alias_info is None for value in returned):
            self.seen += 1
            if self.seen == self.at:
                raise torch.OutOfMemoryError("CUDA out of memory. (a test)")
        return function(*args, **(kwargs or {}))


class Capped(nn.Module):
    """A model that runs out of memory with more than `most` samples."""

    def __init__(self, inner, most):
        super().__init__()
        self.inner, self.most, self.peak, self.error = inner, most, 0, torch.OutOfMemoryError("CUDA out of memory.")

    def forward(self, inputs):
        if len(inputs) > self.most:
            raise self.error
        self.peak = max(self.peak, len(inputs))
        return self.inner(inputs)


class OutOfMemory(Case):
    def test_each_kind_is_recognised(self):
        for error in (torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9")):
            self.assertTrue(is_out_of_memory(error))
        for error in (RuntimeError("size mismatch"), ValueError("out of memory")):
            self.assertFalse(is_out_of_memory(error))
        with self.assertRaises(RuntimeError) as real:
            torch.empty(2**60)
        self.assertTrue(is_out_of_memory(real.exception))

    def test_batch_that_does_not_fit_trains_as_one_that_does(self):
        inputs, targets = data(200)
        _, expected = plain(mlp(), nn.CrossEntropyLoss(), inputs, targets)
        for error in (torch.OutOfMemoryError("CUDA out of memory."), MemoryError("ours")):
            model = Capped(mlp(), 21)
            model.error = error
            micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss())
            result = micro.backward(inputs, targets)
            self.assert_gradients(gradients(model.inner), expected)
            self.assertGreater(result.refusals, 0)
            model.inner.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(3):
                    result = micro.backward(inputs, targets)
            self.assertEqual(result.refusals, 0)
            self.assertGreaterEqual(model.peak, 16)  # within a quarter of what fits

    def test_settled_batches_are_cut_into_equal_parts(self):
        counts = []
        model = Capped(mlp(), 16)
        model.register_forward_hook(lambda module, inputs, outputs: counts.append(len(outputs)))
        micro = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), largest=16, by_speed=False, check_criterion=False)
        inputs, targets = data(100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                counts.clear()
                micro.backward(inputs, targets)
        self.assertEqual(sorted(set(counts)), [14, 15])

    def test_sample_that_does_not_fit_is_an_error_that_loses_nothing(self):
        model = Capped(mlp(dropout=0.5), 0)
        before, random = copy.deepcopy(model), torch.get_rng_state()
        for options in ({}, {"reduction": "coupled"}, {"micro_batch": 4}):
            micro = mb.MicroBatches(model, criterion=F.cross_entropy, **options)
            with self.assertRaisesRegex(mb.OutOfMemory, r"(1 sample|4 samples) does not fit .* \(gradients of \[6\] float64 each\)"):
                micro.backward(*data())
            self.assertIsInstance(mb.OutOfMemory("x"), MemoryError)
            self.assert_same_state(model, before)
            self.assertTrue(torch.equal(random, torch.get_rng_state()))
            self.assertTrue(all(p.grad is None for p in model.parameters()))

    def storm(self, make, fixed):
        """Refuses each allocation of a step in turn; yields the model after each, and that of the undisturbed step."""

        def step(at):
            model, options = make()
            optimizers = [torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[1:].parameters(), 0.1)]
            torch.manual_seed(9)
            micro = mb.MicroBatches(model, optimizers, F.cross_entropy, [data(9)], micro_batch=fixed, first=4, **options)
            micro.epoch()  # so that there are states, and sizes
            storm = Storm(at)
            with mock.patch("gc.collect"), storm:  # the collector takes most of the time
                micro.epoch()
            return model, storm.seen

        expected, count = step(0)
        self.assertGreater(count, 30)
        for at in range(1, count + 1):
            with self.subTest(refused=at):
                yield step(at)[0], expected

    def test_each_refused_allocation_leaves_the_same_step_bit_for_bit(self):
        def dropout():
            return mlp(dropout=0.5), {}

        def exact():
            return mlp(dropout=0.5, norm=lambda: nn.BatchNorm1d(10)), {"batch_norm": "exact"}

        def coupled():
            return mlp(dropout=0.5), {"reduction": "coupled"}

        for make in (dropout, coupled, exact):
            for model, expected in self.storm(make, 4):
                self.assert_same_state(model, expected)

    def test_smaller_micro_batches_stay_within_rounding(self):
        for reduction in ("mean", "coupled"):
            for model, expected in self.storm(lambda: (mlp(), {"reduction": reduction}), None):  # noqa: B023
                for name, value in expected.state_dict().items():
                    self.assertLess((value - model.state_dict()[name]).abs().max(), 1e-11)

    def test_draws_that_cannot_be_repeated_start_again(self):
        """A micro-batch of the first pass that no longer fits in the second."""

        class Second(Capped):
            def forward(self, inputs):
                self.most, self.peak = (4, self.peak) if torch.is_grad_enabled() else (100, 0)
                return super().forward(inputs)

        class Later(Capped):
            calls = 0

            def forward(self, inputs):
                self.calls += torch.is_grad_enabled()
                self.most = 4 if torch.is_grad_enabled() and self.calls > 1 else 100
                return super().forward(inputs)

        model = Second(mlp(dropout=0.5), 100)
        micro = mb.MicroBatches(model, criterion=info_nce, reduction="coupled")
        result = micro.backward(*data())
        self.assertLessEqual(model.peak, 4)
        self.assertTrue(math.isfinite(result.loss))
        # The same, after the first micro-batch of the second pass has given gradients.
        model, expected = Later(mlp(dropout=0.5), 100), mlp(dropout=0.5)
        torch.manual_seed(6)
        mb.MicroBatches(model, criterion=info_nce, reduction="coupled", by_speed=False).backward(*data())
        self.assertEqual(model.calls, 3 + 5)  # 8, and 8 twice refused; then 4, 4, 4, 4, 1
        torch.manual_seed(6)
        mb.MicroBatches(expected, criterion=info_nce, reduction="coupled", micro_batch=4).backward(*data())
        self.assert_gradients(gradients(model.inner), gradients(expected), 0)
        model = Second(mlp(dropout=0.5), 100)
        outputs = mb.MicroBatches(model).batch_(data()[0])
        with self.assertRaisesRegex(mb.OutOfMemory, "call batch_\\(\\) again"):
            info_nce(outputs).backward()
        self.assertIsNone(model.inner[0].weight.grad)

    def test_sizes(self):
        sizes = MicroBatchSize()
        fits, tried = 37, []
        for _ in range(60):
            tried.append(sizes.of("k"))
            sizes.worked("k", tried[-1]) if tried[-1] <= fits else sizes.ran_out("k", tried[-1])
        self.assertEqual(tried[:4], [8, 16, 32, 64])
        self.assertTrue(sizes.settled("k"))
        self.assertTrue(fits * 3 / 4 <= sizes.of("k") <= fits)
        self.assertEqual(sizes.ran_out("k", sizes.of("k")), "again")  # it had worked
        self.assertEqual(sizes.ran_out("k", sizes.of("k")), "smaller")
        sizes = MicroBatchSize(grow_again_after=3)
        sizes.worked("k", 8)
        self.assertEqual([sizes.ran_out("k", 8), sizes.ran_out("k", 8), sizes.of("k")], ["again", "smaller", 4])
        for _ in range(5):
            sizes.worked("k", sizes.of("k"))
        self.assertGreaterEqual(sizes.of("k"), 8)


def straight(samples):
    """Seconds of a micro-batch: a fixed cost, and one per sample."""
    return 100 + samples


def dear_above_300(samples):
    """The same, but each sample takes twice as long in micro-batches of more than 300."""
    return 20 + samples * (2 if samples > 300 else 1)


class Speed(Case):
    """The choice of the fastest size. Times are computed, so nothing depends on the machine's speed."""

    def chosen(self, trials, cost, batch):
        """Runs batches until the size is chosen. Returns it and the sizes that ran."""
        runs = []
        for _ in range(200):
            left = batch
            while left:
                if fastest := trials.fastest():
                    return fastest, runs
                runs.append(trials.following(left))
                self.assertTrue(1 <= runs[-1] <= left)
                trials.timed(runs[-1], cost(runs[-1]))
                left -= runs[-1]
        return self.fail("no size was chosen")

    def test_fastest_of_the_halved_sizes_is_chosen(self):
        for largest in (9, 100, 1000, 1023, 4096):
            for cost in (straight, dear_above_300):
                halves = [largest]
                while halves[-1] > 8:
                    halves.append((halves[-1] + 1) // 2)
                wanted = min((size for size in halves if size >= 8 or size == largest), key=lambda size: cost(size) / size)  # noqa: B023
                self.assertEqual(self.chosen(SpeedTrials(largest, 8), cost, 2 * largest)[0], wanted, largest)

    def test_longer_runs_do_not_mislead_it(self):
        run = itertools.count(1)
        found = self.chosen(SpeedTrials(1024, 8), lambda samples: dear_above_300(samples) * (10 if next(run) % 3 == 0 else 1), 1024)
        self.assertEqual(found[0], 256)

    def test_few_shorter_runs_do_not_mislead_it(self):
        for lucky in (64, 128, 256):
            run = itertools.count()

            def disturbed(samples):
                return straight(8 * samples) * (0.85 if samples == lucky and next(run) < 3 else 1)  # noqa: B023

            self.assertEqual(self.chosen(SpeedTrials(512, 64), disturbed, 512)[0], 512, lucky)

    def test_slow_sizes_run_three_times_and_smaller_ones_never(self):
        fastest, runs = self.chosen(SpeedTrials(1024, 8), straight, 4096)  # 256: and once a remainder
        self.assertEqual([fastest, *map(runs.count, (1024, 512, 256, 128))], [1024, 5, 5, 4, 0])

    def test_larger_size_is_taken_if_it_is_as_fast(self):
        self.assertEqual(self.chosen(SpeedTrials(1000, 8), float, 1000)[0], 1000)

    def test_each_half_is_tried_that_is_faster_but_none_below_the_first(self):
        for first, wanted in ((200, 256), (8, 8)):
            self.assertEqual(set(self.settled(MicroBatchSize(first=first), lambda samples: samples**2, 5000, 2048)), {wanted})

    def test_single_size_needs_no_run(self):
        self.assertEqual([SpeedTrials(*sizes).fastest() for sizes in ((7, 8), (15, 9), (1, 2), (16, 8))], [7, 15, 1, 0])

    def test_it_ends_if_no_batch_reaches_the_largest_size(self):
        self.assertEqual(self.chosen(SpeedTrials(1000, 8), straight, 600)[0], 500)

    def settled(self, sizes, cost, fits, samples):
        """The sizes of the last of many batches."""
        for _ in range(100):
            runs, left = [], samples
            while left:
                count = sizes.following("k", samples, left)
                if count > fits:
                    self.assertNotEqual(sizes.ran_out("k", count), "give up")
                    continue
                sizes.timed("k", count, cost(count))
                sizes.worked("k", count)
                runs.append(count)
                left -= count
        return runs

    def test_fastest_of_the_sizes_that_fit_is_chosen(self):
        sizes = MicroBatchSize()
        self.assertEqual(set(self.settled(sizes, dear_above_300, 5000, 2048)), {256})
        self.assertLessEqual(set(self.settled(sizes, dear_above_300, 200, 2048)), set(range(100, 201)))

    def test_size_grows_with_the_batch_if_the_largest_was_the_fastest(self):
        sizes = MicroBatchSize()
        for samples, wanted in ((64, [64]), (70, [35, 35]), (500, [500]), (2000, [1000, 1000]), (33, [33])):
            self.assertEqual(self.settled(sizes, straight, 1100, samples), wanted)

    def test_largest_that_fits_is_taken_on_request_and_for_deterministic_algorithms(self):
        self.assertEqual(self.settled(MicroBatchSize(by_speed=False), dear_above_300, 5000, 2048), [2048])
        self.addCleanup(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        torch.use_deterministic_algorithms(True)
        self.assertEqual(self.settled(MicroBatchSize(), dear_above_300, 5000, 2048), [2048])
        with self.assertRaisesRegex(ValueError, "by_speed is 'yes'"):
            mb.MicroBatches(by_speed="yes")

    def training(self, reduction, dropout=0.0):
        """MicroBatches whose clock its model moves, and the sizes of the micro-batches with gradients."""
        model, now, counts = mlp(dropout=dropout), [0.0], []

        def forward(module, inputs, outputs):
            if torch.is_grad_enabled():
                counts.append(len(outputs))
                now[0] += dear_above_300(len(outputs))

        model.register_forward_hook(forward)
        ignoring = warnings.catch_warnings()
        ignoring.__enter__()
        self.addCleanup(ignoring.__exit__, None, None, None)
        warnings.simplefilter("ignore", mb.MissingCallWarning)
        clock = mock.patch.object(MicroBatchSize, "clock", staticmethod(lambda: now[0]))
        clock.start()
        self.addCleanup(clock.stop)
        return mb.MicroBatches(model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss(), reduction=reduction), counts

    def test_comparison_is_made_by_the_batches_themselves(self):
        """Each batch of the comparison has the plain batch's gradients, and no sample runs for the comparison alone."""
        inputs, targets = data(1024)
        for reduction in ("mean", "coupled"):
            micro, counts = self.training(reduction)
            _, expected = plain(mlp(), F.cross_entropy, inputs, targets)
            for _ in range(16):
                counts.clear()
                micro.backward(inputs, targets)
                self.assertEqual(sum(counts), 1024)
                self.assert_gradients(gradients(micro.model), expected)
                micro.zero_grad()
            self.assertEqual(counts, [256] * 4)

    def test_compared_sizes_repeat_the_draws_of_two_passes(self):
        micro, counts = self.training("coupled", dropout=0.5)
        for _ in range(24):
            counts.clear()
            micro.backward(*data(1024))
            self.assertEqual(sum(counts), 1024)
            micro.zero_grad()
        self.assertEqual(counts, [256] * 4)

    def test_checkpoint_keeps_the_chosen_size(self):
        micro, counts = self.training("mean")
        micro.dataloader = [data(1024)]
        micro.train(16)
        with tempfile.TemporaryDirectory() as folder:
            micro.save(f"{folder}/training.pt")
            micro, counts = self.training("mean")
            micro.dataloader = [data(1024)]
            micro.resume(f"{folder}/training.pt")
        micro.epoch()
        self.assertEqual(counts, [256] * 4)


class Use(Case):
    def loader(self, samples=50, batch=20, shuffle=False):
        return DataLoader(TensorDataset(*data(samples)), batch, shuffle=shuffle)

    def reference(self, epochs, loader, make=torch.optim.Adam):
        model = mlp()
        optimizer = make(model.parameters(), 0.05)
        for _ in range(epochs):
            for inputs, targets in loader:
                F.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                optimizer.zero_grad()
        return model

    def assert_near(self, a, b, within=1e-10):
        for (name, x), y in zip(a.named_parameters(), b.parameters()):
            self.assertLess((x - y).abs().max().item(), within, name)

    def test_all_three_ways_train_as_plain_torch(self):
        loader = self.loader()
        for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adadelta):
            expected = self.reference(3, loader, make)
            for way in ("simple", "epoch", "custom", "pairs"):
                with self.subTest(optimizer=make.__name__, way=way):
                    model = mlp()
                    micro = speedtorch.MicroBatches()
                    micro.model, micro.criterion = model, nn.CrossEntropyLoss()
                    micro.optimizer, micro.dataloader = make(model.parameters(), 0.05), loader
                    if way == "simple":
                        self.assertEqual(micro(3).samples, 50)
                    for _ in range(3):
                        if way == "epoch":
                            self.assertEqual(micro.epoch().batches, 3)
                        for inputs, targets in loader:
                            if way == "custom":
                                loss = micro.criterion(micro.batch_(inputs), targets)
                                loss.backward()
                            elif way == "pairs":
                                micro.backward(inputs, targets)
                            else:
                                continue
                            micro.step()
                            micro.zero_grad()
                    self.assert_near(model, expected)
        self.assertIs(speedtorch.InfinityBatch, speedtorch.MicroBatches)

    def test_loss_and_backward_by_name(self):
        model = mlp()
        micro = mb.MicroBatches(model, torch.optim.Adam(model.parameters(), 0.05), nn.CrossEntropyLoss(), micro_batch=6)
        for inputs, targets in self.loader():
            self.assertGreater(micro.loss(micro.batch_(inputs), targets).item(), 0)
            micro.backward()
            micro.step()
            micro.zero_grad()
        self.assert_near(model, self.reference(1, self.loader()))
        with self.assertRaisesRegex(mb.InfinityBatchError, "no loss yet"):
            micro.backward()

    def test_interrupted_epoch_goes_on_with_its_batch(self):
        expected = mlp(dropout=0.5)
        torch.manual_seed(8)
        mb.MicroBatches(expected, torch.optim.Adam(expected.parameters(), 0.05), nn.CrossEntropyLoss(), self.loader(), micro_batch=7)(2)
        for where in ("model", "step"):
            model = mlp(dropout=0.5)
            calls = []

            def fails(*_, calls=calls):
                calls.append(1)
                if len(calls) == 3:
                    raise KeyError("once")

            optimizer = torch.optim.Adam(model.parameters(), 0.05)
            model.register_forward_hook(fails) if where == "model" else optimizer.register_step_post_hook(fails)
            torch.manual_seed(8)
            micro = mb.MicroBatches(model, optimizer, nn.CrossEntropyLoss(), self.loader(), micro_batch=7)
            for _ in range(3):
                try:
                    micro.epoch()
                except KeyError:
                    self.assertTrue(all(p.grad is None for p in model.parameters()))
            if where == "step":  # the step of epoch 1's last batch: 2 whole epochs are done
                self.assertEqual(micro._place["epoch"], 2)
            self.assert_same_state(model, expected)

    def test_several_optimizers_step_all_or_none(self):
        model = mlp()
        a, b = torch.optim.Adam(model[0].parameters(), 0.1), torch.optim.Adam(model[-1].parameters(), 0.1)
        micro = mb.MicroBatches(model, [a, b], nn.CrossEntropyLoss())
        micro.backward(*data())
        before = copy.deepcopy(model)
        with mock.patch.object(b, "step", side_effect=RuntimeError("broken")), self.assertRaisesRegex(RuntimeError, "broken"):
            micro.step()
        self.assert_same_state(model, before)
        self.assertEqual(len(a.state), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the step that failed is none
            micro.step()
        self.assertFalse(torch.equal(model[0].weight, before[0].weight))

    def test_our_own_optimizers(self):
        for name in ("Adam", "SGD", "RMSprop"):
            make = getattr(speedtorch.optim, name)
            for contiguous in (False, True):
                with self.subTest(optimizer=name, contiguous=contiguous):
                    expected = self.reference(2, self.loader(), getattr(torch.optim, name))
                    model = mlp()
                    optimizer = make(model.parameters(), 0.05, contiguous=contiguous)
                    mb.MicroBatches(model, optimizer, nn.CrossEntropyLoss(), self.loader(), micro_batch=6)(2)
                    self.assert_near(model, expected)

    def test_contiguous_states_are_taken_back_with_those_of_others(self):
        model, others = mlp(), mlp()
        pair = nn.ModuleList([model, others])
        a = speedtorch.optim.Adam(model.parameters(), 0.1, contiguous=True)
        b = torch.optim.Adam(others.parameters(), 0.1)
        pair.forward = lambda x: model(x) + others(x)
        micro = mb.MicroBatches(pair, [a, b], nn.CrossEntropyLoss(), [data()])
        micro.epoch()
        before, states = copy.deepcopy(pair.state_dict()), copy.deepcopy(a.state_dict()["state"])
        micro.backward(*data())
        with mock.patch.object(b, "step", side_effect=RuntimeError("broken")), self.assertRaisesRegex(RuntimeError, "broken"):
            micro.step()
        for name, value in pair.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        for number, state in states.items():
            for name, value in state.items():
                self.assertTrue(torch.equal(value, a.state_dict()["state"][number][name]), name)
        micro.step()
        self.assertEqual(a.state_dict()["state"][0]["step"], 2)

    def test_contiguous_step_is_tried_again_with_its_states(self):
        """A second optimizer runs out of memory once: the first one's step is taken back and done once."""

        class Once(torch.optim.Adam):
            fails = False

            def step(self):
                fails, self.fails = self.fails, False
                if fails:
                    raise MemoryError("once")
                super().step()

        def trained(fails):
            pair = nn.ModuleList([mlp(), mlp()])
            pair.forward = lambda x: pair[0](x) + pair[1](x)
            a = speedtorch.optim.Adam(pair[0].parameters(), 0.1, contiguous=True)
            b = Once(pair[1].parameters(), 0.1)
            micro = mb.MicroBatches(pair, [a, b], nn.CrossEntropyLoss(), [data()], micro_batch=6)
            micro.epoch()
            b.fails = fails
            micro.epoch()
            self.assertFalse(b.fails)
            return pair, a.state_dict()["state"]

        (ours, states), (expected, wanted) = trained(True), trained(False)
        self.assert_same_state(ours, expected)
        self.assertEqual(states[0]["step"], 2)
        for number, state in wanted.items():
            for name, value in state.items():
                self.assertTrue(torch.equal(value, states[number][name]), name)

    def test_embedding_over_a_table(self):
        """With its own optimizer it is refused by name; as the error says, another optimizer trains its weight."""

        def model(**options):
            torch.manual_seed(2)
            words = speedtorch.nn.Embedding(9, 4, fill=1.0, dtype=torch.float64, placement="hugepage", **options)
            return nn.Sequential(words, nn.Linear(4, 4).double())

        index, targets = torch.arange(SAMPLES) % 5, torch.arange(SAMPLES) % 4
        own = model(optimizer="SGD", lr=0.1)
        with self.assertRaisesRegex(ValueError, "embedding '0' has its own optimizer.*without optimizer="):
            mb.MicroBatches(own, criterion=nn.CrossEntropyLoss(), micro_batch=4).backward(index, targets)
        with self.assertRaisesRegex(ValueError, "embedding '0' has its own optimizer"):
            mb.MicroBatches(own, micro_batch=4).batch_(index)
        self.assertIsNone(own[1].weight.grad)
        trained, expected = model(), model()
        optimizers = [speedtorch.optim.SparseAdam(trained[0].parameters(), 0.1), torch.optim.SGD(trained[1].parameters(), 0.1)]
        mb.MicroBatches(trained, optimizers, nn.CrossEntropyLoss(), [(index, targets)], micro_batch=4)(3)
        references = [torch.optim.SparseAdam(expected[0].parameters(), 0.1), torch.optim.SGD(expected[1].parameters(), 0.1)]
        for _ in range(3):
            F.cross_entropy(expected(index), targets).backward()
            for optimizer in references:
                optimizer.step()
                optimizer.zero_grad()
        self.assert_near(trained, expected)
        self.assertTrue(torch.equal(trained[0].table.tensor[5:], torch.ones(4, 4).double()))

    def test_errors_name_what_is_wrong(self):
        model = mlp()
        micro = mb.MicroBatches()
        for call, text in (
            (lambda: micro.epoch(), "there is no model yet"),
            (lambda: micro.batch_(data()[0]), "there is no model yet"),
            (lambda: micro.step(), "there is no optimizer yet"),
            (lambda: mb.MicroBatches(model).backward(*data()), "there is no criterion yet"),
        ):
            with self.assertRaisesRegex(mb.InfinityBatchError, text):
                call()
        per_sample = nn.CrossEntropyLoss(reduction="none")
        for call, text in (
            (lambda: mb.MicroBatches(batch_norm="no"), "batch_norm is 'no'; take 'refuse'"),
            (lambda: mb.MicroBatches(micro_batch=0), "micro_batch is 0; take a whole number"),
            (lambda: mb.MicroBatches(first=-1), "first is -1"),
            (lambda: mb.MicroBatches(criterion=per_sample), "reduction is 'none'"),
            (lambda: mb.MicroBatches(reduction="max"), "reduction is 'max'; take 'mean'"),
            (lambda: mb.MicroBatches(micro_batch=True), "micro_batch is True"),
            (lambda: mb.MicroBatches(optimizer=[]), "list of optimizers is empty"),
            (lambda: mb.MicroBatches(criterion=nn.MSELoss(reduction="sum"), divisor=len), "divisor is for means, and .* is 'sum'"),
            (lambda: micro.train(-1), r"train\(-1\): take 0"),
            (lambda: mb.MicroBatches(model, criterion=lambda o, t: o.sum(1)).backward(*data()), r"tensor of shape \(8,\)"),
            (lambda: mb.MicroBatches(model, micro_batch=1, criterion=lambda o, t: o.sum(1)).backward(*data()), r"shape \(1,\)"),
            (lambda: mb.MicroBatches(model, criterion=F.mse_loss).backward(torch.ones(3, 6), torch.ones(2)), r"shapes \(3, 6\) and \(2,\)"),
            (lambda: mb.MicroBatches(model, criterion=F.mse_loss).backward(torch.ones(0, 6), torch.ones(0)), "has no samples"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, text):
                call()
        for call, text in (
            (lambda: mb.MicroBatches(model=3), "the model is a int"),
            (lambda: mb.MicroBatches(optimizer=3), "the optimizer is a int"),
            (lambda: mb.MicroBatches(criterion=3), "the criterion is a int"),
            (lambda: mb.MicroBatches(divisor=3), "divisor is a int; it must be callable"),
            (lambda: mb.MicroBatches(model, criterion=nn.CrossEntropyLoss()).backward(data()[0]), r"needs a tensor of classes"),
            (lambda: mb.MicroBatches(nn.DataParallel(model)), "DataParallel.*model.module"),
            (lambda: mb.MicroBatches(model, criterion=F.mse_loss).backward(["a"], data()[1]), "a str cannot be split"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(TypeError, text):
                call()
        frozen = mlp().requires_grad_(False)
        with self.assertRaisesRegex(mb.InfinityBatchError, "no parameter that requires a gradient"):
            mb.MicroBatches(frozen, criterion=F.cross_entropy).backward(*data())
        with self.assertRaisesRegex(mb.InfinityBatchError, "gave no batch"):
            mb.MicroBatches(model, torch.optim.SGD(model.parameters(), 1), F.cross_entropy, []).epoch()
        with self.assertRaisesRegex(mb.InfinityBatchError, "create_graph"):
            torch.autograd.grad(mb.MicroBatches(model).batch_(data()[0]).sum(), model[0].weight, create_graph=True)

    def test_set_twice(self):
        model = mlp()
        micro = mb.MicroBatches(model)
        with self.assertWarnsRegex(mb.ChangedWarning, "the model was set before; the first one stays"):
            micro.model = mlp()
        self.assertIs(micro.model, model)

    def test_eval_weights_by_samples_and_restores_modes(self):
        model = mlp(dropout=0.5)
        model[0].eval()
        right = lambda outputs, targets: outputs.argmax(1).eq(targets).double().mean()  # noqa: E731
        found = mb.MicroBatches(model, criterion=nn.CrossEntropyLoss(), micro_batch=3).eval(self.loader(), {"right": right})
        self.assertEqual([m.training for m in model.modules()], [True, False, True, True, True])
        inputs, targets = data(50)
        outputs = model.eval()(inputs)
        self.assertAlmostEqual(found["loss"], F.cross_entropy(outputs, targets).item(), delta=1e-12)
        self.assertAlmostEqual(found["right"], right(outputs, targets).item(), delta=1e-12)
        self.assertEqual(found["samples"], 50)
        coupled = mb.MicroBatches(model, criterion=info_nce, reduction="coupled", micro_batch=3).eval([data(9)])
        self.assertAlmostEqual(coupled["loss"], info_nce(model(data(9)[0])).item(), delta=1e-12)

    def test_missing_calls(self):
        def micro():
            model = mlp()
            return mb.MicroBatches(model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss())

        given = data()
        for calls, text in (
            (["step"], "backward\\(\\) is missing before step"),
            (["backward", "backward"], "step\\(\\) is missing after backward"),
            (["backward", "zero_grad"], "that no step has used"),
            (["backward", "step", "step"], "a second step with the same gradients"),
            (["backward", "step", "backward"], "zero_grad\\(\\) is missing after step"),
            (["batch_", "batch_"], "before backward\\(\\) of the first"),
        ):
            with self.subTest(calls=calls), self.assertWarnsRegex(mb.MissingCallWarning, text):
                it = micro()
                for call in calls:
                    getattr(it, call)(*{"backward": given, "batch_": given[:1]}.get(call, ()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            it = micro()
            for _ in range(3):
                it.backward(*given)
                it.step()
                it.zero_grad()

    def test_changes(self):
        for change, text in (
            (lambda model, optimizer: model[0].weight.requires_grad_(False), "0.weight is another tensor"),
            (lambda model, optimizer: model.eval(), "the model's mode"),
            (lambda model, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}), "groups"),
            (lambda model, optimizer: model.append(nn.Linear(4, 4).double()), "parameter 4.weight requires a gradient, but no"),
        ):
            model = mlp()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            micro = mb.MicroBatches(model, optimizer, nn.CrossEntropyLoss(), [data()])
            micro.epoch()
            change(model, optimizer)
            with self.subTest(text=text), self.assertWarnsRegex(mb.ChangedWarning, text):
                micro.epoch()

    def test_coupled_loss_declared_as_mean_is_detected(self):
        with self.assertWarnsRegex(mb.CoupledCriterionWarning, "reduction='coupled'") as caught:
            mb.MicroBatches(mlp(), criterion=info_nce, micro_batch=4).backward(*data())
        self.assertEqual(caught.filename, __file__)  # at the line of the program
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mb.MicroBatches(mlp(), criterion=lambda o, t: F.cross_entropy(o, t), micro_batch=4).backward(*data())

    def test_ignored_targets_of_an_unknown_mean_are_detected(self):
        own = lambda o, t: F.cross_entropy(o, t)  # noqa: E731
        for first, text in ((0, "together and nan as the sum of both.*divisor="), (8, "NaN.*divisor="), (1, "give divisor=")):
            inputs, targets = data()
            targets[first : first + 4] = -100
            with self.subTest(first=first), self.assertWarnsRegex(mb.CoupledCriterionWarning, text):
                mb.MicroBatches(mlp(), criterion=own, micro_batch=4).backward(inputs, targets)

    def test_dataclasses_and_dicts_of_outputs(self):
        import dataclasses

        @dataclasses.dataclass
        class Made:
            logits: torch.Tensor
            name: str = None

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = mlp()

            def forward(self, first, second):
                return Made(self.inner(first + second))

        inputs, targets = data()
        criterion = lambda made, targets: F.cross_entropy(made.logits, targets)  # noqa: E731
        _, expected = plain(mlp(), F.cross_entropy, inputs, targets)
        for reduction in ("mean", "coupled"):
            for given in ((inputs / 2, inputs / 2), {"first": inputs / 4, "second": inputs * 0.75}):
                model = Model()
                mb.MicroBatches(model, criterion=criterion, reduction=reduction, micro_batch=5).backward(given, targets)
                self.assert_gradients(gradients(model.inner), expected)

    def test_progress_is_of_tqdm_if_it_is_there(self):
        model = mlp()
        arguments = (model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss(), self.loader())
        with mock.patch.dict(sys.modules, {"tqdm": None}):
            mb.MicroBatches(*arguments).epoch()
            with self.assertRaisesRegex(ImportError, "needs tqdm"):
                mb.MicroBatches(*arguments, progress=True).epoch()
        bar = mock.MagicMock()
        with mock.patch.dict(sys.modules, {"tqdm": mock.MagicMock(tqdm=bar)}):
            mb.MicroBatches(*arguments, progress=True).epoch()
            mb.MicroBatches(*arguments, progress=False).epoch()
        bar.assert_called_once_with(total=3, initial=0, desc="epoch 0", unit="batch", disable=False)
        self.assertEqual(bar.return_value.update.call_count, 3)

    def test_repr(self):
        micro = mb.MicroBatches(mlp(), criterion=nn.CrossEntropyLoss(), micro_batch=4)
        micro.backward(*data())
        self.assertEqual(repr(micro), "MicroBatches(Sequential; 4 per gradients of [6] float64; epoch 0, batch 0)")


class Imports(unittest.TestCase):
    def test_they_are_imported_when_they_are_used(self):
        code = "import sys, speedtorch; assert 'speedtorch.micro_batches' not in sys.modules; speedtorch.compat; "
        code += "assert speedtorch.MicroBatches is speedtorch.micro_batches.MicroBatches is speedtorch.InfinityBatch"
        subprocess.run([sys.executable, "-c", code], check=True)
        with self.assertRaisesRegex(AttributeError, "has no attribute 'MicroBatch'"):
            speedtorch.MicroBatch


def state_of(micro):
    """Copies of all that a checkpoint has."""
    optimizers = [each.state_dict() for each in micro._optimizers]
    return copy.deepcopy([micro.model.state_dict(), optimizers, micro._place, micro._sizes.entries, torch.get_rng_state()])


def is_same(a, b):
    """Compares nested dicts and lists of tensors and numbers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(is_same(value, b[key]) for key, value in a.items())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def damages(whole, count):
    """`count` copies of each kind of damage: a flipped bit, a cut, inserted bytes, zeroed bytes."""
    draw = random.Random(7)
    for _ in range(count):
        at, length = draw.randrange(len(whole)), draw.randrange(1, 300)
        yield whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        yield whole[:at]
        yield whole[:at] + draw.randbytes(length) + whole[at:]
        yield whole[:at] + bytes(len(whole[at : at + length])) + whole[at + length :]


def in_child(work):
    """Runs `work` in a forked process. Returns its exit status, or -N after signal N."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Checkpoints(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "state.pt")

    def micro(self, **options):
        torch.manual_seed(11)
        model = mlp(dropout=0.5)
        loader = DataLoader(TensorDataset(*data(60)), 10, shuffle=True)
        return mb.MicroBatches(model, torch.optim.Adam(model.parameters(), 0.05), nn.CrossEntropyLoss(), loader, micro_batch=4, **options)

    def test_training_that_was_interrupted_continues_bit_for_bit(self):
        expected = self.micro()
        expected.train(3)
        for batch in (0, 2, 5):
            micro = self.micro()
            micro.epoch()
            micro._batch_done = lambda *_: micro.save(self.path) if micro._place["batch"] == batch else None  # noqa: B023
            if batch == 0:
                micro.save(self.path)
            else:
                micro.epoch()
            torch.manual_seed(0)
            resumed = self.micro()
            torch.manual_seed(1)
            resumed.resume(self.path)
            last = resumed.train(2)
            self.assert_same_state(resumed.model, expected.model)
            self.assertEqual((last.epoch, last.batches, last.samples), (2, 6, 60))

    def test_state_that_is_no_tensor(self):
        def micro():
            words = speedtorch.nn.Embedding(9, 6, fill=1.0, optimizer="SGD", lr=0.1)
            model = nn.Sequential(words, nn.Linear(6, 4))
            return mb.MicroBatches(model, torch.optim.SGD(model[1].parameters(), 0.1))

        saved, resumed = micro(), micro()
        saved.model[0](torch.arange(4)).sum().backward()
        saved.model[0].step()
        saved.save(self.path)
        resumed.resume(self.path)
        self.assertTrue(torch.equal(resumed.model[0].weight, saved.model[0].weight))
        self.assertFalse(torch.equal(resumed.model[0].weight, torch.ones(9, 6)))

    def trained(self):
        """MicroBatches with a checkpoint of their state, of which they have gone on since."""
        micro = self.micro()
        micro.epoch()
        micro.save(self.path)
        micro.epoch()
        return micro, Path(self.path).read_bytes()

    def assert_refused(self, micro, kind, text):
        before = state_of(micro)
        with self.assertRaisesRegex(kind, text) as caught:
            micro.resume(self.path)
        self.assertIn(self.path, str(caught.exception))
        self.assertTrue(is_same(state_of(micro), before), "it was changed")

    def test_damage_is_named(self):
        micro, whole = self.trained()
        saved = torch.load(self.path)["model"]["0.weight"]
        at = whole.index(saved.numpy().tobytes()) + 3
        Path(self.path).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        self.assert_refused(micro, speedtorch.errors.FileError, "its entry '.*data/.*' is damaged")
        for damaged in (whole[: len(whole) // 2], b"", b"text"):
            Path(self.path).write_bytes(damaged)
            self.assert_refused(micro, speedtorch.errors.FileError, "it is not a zip archive, or is cut off")

    def test_any_damage_is_an_error_of_the_file_or_harmless(self):
        micro, whole = self.trained()
        later = state_of(micro)
        Path(self.path + " later").write_bytes(whole)
        micro.resume(self.path + " later")
        earlier = state_of(micro)
        refused = 0
        for number, damaged in enumerate(damages(whole, 60)):
            Path(self.path).write_bytes(damaged)
            before = state_of(micro)
            try:
                micro.resume(self.path)
            except OSError as error:
                self.assertIn(self.path, str(error))
                self.assertTrue(is_same(state_of(micro), before), f"damage {number} changed the state")
                refused += 1
            else:
                self.assertTrue(is_same(state_of(micro), earlier), f"damage {number} changed what was read")
        self.assertGreater(refused, 120)
        self.assertFalse(is_same(earlier, later))

    def test_other_errors_are_not_taken_for_damage(self):
        micro, _ = self.trained()
        with mock.patch("torch.load", side_effect=MemoryError("no byte")), self.assertRaisesRegex(MemoryError, "^no byte$"):
            micro.resume(self.path)
        os.unlink(self.path)
        self.assert_refused(micro, FileNotFoundError, "state.pt")
        os.mkfifo(self.path)
        self.assert_refused(micro, OSError, "not a regular file")
        os.unlink(self.path)
        os.mkdir(self.path)
        self.assert_refused(micro, IsADirectoryError, "state.pt")

    def test_content_that_save_did_not_write_is_refused(self):
        micro, _ = self.trained()
        good = torch.load(self.path)

        def changed(*keys, to):
            content = inner = copy.deepcopy(good)
            for key in keys[:-1]:
                inner = inner[key]
            inner[keys[-1]] = to
            return content

        generators = good["random"]
        for text, content in (
            ("holds a list, not a dict", [good]),
            ("holds a Tensor, not a dict", torch.ones(3)),
            *((f"has no entry '{name}'", {key: good[key] for key in good if key != name}) for name in good),
            *((f"the entry '{name}' of .* is a str", good | {name: "text"}) for name in good),
            ("the entry 'epoch' of .* is a float", changed("place", "epoch", to=0.5)),
            ("has no entry 'batch'", good | {"place": {"epoch": 1, "step": 1}}),
            ("the entry 'loss' of .* is a str", changed("so_far", "loss", to="small")),
            ("holds a int, not a dict", good | {"sizes": {"key": 3}}),
            ("has no entry 'size'", good | {"sizes": {"key": {}}}),
            ("the entry 'cpu' of .* is a list", good | {"random": generators | {"cpu": [1]}}),
            ("states of random generators", good | {"random": generators | {"cpu": torch.ones(3)}}),
            ("states of random generators", good | {"random": generators | {"devices": [("cuda:77", torch.ones(3))]}}),
            ("states of random generators", good | {"epoch_random": generators | {"devices": [3]}}),
            ("0.weight is a list there", changed("model", "0.weight", to=[1, 2])),
            ("only one of both has 7", changed("model", 7, to=torch.ones(3))),
            ("holds a str, not a dict", good | {"optimizers": ["Adam"]}),
            ("has no entry 'param_groups'", good | {"optimizers": [{"state": {}}]}),
            ("the entry 'params' of .* is a int", changed("optimizers", 0, "param_groups", 0, "params", to=3)),
            ("the entry 0 of .* is a list", changed("optimizers", 0, "state", 0, to=[1])),
            ("of other optimizers", good | {"optimizers": good["optimizers"] * 2}),
        ):
            with self.subTest(text=text):
                torch.save(content, self.path)
                self.assert_refused(micro, ValueError, text)
        torch.save(good, self.path)
        micro.resume(self.path)

    def test_optimizer_that_refuses_its_states_leaves_all_as_they_were(self):
        parts = nn.ModuleList([mlp(), mlp(), mlp()])
        parts.forward = lambda x: sum(part(x) for part in parts)
        optimizers = [
            speedtorch.optim.Adam(parts[0].parameters(), 0.1, contiguous=True),
            torch.optim.Adam(parts[1].parameters(), 0.1),
            torch.optim.Adam(parts[2].parameters(), 0.1),
        ]
        micro = mb.MicroBatches(parts, optimizers, nn.CrossEntropyLoss(), [data()], micro_batch=6)
        micro.epoch()
        micro.save(self.path)
        saved = state_of(micro)
        micro.epoch()
        with mock.patch.object(optimizers[2], "load_state_dict", side_effect=KeyError("exp_avg")):
            self.assert_refused(micro, ValueError, "cannot be loaded into .*exp_avg")
        micro.resume(self.path)
        self.assertTrue(is_same(state_of(micro), saved))

    def test_another_model_is_refused_without_changes(self):
        self.micro().save(self.path)
        for model, make, text in (
            (nn.Sequential(nn.Linear(6, 5)), torch.optim.Adam, "only one of both has"),
            (mlp(dtype=torch.float32), torch.optim.Adam, "0.weight is .* torch.float64 there and .* torch.float32 here"),
            (mlp(), torch.optim.SGD, "of other optimizers"),
        ):
            other = mb.MicroBatches(model, make(model.parameters(), 0.1), nn.CrossEntropyLoss())
            self.assert_refused(other, ValueError, text)

    def test_file_keeps_its_mode_and_a_link_stays(self):
        micro = self.micro()
        folder = Path(self.path).parent
        self.addCleanup(os.umask, os.umask(0o027))
        micro.save(self.path)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o640)  # a new file's mode is the umask's
        os.chmod(self.path, 0o604)
        micro.save(self.path)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o604)
        (folder / "elsewhere").mkdir()
        for target in (Path(self.path), folder / "elsewhere/new.pt"):  # the second does not exist yet
            link = folder / f"link to {target.name}"
            link.symlink_to(os.path.relpath(target, folder))
            micro.save(link)
            self.assertTrue(link.is_symlink())
            self.assertFalse(target.is_symlink())
            micro.resume(target)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o604)
        self.assertEqual(sorted(os.listdir(folder)), ["elsewhere", "link to new.pt", "link to state.pt", "state.pt"])
        self.assertEqual(os.listdir(folder / "elsewhere"), ["new.pt"])

    def test_failed_or_killed_save_leaves_the_old_file_and_nothing_else(self):
        micro, whole = self.trained()

        def beyond_the_limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            try:
                micro.save(self.path)
            except OSError as error:
                os._exit(77 if error.errno == errno.EFBIG else 1)

        def killed():
            with mock.patch("torch.save", lambda content, file: (file.write(whole[:5000]), os.kill(os.getpid(), signal.SIGKILL))):
                micro.save(self.path)

        for work, status in ((beyond_the_limit, 77), (killed, -signal.SIGKILL)):
            with self.subTest(work.__name__):
                self.assertEqual(in_child(work), status)
                self.assertEqual(Path(self.path).read_bytes(), whole)
        micro.save(self.path)  # on some file systems this removes what the killed one left
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["state.pt"])

    def test_saving_within_a_batch_is_refused_and_leaves_no_file(self):
        micro = self.micro()
        micro.model.register_forward_hook(lambda *_: micro.save(self.path))
        with self.assertRaisesRegex(mb.InfinityBatchError, "within a batch"):
            micro.epoch()
        with mock.patch("torch.save", side_effect=OSError("disk full")), self.assertRaisesRegex(OSError, "disk full"):
            micro.save(self.path)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), [])


if __name__ == "__main__":
    unittest.main()
