"""Loss and gradients of a batch, one micro-batch at a time: in one pass for means and sums, else in two."""

import contextlib
import math
from dataclasses import dataclass, field

import torch
from torch import nn

from speedtorch._batch_norm import BatchStatistics, NormWatch, norms_of_opaque
from speedtorch._micro_batch_parts import (
    Batch,
    BatchNormWarning,
    CoupledCriterionWarning,
    GradientSum,
    InfinityBatchError,
    Marks,
    MicroBatchSize,
    OutOfMemory,
    RandomState,
    Snapshot,
    concatenated,
    had_memory_for,
    map_tensors,
    modes_kept,
    modes_of,
    retried,
    tensors_of,
    to_device,
    warn,
)
from speedtorch.nn import Embedding

REFUSED_NORMS = {
    "batch": "the model's batch normalisation takes statistics of its samples, and those of a micro-batch differ from the "
    "batch's. Use group or layer normalisation; put the modules into evaluation mode; or take batch_norm='per_micro_batch' (each "
    "micro-batch has its own statistics) or batch_norm='exact' (the batch's statistics, for two more passes per normalisation)",
    "instance": "the running statistics of the model's instance normalisation would move once per micro-batch and so differ from "
    "the batch's. Use track_running_stats=False; put the modules into evaluation mode; or take batch_norm='per_micro_batch', "
    "which accepts that",
}
ACCEPTED_NORMS = {
    "batch": "batch normalisation takes the statistics of each micro-batch, and its running statistics move once per micro-batch",
    "instance": "the running statistics of instance normalisation move once per micro-batch",
}


@dataclass
class BatchResult:
    """The loss of a batch, and how the batch was cut. `outputs` and `targets` are None unless they were to be kept."""

    loss: float = float("nan")
    samples: int = 0
    micro_batches: int = 0
    largest_micro_batch: int = 0
    refusals: int = 0
    outputs: object = field(default=None, repr=False)
    targets: object = field(default=None, repr=False)


class _TooLarge(Exception):
    """A micro-batch whose random draws are recorded no longer fits."""


class Engine:
    """A model, and the sizes of micro-batches that fit."""

    def __init__(self, model, *, sizes=None, output_device=None, batch_norm="refuse", check_criterion=True):
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            raise TypeError(
                f"the model is a {type(model).__name__}, whose exchange of gradients belongs to one backward pass; give "
                "model.module, and average the gradients between backward() and step()"
            )
        if batch_norm not in ("refuse", "per_micro_batch", "exact"):
            raise ValueError(f"batch_norm is {batch_norm!r}; take 'refuse', 'per_micro_batch' or 'exact'")
        self.model, self.batch_norm = model, batch_norm
        self.sizes = sizes or MicroBatchSize()
        self.output_device = output_device
        self.criterion_checked = not check_criterion
        self.on_gradients = lambda: None

    @property
    def device(self):
        """The device of the first trainable parameter, else of the first parameter, else the CPU."""
        parameters = list(self.model.parameters())
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        return (trainable or parameters or [torch.empty(0)])[0].device

    def devices(self):
        return {tensor.device for tensor in (*self.model.parameters(), *self.model.buffers())}

    def trainable(self):
        """The parameters that get gradients. Raises ValueError for an embedding that trains itself: its weight is no parameter."""
        for name, module in self.model.named_modules():
            if isinstance(module, Embedding) and module.optimizer is not None and module.weight.requires_grad:
                raise ValueError(
                    f"the embedding {name or 'itself'!r} has its own optimizer, which micro-batches do not step; construct it "
                    "without optimizer= and give its weight to an optimizer of MicroBatches"
                )
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def backward(self, batch, criterion, keep=False) -> BatchResult:
        """Adds the gradients of the batch to `.grad`. If it throws, gradients, buffers and generators are as before."""
        run = Run(self, batch, True)
        sums = GradientSum({id(p): p for p in (*self.trainable(), *criterion.parameters())}.values())
        if not sums.parameters:
            raise InfinityBatchError("the model has no parameter that requires a gradient")
        with torch.enable_grad():
            before = retried("the state of the model's buffers", run.snapshot)
            try:
                by_statistics = run.normalises_by_statistics()
                if by_statistics or criterion.reduction(batch.targets) == "coupled":
                    two_passes(run, by_statistics, criterion, sums, keep)
                else:
                    one_pass(run, criterion, sums, keep)
                self.on_gradients()
                retried("the sum of gradients", sums.publish)
            except BaseException:
                before.restore()
                raise
        return run.result

    @torch.no_grad()
    def evaluate(self, batch, criterion, keep=False):
        run = Run(self, batch, False)
        by_statistics = run.normalises_by_statistics()
        if not by_statistics and criterion.reduction(batch.targets) != "coupled":
            one_pass(run, criterion, None, keep)
            return run.result
        outputs, targets = Replay(run, by_statistics).outputs, run.targets()
        run.result.loss = retried("the loss of all outputs of the batch", lambda: criterion(outputs, targets).item())
        run.result.outputs, run.result.targets = outputs, targets
        return run.result

    def outputs(self, inputs):
        """Outputs of the whole batch, whose backward pass runs the model again, micro-batch by micro-batch."""
        batch = Batch(inputs)
        run = Run(self, batch, torch.is_grad_enabled())
        with torch.no_grad():
            replay = Replay(run, run.normalises_by_statistics())
        if not torch.is_grad_enabled():
            return replay.outputs
        differentiable = [tensor for tensor in tensors_of(inputs) if tensor.requires_grad]
        made = iter(_Recompute.apply(replay, self.trainable(), *self.trainable(), *differentiable))
        outputs, replay.outputs = replay.outputs, None
        return map_tensors(lambda _: next(made), outputs)


class Run:
    """One batch at work."""

    def __init__(self, engine, batch, with_gradients):
        self.engine, self.batch, self.with_gradients = engine, batch, with_gradients
        self.device, self.devices = engine.device, engine.devices()
        self.output_device = engine.output_device or self.device
        self.key = ("gradients of " if with_gradients else "outputs of ") + batch.shape()
        self.least = 1 if engine.batch_norm == "refuse" else 2  # a normalisation needs two samples
        self.result = BatchResult(samples=batch.size)
        self.batch_norm_checked = engine.batch_norm == "exact"
        kind = self.device.type
        self.autocast = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))

    def snapshot(self):
        return Snapshot(self.engine.model, self.devices)

    def fetch(self, first, count):
        inputs, targets = self.batch.samples(first, count)
        return to_device(inputs, self.device), to_device(targets, self.output_device)

    def targets(self):
        return to_device(self.batch.targets, self.output_device)

    def call_model(self, inputs):
        model = self.engine.model
        if isinstance(inputs, (tuple, list)):
            return model(*inputs)
        return model(**inputs) if isinstance(inputs, dict) else model(inputs)

    def forward(self, inputs):
        """Outputs of a micro-batch. The first one of each batch is watched for batch normalisation."""
        if self.batch_norm_checked:
            return to_device(self.call_model(inputs), self.output_device)
        seen = norms_of_opaque(self.engine.model)
        if seen is None:
            with NormWatch() as watch:
                outputs = self.call_model(inputs)
            self.judge_norms(watch.seen)
        else:
            self.judge_norms(seen)
            outputs = self.call_model(inputs)
        self.batch_norm_checked = True
        return to_device(outputs, self.output_device)

    def judge_norms(self, seen):
        for kind in sorted(seen):
            if self.engine.batch_norm == "refuse" or self.engine.batch_norm == "exact" and kind == "instance":
                raise ValueError(REFUSED_NORMS[kind])
            warn(BatchNormWarning, ACCEPTED_NORMS[kind])

    @torch.no_grad()
    def normalises_by_statistics(self):
        """True if exact batch normalisation is wanted and the model, run on the fewest samples, needs it."""
        if self.engine.batch_norm != "exact":
            return False
        if norms_of_opaque(self.engine.model) is not None:
            raise ValueError("batch_norm='exact' does not see into a compiled or scripted module; give the module itself")

        def tried():
            before = self.snapshot()
            try:
                with NormWatch() as watch:
                    self.call_model(self.fetch(0, min(self.least, self.batch.size))[0])
            finally:
                before.restore()
            return watch.seen

        seen = retried("the smallest micro-batch", tried)
        self.judge_norms(seen - {"batch"})
        return "batch" in seen

    def most_of(self, left):
        """The largest micro-batch that memory permits now; no rest of one sample if two are needed."""
        count = min(max(self.engine.sizes.of(self.key), self.least), left)
        return left if self.least > 1 and count == self.least and left - count == 1 else count

    def next_of(self, left):
        """Samples of the next micro-batch."""
        count = min(max(self.engine.sizes.following(self.key, self.batch.size, left), self.least), left)
        if self.least == 1 or left - count != 1:
            return count
        return left if count == self.least else count - 1

    def now(self):
        """Seconds, when all work of the devices is done."""
        for device in self.devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        return self.engine.sizes.clock()

    def tried(self, first, count, attempt):
        """Runs `attempt(first, count)`. Returns false if memory ran out; then buffers and generators are as before."""
        sizes, before = self.engine.sizes, []
        # The second of two passes needs more memory than the first, so only the second is sized.
        sized = not self.with_gradients or torch.is_grad_enabled()
        # The first micro-batch of a batch is watched. Every size has that cost once, so it is not compared.
        timed = sized and self.key in sizes.trials and (first > 0 or count == self.batch.size)
        began = self.now() if timed else 0

        def work():
            before.append(self.snapshot())
            attempt(first, count)

        try:
            had_memory = had_memory_for(work)
        except BaseException:
            if before:
                before[0].restore()
            raise
        if had_memory:
            if timed:
                sizes.timed(self.key, count, self.now() - began)
            self.result.micro_batches += 1
            self.result.largest_micro_batch = max(self.result.largest_micro_batch, count)
            if sized:
                sizes.worked(self.key, count)
            return True
        if before:
            before[0].restore()
        self.result.refusals += 1
        answer = sizes.ran_out(self.key, count)
        if answer == "give up" or (answer == "smaller" and self.most_of(self.batch.size - first) >= count):
            samples = "1 sample" if count == 1 else f"{count} samples"
            raise OutOfMemory(f"a micro-batch of {samples} does not fit into memory ({self.key} each); no gradient was changed")
        return False

    def each(self, attempt):
        first = 0
        while first < self.batch.size:
            count = self.next_of(self.batch.size - first)
            if self.tried(first, count, attempt):
                first += count


def have_samples(outputs, count):
    return all(tensor.dim() and tensor.size(0) == count for tensor in tensors_of(outputs))


class CriterionCheck:
    """Compares the sum of the first two micro-batches' losses with the loss of both."""

    def __init__(self):
        self.losses, self.weights, self.outputs, self.targets = [], [], [], []

    @torch.no_grad()
    def add(self, criterion, outputs, targets, loss, weight):
        """Takes a micro-batch; with the second, warns of a difference and returns true."""
        self.losses.append(loss.item())
        self.weights.append(weight)
        self.outputs.append(map_tensors(torch.Tensor.detach, outputs))
        self.targets.append(targets)
        if len(self.losses) < 2:
            return False
        whole = criterion(concatenated(self.outputs), concatenated(self.targets)).item()
        is_mean = criterion.reduction() == "mean"
        parts = [loss * (weight / sum(self.weights) if is_mean else 1) for loss, weight in zip(self.losses, self.weights)]
        total = sum(parts)
        equal = whole == total or math.isnan(whole) and math.isnan(total)
        if not equal and not abs(whole - total) <= 1e-3 * max(sum(map(abs, parts)), abs(whole)):
            warn(
                CoupledCriterionWarning,
                f"the loss of two micro-batches is {whole:.6g} together and {total:.6g} as the sum of both: if the loss of a "
                "sample depends on other samples, take reduction='coupled'; if a mean is not divided by the number of samples, "
                "give divisor=",
            )
        return True


def summed(losses):
    """The loss of a batch: the sum of its micro-batches' losses, each times its factor."""
    values = [(loss.item(), factor) for loss, factor in losses]
    nans = sum(math.isnan(value) for value, _ in values)
    if 0 < nans < len(values):
        warn(
            CoupledCriterionWarning,
            f"the loss of {nans} of {len(values)} micro-batches is NaN: if a mean ignores some targets, and so divides by 0 where "
            "it ignores all, give divisor=",
        )
    return sum(value * factor for value, factor in values)


def one_pass(run, criterion, sums, keep):
    batch, engine = run.batch, run.engine
    is_mean = criterion.reduction(batch.targets) == "mean"
    total = retried("the weights of the targets", lambda: criterion.weight(batch.targets, batch.size)) if is_mean else 1.0
    losses, kept, check = [], [], CriterionCheck()

    def attempt(first, count):
        inputs, targets = run.fetch(first, count)
        outputs = run.forward(inputs)
        loss = criterion(outputs, targets)
        # The batch's own targets are counted: those on a GPU would have to be waited for.
        weight = criterion.weight(batch.samples(first, count)[1], count) if is_mean else 1.0
        factor = weight / total if total else 1.0  # a mean over no target is NaN, as in the whole batch
        copy = map_tensors(torch.Tensor.detach, outputs) if keep else None
        if sums and factor:
            if not loss.requires_grad:
                raise InfinityBatchError("the loss does not depend on any trainable parameter")
            torch.clear_autocast_cache()  # may hold casts without a graph, of a pass without gradients
            seed = torch.full_like(loss, factor)
            sums.add(torch.autograd.grad(loss, sums.parameters, seed, allow_unused=True))
        # From here on nothing needs memory, except for the check, which may be left out.
        if factor:
            losses.append((loss.detach(), factor))
        if keep:
            kept.append((copy, targets))
        if sums and weight and not engine.criterion_checked and count < batch.size and have_samples(outputs, count):
            ends = []
            if not had_memory_for(lambda: ends.append(check.add(criterion, outputs, targets, loss, weight))) or ends[0]:
                engine.criterion_checked = True

    run.each(attempt)
    run.result.loss = summed(losses)
    if keep:
        run.result.outputs, run.result.targets = retried("the outputs of the batch", lambda: concatenated(kept))


def two_passes(run, by_statistics, criterion, sums, keep):
    """All outputs without a graph; the loss and its derivatives by them; then each micro-batch from its part of these."""
    while True:
        with torch.no_grad():
            replay = Replay(run, by_statistics)
        run.result.micro_batches = 0
        targets = run.targets()

        def differentiated(replay=replay, targets=targets):
            leaves = map_tensors(lambda tensor: tensor.detach().requires_grad_(tensor.is_floating_point()), replay.outputs)
            loss = criterion(leaves, targets)
            by = [tensor for tensor in tensors_of(leaves) if tensor.requires_grad]
            if not loss.requires_grad:
                raise InfinityBatchError("the criterion's loss does not depend on the model's outputs")
            found = iter(torch.autograd.grad(loss, [*by, *criterion.parameters()], allow_unused=True))
            gradients = [next(found) if tensor.requires_grad else None for tensor in tensors_of(leaves)]
            of_criterion = {id(parameter): next(found) for parameter in criterion.parameters()}
            return loss.item(), gradients, [of_criterion.get(id(parameter)) for parameter in sums.parameters]

        run.result.loss, gradients, of_criterion = retried("the loss of all outputs of the batch", differentiated)
        try:
            replay.backward(gradients, sums)
            retried("the gradients of the criterion", lambda: sums.add(of_criterion))  # noqa: B023: called at once
        except _TooLarge:  # the draws belong to micro-batches that no longer fit: start again with smaller ones
            sums.clear()
            replay.before.restore()
            continue
        if keep:
            run.result.outputs, run.result.targets = replay.outputs, targets
        return


class Replay:
    """The first pass of two, with its micro-batches and their random draws, so that it can be repeated."""

    def __init__(self, run, by_statistics):
        self.run, self.modes = run, modes_of(run.engine.model)
        self.given = Marks(("an input", tensor) for tensor in tensors_of(run.batch.inputs))
        self.before = retried("the state of the model's buffers", run.snapshot)
        try:
            while True:
                try:
                    self.make(by_statistics)
                    self.used = Marks(constants_of(run.engine.model))
                    return
                except _TooLarge:
                    self.before.restore()
        except BaseException:
            self.before.restore()
            raise

    def make(self, by_statistics):
        self.steps, self.drew, self.statistics = [], True, BatchStatistics() if by_statistics else None
        if by_statistics:
            self.measure()
            self.before.restore_buffers()
        outputs = []

        def attempt(first, count):
            outputs.append(self.forward(self.run.fetch(first, count)[0])[0])

        if self.steps:
            self.repeat(attempt)
        else:
            self.record(attempt)
        self.outputs = retried("the outputs of the batch", lambda: concatenated(outputs))
        if by_statistics:
            move = lambda: self.statistics.move_running(self.before, len(outputs))  # noqa: E731
            retried("the running statistics", move)

    def forward(self, inputs):
        """Outputs of a micro-batch, and terms that are added to the loss."""
        if not self.statistics:
            return self.run.forward(inputs), []
        outputs, extras = self.statistics.run(self.run.call_model, inputs)
        return to_device(outputs, self.run.output_device), extras

    def record(self, attempt):
        """Runs all micro-batches and notes each, and whether they drew random numbers."""
        devices = self.run.devices
        before = RandomState(devices)

        def noted(first, count):
            random = RandomState(devices)
            attempt(first, count)
            self.steps.append((first, count, random))

        self.run.each(noted)
        self.drew = RandomState(devices) != before

    def repeat(self, attempt):
        """Runs each micro-batch again. If the model drew random numbers, the micro-batches and their draws are the same."""
        if not self.drew:
            self.run.each(attempt)
            return
        for first, count, random in self.steps:
            while True:
                if self.run.most_of(self.run.batch.size - first) < count:
                    raise _TooLarge
                random.restore()
                if self.run.tried(first, count, attempt):
                    break

    def repeat_from_the_start(self, attempt):
        """The same with the modes and buffers of the beginning. Then these and the generators are as before the call."""
        with modes_kept(self.run.engine.model, self.modes):
            now = retried("the state of the model's buffers", self.run.snapshot)
            self.before.restore_buffers()
            try:
                self.repeat(attempt)
            finally:
                now.restore()

    def measure(self):
        """Finds the statistics of the batch, one normalisation after another. The first pass runs the whole model, so its
        random draws are complete."""
        statistics = self.statistics

        def measured(measuring):
            def attempt(first, count):
                statistics.run(self.run.call_model, self.run.fetch(first, count)[0], measuring)
                statistics.add_measured()

            return attempt

        self.record(measured(False))
        retried("the statistics of the batch", statistics.end_measuring)
        while statistics.known < len(statistics.calls):
            self.repeat_from_the_start(measured(True))
            retried("the statistics of the batch", statistics.end_measuring)

    def differentiated(self, gradients, by, first, count, by_inputs=False):
        """The gradients of a micro-batch by the tensors `by` and, with `by_inputs`, by the inputs that require one."""
        inputs, _ = self.run.fetch(first, count)
        by = list(by)
        known = len(by)

        def leaf(tensor):
            if not tensor.requires_grad:
                return tensor
            by.append(tensor.detach().requires_grad_())
            return by[-1]

        inputs = map_tensors(leaf, inputs) if by_inputs else map_tensors(torch.Tensor.detach, inputs)
        outputs, extras = self.forward(inputs)
        torch.clear_autocast_cache()
        roots, seeds = list(extras), [torch.ones_like(extra) for extra in extras]
        for output, gradient in zip(tensors_of(outputs), gradients):
            if output.requires_grad and gradient is not None:
                roots.append(output)
                seeds.append(gradient.narrow(0, first, count).to(output.device))
        found = torch.autograd.grad(roots, by, seeds, allow_unused=True) if roots else [None] * len(by)
        of_inputs = [torch.zeros_like(tensor) if made is None else made for made, tensor in zip(found[known:], by[known:])]
        return list(found[:known]), of_inputs

    def find_adjoints(self, gradients):
        """The derivatives of the loss by the statistics, from the last normalisation to the first."""
        statistics = self.statistics
        for call in range(len(statistics.calls)):
            statistics.set_adjoints(call, None)
        for call in reversed(range(len(statistics.calls))):
            by = statistics.variables(call)
            sums = GradientSum(by)

            def attempt(first, count, by=by, sums=sums):
                sums.add(self.differentiated(gradients, by, first, count)[0])

            self.repeat_from_the_start(attempt)
            statistics.set_adjoints(call, sums.take())

    def backward(self, gradients, sums, of_inputs=None):
        """The second pass: adds to `sums`; `of_inputs` receives the gradients of the inputs, a list per micro-batch.

        Raises InfinityBatchError if what the first pass read has changed: the second would differ."""
        changed = self.given.changed() or self.used.changed()
        if changed:
            raise InfinityBatchError(
                f"{changed} was changed in the forward pass or after it; the backward pass runs the model again and needs it unchanged"
            )
        kind, dtype, enabled = self.run.autocast
        with torch.enable_grad(), torch.autocast(kind, dtype, enabled=enabled) if enabled else contextlib.nullcontext():
            if self.statistics:
                self.find_adjoints(gradients)
            self.run.result.micro_batches = 0

            def attempt(first, count):
                by, by_inputs = self.differentiated(gradients, sums.parameters, first, count, of_inputs is not None)
                sums.add(by)
                if of_inputs is not None:
                    of_inputs.append(by_inputs)

            self.repeat_from_the_start(attempt)


def constants_of(model):
    """Tensors that a forward pass only reads, each after its description: parameters, and buffers of modules in evaluation mode."""
    for name, parameter in model.named_parameters():
        yield f"parameter {name}", parameter
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False) if not module.training else ():
            yield f"buffer {prefix + '.' * bool(prefix) + name}", buffer


class _Recompute(torch.autograd.Function):
    """The outputs of a batch, whose gradients run the second pass."""

    @staticmethod
    def forward(context, replay, parameters, *by):
        context.replay, context.parameters = replay, parameters
        context.set_materialize_grads(False)
        made = [tensor.detach() for tensor in tensors_of(replay.outputs)]
        context.mark_non_differentiable(*[tensor for tensor in made if not tensor.is_floating_point()])
        return tuple(made)

    @staticmethod
    def backward(context, *gradients):
        replay = context.replay
        if torch.is_grad_enabled():
            raise InfinityBatchError("gradients of gradients (create_graph) do not go through micro-batches")
        sums, of_inputs = GradientSum(context.parameters), []
        try:
            replay.backward(gradients, sums, of_inputs)
        except _TooLarge:
            raise OutOfMemory(
                "memory ran out in the backward pass of a model that draws random numbers, whose micro-batches cannot be split; "
                "they are smaller from now on: call batch_() again"
            ) from None
        replay.run.engine.on_gradients()
        whole = retried("the gradients of the inputs", lambda: concatenated(of_inputs))
        return (None, None, *sums.take(), *whole)
