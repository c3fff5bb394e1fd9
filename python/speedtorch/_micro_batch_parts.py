"""Parts of `speedtorch.MicroBatches` that are independent of passes: nested tensors, the state that a forward pass changes, the
size of a micro-batch, sums of gradients, and the loss."""

import bisect
import contextlib
import dataclasses
import functools
import gc
import itertools
import math
import os
import sys
import time
import warnings
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional as F


class InfinityBatchError(RuntimeError):
    """A call that is impossible in this state, such as a step without an optimizer."""


class OutOfMemory(InfinityBatchError, MemoryError):
    """One sample, or a micro-batch of fixed size, does not fit into memory. No gradient was changed."""


class InfinityBatchWarning(UserWarning):
    """The base of all warnings of `MicroBatches`. `warnings.filterwarnings` says what becomes of each."""


class BatchNormWarning(InfinityBatchWarning):
    """Each micro-batch uses its own statistics."""


class CoupledCriterionWarning(InfinityBatchWarning):
    """The losses of micro-batches do not add up to the loss of the batch."""


class MissingCallWarning(InfinityBatchWarning):
    """A training loop left out `backward`, `step` or `zero_grad`."""


class ChangedWarning(InfinityBatchWarning):
    """Model, optimizer or criterion changed since the batch before, or were set twice."""


def warn(category, text):
    """Warns at the line of the program: the first that is neither in this package nor in torch."""
    inside = tuple(os.path.dirname(path) + os.sep for path in (__file__, torch.__file__))
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def map_tensors(function, *values):
    """Applies `function` to the tensors of equally nested tuples, lists and mappings.

    Raises TypeError for a leaf that is neither a tensor nor None, a number or a truth value: it cannot be split."""
    first = values[0]
    if isinstance(first, torch.Tensor):
        return function(*values)
    if isinstance(first, Mapping):
        made = {key: map_tensors(function, *(value[key] for value in values)) for key in first}
        return made if type(first) is dict else type(first)(made)
    if isinstance(first, (tuple, list)):
        made = [map_tensors(function, *parts) for parts in zip(*values)]
        return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        parts = {name: map_tensors(function, *(getattr(value, name) for value in values)) for name in names}
        return dataclasses.replace(first, **parts)
    if first is None or isinstance(first, (bool, int, float)):
        return first
    raise TypeError(f"a {type(first).__name__} cannot be split into micro-batches; give tensors, or tuples, lists or dicts of them")


def tensors_of(value):
    found = []
    map_tensors(found.append, value)
    return found


def concatenated(pieces):
    """One batch of its micro-batches. Raises ValueError for a tensor without a dimension of samples."""

    def joined(*tensors):
        if tensors[0].dim() == 0:
            raise ValueError("an output of the model is one number; outputs that are put together need one row per sample")
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors)

    return map_tensors(joined, *pieces)


def to_device(value, device):
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), value)


class Batch:
    """Inputs and targets whose tensors have the same number of samples, their first dimension."""

    def __init__(self, inputs, targets=None):
        self.inputs, self.targets = inputs, targets
        tensors = tensors_of((inputs, targets))
        if not tensors:
            raise TypeError("the batch has no tensor")
        for tensor in tensors:
            if tensor.dim() == 0 or tensor.size(0) != tensors[0].size(0):
                raise ValueError(
                    f"a batch has tensors of shapes {tuple(tensors[0].shape)} and {tuple(tensor.shape)}; "
                    "the first dimension of each must be the number of samples"
                )
        self.size = tensors[0].size(0)
        if self.size == 0:
            raise ValueError("the batch has no samples")

    def samples(self, first, count):
        return tuple(map_tensors(lambda tensor: tensor.narrow(0, first, count), part) for part in (self.inputs, self.targets))

    def shape(self):
        """Shape and dtype of one sample, in words."""
        return ", ".join(f"{list(t.shape[1:])} {str(t.dtype).removeprefix('torch.')}" for t in tensors_of(self.inputs))


class RandomState:
    """The state of torch's default generators, on the CPU and on these devices."""

    def __init__(self, devices=()):
        self.cpu = torch.get_rng_state()
        self.of_devices = [(device, torch.cuda.get_rng_state(device)) for device in devices if device.type == "cuda"]

    def restore(self):
        torch.set_rng_state(self.cpu)
        for device, state in self.of_devices:
            torch.cuda.set_rng_state(state, device)

    def __eq__(self, other):
        mine, others = ([s.cpu, *(state for _, state in s.of_devices)] for s in (self, other))
        return all(map(torch.equal, mine, others))


def version_of(tensor):
    """How often torch counted a write to the tensor; None if it does not count."""
    return None if tensor.is_inference() else tensor._version


class Snapshot:
    """The state that a forward pass changes: random generators, and buffers of modules in training mode."""

    def __init__(self, model, devices):
        self.random = RandomState(devices)
        self.buffers = [
            (module, name, buffer, buffer.clone(), version_of(buffer))
            for module in model.modules()
            if module.training
            for name, buffer in module.named_buffers(recurse=False)
        ]

    def restore(self):
        self.random.restore()
        self.restore_buffers()

    @torch.no_grad()
    def restore_buffers(self):
        """A buffer whose version stayed keeps it, because outputs of other batches may need it unchanged. Its value is copied
        all the same: batch_norm moves running statistics without counting them up."""
        for module, name, buffer, value, version in self.buffers:
            if getattr(module, name) is not buffer:
                setattr(module, name, buffer)
            is_counted = version is None or version_of(buffer) != version
            (buffer if is_counted else buffer.data).copy_(value)


class Marks:
    """Notes about named tensors, by which `changed()` finds the first one that was changed in place or whose data moved.
    Like torch, it does not see writes that torch does not count, such as those through NumPy."""

    def __init__(self, named):
        self.noted = [(name, tensor, self.mark(tensor)) for name, tensor in named]

    @staticmethod
    def mark(tensor):
        has_data = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout == torch.strided
        return version_of(tensor), tensor.data_ptr() if has_data else None

    def changed(self):
        """The name of the first one, or None."""
        return next((name for name, tensor, mark in self.noted if self.mark(tensor) != mark), None)


def modes_of(model):
    return [(module, module.training) for module in model.modules()]


@contextlib.contextmanager
def modes_kept(model, modes=()):
    """Sets `modes` of modules. At the end each module of the model is in training or evaluation mode as before."""
    before = modes_of(model)
    try:
        for module, mode in modes:
            module.training = mode
        yield
    finally:
        for module, mode in before:
            module.training = mode


MEMORY_WORDS = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "out of memory",
                "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")  # fmt: skip


def is_out_of_memory(error):
    """True for torch's and Python's errors of this kind (this library's are Python's), and for those that only their text
    tells: of torch's CPU allocator, cuBLAS and cuDNN."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in MEMORY_WORDS)


def had_memory_for(work):
    """Runs `work`. Returns false if memory ran out; then nothing that `work` held is alive and torch's cache is empty."""
    try:
        work()
        return True
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return False


def retried(what, work):
    """The result of `work`, which runs once more if memory runs out."""
    found = []
    if had_memory_for(lambda: found.append(work())) or had_memory_for(lambda: found.append(work())):
        return found[0]
    raise OutOfMemory(f"{what} does not fit into memory; no gradient was changed")


class SpeedTrials:
    """Chooses the fastest of `largest` samples, a half of them, a quarter, and so on, from the times of a training's
    micro-batches: nothing runs for the comparison alone. A smaller size is tried only while the one before it is not clearly
    slower than the best. Each size runs several times, the sizes in turn, and is judged by the median of its times per sample:
    on a shared processor some runs are far longer and some far shorter than the others. A size that is clearly slower than the
    best runs no more. Sizes that are near each other run more often. speed_trials.cpp has the measurements."""

    # After FEW_RUNS a size is slow if even its shortest run is longer than SLOW times the best median. After RUNS it is out if
    # each of its runs is longer than SAME times each run of the best.
    FEW_RUNS, RUNS, SLOW, SAME = 3, 5, 1.25, 1.02
    RUNS_OF_NEAR = 25  # of a size that is not out
    MOST_RUNS = 192  # of all sizes; batches that became smaller may not reach the largest again

    def __init__(self, largest, smallest):
        self.sizes = [largest]
        while smallest <= (half := (self.sizes[-1] + 1) // 2) < self.sizes[-1]:
            self.sizes.append(half)
        self.per_sample = {size: [] for size in self.sizes}  # seconds of each run, in order of length

    def runs(self, size):
        return len(self.per_sample[size])

    def median(self, size):
        times = self.per_sample[size]
        return times[(len(times) - 1) // 2] if times else math.inf

    def best(self):
        return min(self.sizes, key=self.median)

    def is_slow(self, size):
        return self.runs(size) >= self.FEW_RUNS and self.per_sample[size][0] > self.SLOW * self.median(self.best())

    def is_out(self, size):
        is_longer = self.runs(size) >= self.RUNS and self.per_sample[size][0] > self.SAME * self.per_sample[self.best()][-1]
        return is_longer or self.is_slow(size)

    def needs_runs(self, size):
        if self.is_out(size):
            return False
        if self.runs(size) < self.RUNS:
            return True
        still_in = [other for other in self.sizes if self.runs(other) and not self.is_out(other)]
        return self.runs(size) < self.RUNS_OF_NEAR and len(still_in) > 1

    def compared(self):
        """The sizes that are compared so far: a size stays among them once it has run."""
        count = 1
        for before, size in itertools.pairwise(self.sizes):
            if not self.runs(size) and (self.runs(before) < self.FEW_RUNS or self.is_slow(before)):
                break
            count += 1
        return self.sizes[:count]

    @staticmethod
    def is_about(samples, size):
        """True for a micro-batch of about this size: parts of a batch differ by a sample."""
        return samples <= size and 8 * samples >= 7 * size

    def following(self, left):
        """The size of the next micro-batch if `left` samples are left; at most `left`."""
        fit = [size for size in self.sizes if size <= left or self.is_about(left, size)]
        compared = self.compared()
        needed = [size for size in fit if size in compared and self.needs_runs(size)]
        return min(min(needed, key=self.runs) if needed else fit[0] if fit else left, left)

    def timed(self, samples, seconds):
        """Takes the time of a micro-batch of any size. Sizes that are not compared are ignored."""
        for size in self.sizes:
            if self.is_about(samples, size):
                bisect.insort(self.per_sample[size], seconds / samples)
                return

    def fastest(self):
        """The largest size that is at most 2 % slower than the fastest, because fewer micro-batches cost less per batch.
        0 while more runs are needed."""
        compared = self.compared()
        if len(self.sizes) > 1 and sum(map(self.runs, self.sizes)) < self.MOST_RUNS and any(map(self.needs_runs, compared)):
            return 0
        most = self.SAME * self.median(self.best())
        return next(size for size in self.sizes if self.median(size) <= most)


def is_clearly_more(samples, than):
    """True if memory or a larger batch permits clearly more than was compared."""
    return 4 * samples > 5 * than


def equal_part(samples, most):
    """The size of the parts if `samples` are cut into as few equal parts of at most `most` as possible."""
    parts = -(-samples // most)
    return -(-samples // parts)


class MicroBatchSize:
    """One size per key (the shape of a sample, and whether gradients are computed), found by trial. It doubles while that
    works. When memory runs out it halves, and then grows half-way once, so it ends within a quarter of what fits. Then the
    fastest of the sizes up to it is chosen, by the times of the micro-batches that follow."""

    clock = staticmethod(time.perf_counter)  # seconds

    def __init__(self, fixed=None, first=8, largest=None, by_speed=True, grow_again_after=1024):
        for name, value in (("micro_batch", fixed), ("first", first), ("largest", largest), ("grow_again_after", grow_again_after)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name} is {value!r}; take a whole number of samples, 1 or more")
        if not isinstance(by_speed, bool):
            raise ValueError(f"by_speed is {by_speed!r}; take True or False")
        self.fixed, self.first, self.largest, self.grow_again_after = fixed, first, largest, grow_again_after
        self.by_speed = by_speed
        self.entries = {}
        self.trials = {}  # of the keys whose sizes are being compared

    def bounded(self, samples):
        return self.fixed or max(1, min(samples, self.largest or samples))

    def entry(self, key):
        new = {"size": self.bounded(self.first), "good": 0, "bad": 0, "since_bad": 0, "bad_had_worked": False, "tried_again": False,
               "fastest": 0, "compared_to": 0}  # fmt: skip
        return self.entries.setdefault(key, new)

    def of(self, key):
        """The known number of samples that memory permits."""
        return self.bounded(self.entry(key)["size"])

    def following(self, key, batch, left):
        """Samples of the next micro-batch if `left` of a batch are left. Once the size is final, the rest is cut into equal
        parts instead of full ones and a remainder."""
        now, permitted = self.entry(key), self.of(key)
        if not self.by_speed or self.fixed or torch.are_deterministic_algorithms_enabled():
            return equal_part(left, permitted) if self.settled(key) else min(permitted, left)
        in_reach = self.bounded(self.next_up(now)) if now["size"] > now["good"] else permitted
        may_be_larger = now["fastest"] == now["compared_to"] and is_clearly_more(equal_part(batch, in_reach), now["compared_to"])
        if 0 < now["fastest"] <= permitted and not may_be_larger:
            return equal_part(left, now["fastest"])
        now["fastest"] = 0
        if now["size"] > now["good"] and now["good"] < batch:  # still grows
            return min(permitted, left)
        compared = self.running_trials(key, equal_part(batch, permitted))
        if fastest := compared.fastest():
            now.update(fastest=fastest, compared_to=compared.sizes[0])
            del self.trials[key]
            return equal_part(left, fastest)
        return compared.following(left)

    def running_trials(self, key, largest):
        """The running comparison, or a new one if memory or the batch permits other sizes now."""
        running = self.trials.get(key)
        if running is None or self.of(key) < running.sizes[0] or is_clearly_more(largest, running.sizes[0]):
            running = self.trials[key] = SpeedTrials(largest, max(2, self.first))
        return running

    def remember(self, entries):
        self.entries, self.trials = entries, {}

    def timed(self, key, samples, seconds):
        if key in self.trials:
            self.trials[key].timed(samples, seconds)

    @staticmethod
    def next_up(now):
        """Twice the size, or half-way to the size that failed; the same if that is too near to be worth a trial."""
        if not now["bad"]:
            return 2 * now["size"]
        following = min(2 * now["size"], (now["size"] + now["bad"]) // 2)
        return now["size"] if following - now["size"] < max(1, now["size"] // 4) else following

    def worked(self, key, samples):
        now = self.entry(key)
        now.update(good=max(now["good"], samples), tried_again=False, since_bad=now["since_bad"] + 1)
        if now["bad_had_worked"] and now["since_bad"] > self.grow_again_after:
            now["bad"] = 0
        if samples >= now["size"] and not self.fixed:  # fewer: the remainder of a batch
            now["size"] = max(now["size"], self.bounded(self.next_up(now)))

    def settled(self, key):
        """True if the size works and no larger one would be tried."""
        now = self.entry(key)
        return not self.fixed and now["size"] <= now["good"] and self.bounded(self.next_up(now)) <= now["size"]

    def ran_out(self, key, samples):
        """Returns what to do: "again" with the same size, "smaller", or "give up"."""
        now = self.entry(key)
        had_worked = samples <= now["good"]
        if (had_worked or self.fixed) and not now["tried_again"]:  # another process may have used the memory for a moment
            now["tried_again"] = True
            return "again"
        now["tried_again"] = False
        if self.fixed or samples <= 1:
            return "give up"
        now.update(bad=samples, bad_had_worked=had_worked, since_bad=0)
        now["size"] = now["good"] if now["good"] < samples <= 2 * now["good"] else samples // 2
        now["good"] = min(now["good"], now["size"])
        return "smaller"


class GradientSum:
    """The gradients of a batch, apart from the parameters' `.grad` until `publish`. Each function allocates before it
    changes anything, so what it throws leaves the sums as they were."""

    BLOCK = 32  # micro-batches that are added up before their sum is added to the total: fewer roundings

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.clear()

    def clear(self):
        """Each sum is None, or a tensor and whether no one else has it: autograd may return the same tensor twice."""
        self.sums, self.total, self.in_sums = [None] * len(self.parameters), [None] * len(self.parameters), 0

    @staticmethod
    @torch.no_grad()
    def add_all(into, more):
        def added(a, b):
            if a is None or b is None:
                return a or b
            in_place = a[1] and a[0].layout == b[0].layout == torch.strided
            return None if in_place else (a[0] + b[0], True)

        for i, made in enumerate([added(a, b) for a, b in zip(into, more)]):
            if made is None and into[i] is not None:
                into[i][0].add_(more[i][0])
            else:
                into[i] = made

    def add(self, gradients):
        """Adds one gradient per parameter, or None for a parameter without one."""
        if self.in_sums == self.BLOCK:
            self.fold()
        self.add_all(self.sums, [None if gradient is None else (gradient, False) for gradient in gradients])
        self.in_sums += 1

    def fold(self):
        self.add_all(self.total, self.sums)
        self.sums, self.in_sums = [None] * len(self.parameters), 0

    def take(self):
        """Returns the sums and clears them. A sum is None if no micro-batch had a gradient."""
        self.fold()
        total = [slot and slot[0] for slot in self.total]
        self.clear()
        return total

    @torch.no_grad()
    def publish(self):
        """Adds the sums to the parameters' gradients."""
        self.fold()
        changed = [(parameter, *slot) for parameter, slot in zip(self.parameters, self.total) if slot]
        ready = [self.new_gradient(*each) for each in changed]
        for (parameter, gradient, _), new in zip(changed, ready):
            if new is None:
                parameter.grad.add_(gradient)
            else:
                parameter.grad = new
        self.clear()

    @staticmethod
    def new_gradient(parameter, gradient, owned):
        """None if `.grad` can be added to in place. This allocates nothing and does not move it."""
        if parameter.grad is not None:
            return None if parameter.grad.layout == gradient.layout == torch.strided else parameter.grad + gradient
        if owned or gradient.layout != torch.strided:
            return gradient
        return torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)


MEAN_OF_CLASSES = (F.cross_entropy, F.nll_loss)
NAMES_OF_MEAN = ("mean", "batchmean", "elementwise_mean")


class Criterion:
    """A loss, and how the loss of a batch follows from those of its parts: `mean` (weighted by samples, or by the weights of
    their classes), `sum`, or `coupled`, if the loss of a sample depends on other samples."""

    def __init__(self, function, reduction=None, divisor=None):
        """`divisor(targets)` is the number that a mean over these samples is divided by, if it is not their count."""
        if not callable(function):
            raise TypeError(f"the criterion is a {type(function).__name__}; it must be callable, as criterion(outputs, targets)")
        self.check_options(reduction, divisor)
        self.function, self.stated, self.divisor = function, reduction, divisor
        if self.reduction() != "mean" and divisor:
            raise ValueError(f"divisor is for means, and the criterion's reduction is {self.reduction()!r}; leave divisor out")

    @staticmethod
    def check_options(reduction, divisor):
        if reduction not in (None, "mean", "sum", "coupled"):
            raise ValueError(f"reduction is {reduction!r}; take 'mean', 'sum' or 'coupled'")
        if divisor is not None and not callable(divisor):
            raise TypeError(f"divisor is a {type(divisor).__name__}; it must be callable, as divisor(targets)")

    def options(self):
        """Keyword arguments of a partial of torch's functions."""
        return self.function.keywords if isinstance(self.function, functools.partial) else {}

    def reduction(self, targets=None):
        if self.stated:
            return self.stated
        name = self.options().get("reduction", getattr(self.function, "reduction", "mean"))
        if name not in ("sum", *NAMES_OF_MEAN):
            raise ValueError(f"the criterion's reduction is {name!r}, which gives one loss per sample; take 'mean' or 'sum'")
        if self.weighs_samples(targets):
            return "coupled"
        return "sum" if name == "sum" else "mean"

    def weighs_samples(self, targets):
        """True for a binary cross entropy with one weight per sample: only the whole batch has the right ones."""
        weight = getattr(self.function, "weight", None) if isinstance(self.function, (nn.BCELoss, nn.BCEWithLogitsLoss)) else None
        if weight is None or not isinstance(targets, torch.Tensor):
            return False
        return weight.dim() == targets.dim() and weight.size(0) != 1

    def weight(self, targets, samples):
        """The divisor of the mean over these samples."""
        if self.divisor:
            return float(self.divisor(targets))
        of_classes = isinstance(self.function, (nn.CrossEntropyLoss, nn.NLLLoss))
        options = vars(self.function) | self.function._buffers if of_classes else self.options()
        if not of_classes and self.function not in MEAN_OF_CLASSES and getattr(self.function, "func", None) not in MEAN_OF_CLASSES:
            return float(samples)
        if not isinstance(targets, torch.Tensor):
            kind = type(targets).__name__
            raise TypeError(f"the targets are a {kind}; this criterion needs a tensor of classes: give (inputs, targets)")
        if targets.is_floating_point():  # probabilities of classes
            return float(samples)
        counted = targets[targets != options.get("ignore_index", -100)]
        weights = options.get("weight")
        return float(counted.numel() if weights is None else weights.to(counted.device)[counted].sum(dtype=torch.float64))

    def parameters(self):
        return [p for p in self.function.parameters() if p.requires_grad] if isinstance(self.function, nn.Module) else []

    def __call__(self, outputs, targets):
        loss = self.function(outputs) if targets is None else self.function(outputs, targets)
        if not isinstance(loss, torch.Tensor) or loss.dim():
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
            raise ValueError(f"the criterion gave {got}; a loss is one number without dimensions; take its mean() or sum()")
        return loss
