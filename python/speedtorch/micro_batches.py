"""Training with batches that exceed the device's memory, with the gradients of the whole batch."""

import collections
import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from speedtorch import _torch_files
from speedtorch._micro_batch_parts import (
    Batch,
    BatchNormWarning,
    ChangedWarning,
    CoupledCriterionWarning,
    Criterion,
    InfinityBatchError,
    InfinityBatchWarning,
    MicroBatchSize,
    MissingCallWarning,
    OutOfMemory,
    RandomState,
    Snapshot,
    had_memory_for,
    is_out_of_memory,
    modes_kept,
    retried,
    warn,
)
from speedtorch._micro_batch_passes import BatchResult, Engine

__all__ = [
    "BatchNormWarning",
    "BatchResult",
    "ChangedWarning",
    "CoupledCriterionWarning",
    "EpochResult",
    "InfinityBatch",
    "InfinityBatchError",
    "InfinityBatchWarning",
    "MicroBatches",
    "MissingCallWarning",
    "OutOfMemory",
]


@dataclass
class EpochResult:
    """Totals of an epoch. The loss is the mean of the batches' losses, weighted by samples."""

    epoch: int = 0
    loss: float = 0.0
    samples: int = 0
    batches: int = 0
    micro_batches: int = 0
    largest_micro_batch: int = 0
    refusals: int = 0


class Monitor:
    """Warns of calls that a loop left out, and of changes of what it trains."""

    def __init__(self):
        self.seen, self.batches, self.waiting, self.stepped = {}, 0, 0, False

    def inspect(self, model, optimizers, criterion):
        named = list(model.named_parameters())
        now = {
            "the model's parameters": [(id(p), p.requires_grad, p.device, p.dtype) for _, p in named],
            "the model's mode": model.training,
        }
        if optimizers:
            now["the optimizers' groups"] = [[len(group["params"]) for group in each.param_groups] for each in optimizers]
            optimized = {id(p) for each in optimizers for group in each.param_groups for p in group["params"]}
            left_out = next((name for name, p in named if p.requires_grad and id(p) not in optimized), None)
            if left_out:
                warn(ChangedWarning, f"parameter {left_out} requires a gradient, but no optimizer has it: it is not trained")
        if criterion:
            now["the criterion's reduction"] = criterion.reduction()
        for what, value in now.items():
            if self.seen.get(what, value) != value:
                warn(ChangedWarning, f"{what} changed since the batch before: {self.change(self.seen[what], value, named)}")
        self.seen.update(now)

    @staticmethod
    def change(before, now, named):
        if not isinstance(now, list) or len(now) != len(before) or len(now) != len(named):
            return f"{len(before)} and now {len(now)}" if isinstance(now, list) else f"{before} and now {now}"
        name = next(named[i][0] for i in range(len(now)) if now[i] != before[i])
        return f"{name} is another tensor, on another device, of another dtype, or was frozen or thawed"

    def outputs_made(self):
        if self.waiting:
            warn(MissingCallWarning, "outputs of a second batch were made before backward() of the first")
        self.waiting += 1

    def gradients_made(self):
        self.waiting = 0
        if self.stepped:
            text = "gradients are added to those that a step has used already: zero_grad() is missing after step()"
            warn(MissingCallWarning, text)
        elif self.batches:
            text = "gradients of a second batch are added to those of the first: step() is missing after backward()"
            warn(MissingCallWarning, text)
        self.batches += 1

    def stepping(self, has_gradients):
        if not has_gradients:
            warn(MissingCallWarning, "a step without any gradient: backward() is missing before step()")
        elif self.stepped and not self.batches:
            warn(MissingCallWarning, "a second step with the same gradients: backward() is missing before it")

    def stepped_all(self):
        self.stepped, self.batches, self.waiting = True, 0, 0

    def zeroing(self):
        if self.batches and not self.stepped:
            warn(MissingCallWarning, "gradients are dropped that no step has used: step() is missing")
        self.dropped()

    def dropped(self):
        self.stepped, self.batches = False, 0


def is_contiguous(optimizer):
    """True for those of speedtorch.optim whose states are not in `state`, but in buffers."""
    return getattr(optimizer, "_contiguous", False)


def allocates_nothing(optimizer):
    """True for an optimizer that declares it, for contiguous ones of speedtorch.optim, and for torch's SGD if it only adds in
    place."""
    if getattr(optimizer, "allocates_nothing", False) or is_contiguous(optimizer):
        return True
    plain = type(optimizer) is torch.optim.SGD and all(
        not (g["momentum"] or g["weight_decay"] or g["maximize"] or g["differentiable"]) for g in optimizer.param_groups
    )
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return plain and all(p.device.type == "cpu" and p.grad.layout == torch.strided and p.grad.dtype == p.dtype for p in parameters)


class Before:
    """Parameters and states before a step, on the host."""

    def __init__(self, optimizers):
        def copied(value):
            return (value, value.detach().to("cpu", copy=True)) if isinstance(value, torch.Tensor) else (value, None)

        def states(optimizer):
            return {p: {name: copied(value) for name, value in state.items()} for p, state in optimizer.state.items()}

        self.flat = [(each, copy.deepcopy(each.state_dict())) for each in optimizers if is_contiguous(each)]
        self.states = [(each, states(each)) for each in optimizers if not is_contiguous(each)]
        self.parameters = [copied(p) for each in optimizers for group in each.param_groups for p in group["params"]]

    @torch.no_grad()
    def restore(self):
        for tensor, value in self.parameters:
            tensor.copy_(value)
        for optimizer, state in self.flat:
            optimizer.load_state_dict(state)
        for optimizer, states in self.states:
            optimizer.state.clear()
            for parameter, state in states.items():
                optimizer.state[parameter] = {key: value for key, (value, _) in state.items()}
                for tensor, value in state.values():
                    if value is not None:
                        tensor.copy_(value)


def group_names(optimizer_state):
    """The names of the options of each group, and the number of its parameters."""
    return [(sorted(map(str, group)), len(group["params"])) for group in optimizer_state["param_groups"]]


class Checkpoint:
    """What MicroBatches.save() wrote. Raises ValueError naming the file for any other content."""

    def __init__(self, path, content):
        self.path, self.content = path, content
        kinds = {"model": dict, "optimizers": list, "place": dict, "so_far": dict, "sizes": dict, "random": dict}
        _torch_files.check_entries(path, content, kinds | {"epoch_random": (dict, type(None))})
        _torch_files.check_entries(path, content["place"], dict.fromkeys(("epoch", "batch", "step"), int))
        numbers = dict.fromkeys(vars(EpochResult()), (int, float))
        _torch_files.check_entries(path, content["so_far"], numbers)
        self.so_far = EpochResult(**{name: content["so_far"][name] for name in numbers})
        for entry in content["sizes"].values():
            _torch_files.check_entries(path, entry, dict.fromkeys(MicroBatchSize().entry("any"), int))
        self.random = {name: self._random(content[name]) for name in ("random", "epoch_random")}

    def _random(self, saved):
        if saved is None:  # before the first epoch
            return None
        _torch_files.check_entries(self.path, saved, {"cpu": torch.Tensor, "devices": list})
        made = RandomState()
        try:
            made.cpu = saved["cpu"].cpu()
            made.of_devices = [(torch.device(device), state.cpu()) for device, state in saved["devices"]]
            for device, state in [("cpu", made.cpu), *made.of_devices]:
                torch.Generator(device).set_state(state)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} has states of random generators that cannot be set here: {error}") from error
        return made

    def check_model(self, model):
        mine, saved = model.state_dict(), self.content["model"]
        if mine.keys() != saved.keys():
            name = min(mine.keys() ^ saved.keys(), key=str)
            raise ValueError(f"{self.path} is of another model: only one of both has {name}")
        for name, value in mine.items():
            here, there = self._described(value), self._described(saved[name])
            if here != there:
                raise ValueError(f"{self.path} is of another model: {name} is {there} there and {here} here")

    @staticmethod
    def _described(value):
        """Shape and dtype of a tensor, else the type: a module may add states of its own kind."""
        return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"

    def check_optimizers(self, optimizers):
        for state in self.content["optimizers"]:
            _torch_files.check_entries(self.path, state, {"state": dict, "param_groups": list})
            for group in state["param_groups"]:
                _torch_files.check_entries(self.path, group, {"params": list})
            _torch_files.check_entries(self.path, state["state"], dict.fromkeys(state["state"], dict))
        if list(map(group_names, self.content["optimizers"])) != [group_names(each.state_dict()) for each in optimizers]:
            raise ValueError(f"{self.path} is of other optimizers: their numbers, options or groups of parameters differ")

    def load_states(self, model, optimizers):
        """Loads model and optimizers. If one of them refuses, all are as before."""
        before = StatesBefore(model, optimizers)
        try:
            model.load_state_dict(self.content["model"])
            for optimizer, state in zip(optimizers, self.content["optimizers"]):
                optimizer.load_state_dict(state)
        except BaseException as error:
            before.restore()
            if not isinstance(error, Exception) or is_out_of_memory(error):
                raise
            raise ValueError(f"{self.path} cannot be loaded into this model and these optimizers: {error}") from error


class StatesBefore:
    """States of a model, copied to the host, and of its optimizers, before others are loaded."""

    def __init__(self, model, optimizers):
        self.model = model
        self.of_model = {
            name: value.to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)
            for name, value in model.state_dict().items()
        }
        self.flat = [(each, copy.deepcopy(each.state_dict())) for each in optimizers if is_contiguous(each)]
        # torch's load_state_dict() makes other dicts and tensors and leaves these alone.
        self.of_optimizers = [(each, each.state, each.param_groups) for each in optimizers if not is_contiguous(each)]

    def restore(self):
        self.model.load_state_dict(self.of_model)
        for optimizer, state in self.flat:
            optimizer.load_state_dict(state)
        for optimizer, state, groups in self.of_optimizers:
            optimizer.state, optimizer.param_groups = state, groups


class MicroBatches:
    """Trains a module with batches of any size: runs each in micro-batches and steps once, with the gradients of the whole.

    `MicroBatches(model, optimizer, criterion, dataloader)`, or the same names as properties, each of the first three set
    once. Then one of

    - `micro(200)` or `micro.train(200)`: that many epochs;
    - `micro.epoch()` in a loop;
    - `outputs = micro.batch_(inputs)`, a loss of your own with `backward()`, `micro.step()`, `micro.zero_grad()`.

    A batch is a pair (inputs, targets). Inputs are a tensor `[samples, ...]`, or a tuple or dict of such, which the model
    gets as arguments. The criterion is called with (outputs, targets).

    - `optimizer`: one of torch's or a list of them, which step together: all or none.
    - `reduction`: `"mean"`, `"sum"` or `"coupled"` (the loss of a sample depends on others: two passes). Default: the
      criterion's own `reduction`, or `"mean"`. Class weights and ignored classes of torch's losses are known;
      `divisor(targets)` says what the mean of another loss is divided by.
    - `micro_batch`: samples of each micro-batch. Default: found by trial, from `first` on, at most `largest`; the fastest of
      the sizes that fit, or with `by_speed=False` and with torch's deterministic algorithms the largest.
    - `batch_norm`: `"refuse"`, `"per_micro_batch"` or `"exact"`.
    - `backward_device`: where outputs, targets and losses are. Default: the model's device.
    - `progress`: a bar of tqdm per epoch. Default: if tqdm is there and the output a terminal.

    Raises ValueError and TypeError for arguments, InfinityBatchError for calls out of order, OutOfMemory (a MemoryError) if
    one sample does not fit. Not thread-safe."""

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | list | None = None,
        criterion: Callable | None = None,
        dataloader: Iterable | None = None,
        *,
        reduction: str | None = None,
        divisor: Callable | None = None,
        micro_batch: int | None = None,
        first: int = 8,
        largest: int | None = None,
        by_speed: bool = True,
        batch_norm: str = "refuse",
        backward_device: torch.device | str | None = None,
        check_criterion: bool = True,
        keep_losses: int = 10_000,
        progress: bool | None = None,
    ):
        self._engine_options = {"batch_norm": batch_norm, "check_criterion": check_criterion}
        self._sizes = MicroBatchSize(micro_batch, first, largest, by_speed)
        Engine(torch.nn.Module(), **self._engine_options)  # refuses wrong options
        Criterion.check_options(reduction, divisor)
        self._criterion_options = {"reduction": reduction, "divisor": divisor}
        self._backward_device = None if backward_device is None else torch.device(backward_device)
        self._engine = self._optimizers = self._criterion = self._dataloader = None
        self._monitor = Monitor()
        self._progress = progress
        self._place = {"epoch": 0, "batch": 0, "step": 0}
        self._so_far = EpochResult()
        self._iterator = self._pending = self._resumed = self._epoch_random = None
        self._in_batch = False
        self._last_loss = None
        self._keep_outputs = False
        self._recent_losses = collections.deque(maxlen=keep_losses)
        for name, value in (("model", model), ("optimizer", optimizer), ("criterion", criterion), ("dataloader", dataloader)):
            if value is not None:
                setattr(self, name, value)

    def __repr__(self):
        model = "no model" if self._engine is None else type(self._engine.model).__name__
        sizes = ", ".join(f"{entry['size']} per {key}" for key, entry in self._sizes.entries.items()) or "no size tried"
        return f"{type(self).__name__}({model}; {sizes}; epoch {self._place['epoch']}, batch {self._place['batch']})"

    # Model, optimizer and criterion. A second assignment is ignored with a warning.

    def _is_set(self, what, value):
        if value is not None:
            warn(ChangedWarning, f"the {what} was set before; the first one stays")
        return value is not None

    @property
    def model(self) -> torch.nn.Module | None:
        return self._engine and self._engine.model

    @model.setter
    def model(self, model):
        if self._is_set("model", self._engine):
            return
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"the model is a {type(model).__name__}; it must be a torch.nn.Module")
        self._engine = Engine(model, sizes=self._sizes, output_device=self._backward_device, **self._engine_options)
        self._engine.on_gradients = self._monitor.gradients_made

    @property
    def optimizer(self):
        if self._optimizers is None:
            return None
        return self._optimizers[0] if len(self._optimizers) == 1 else list(self._optimizers)

    @optimizer.setter
    def optimizer(self, optimizer):
        if self._is_set("optimizer", self._optimizers):
            return
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        if not optimizers:
            raise ValueError("the list of optimizers is empty; give one or more")
        for each in optimizers:
            if not hasattr(each, "param_groups") or not callable(getattr(each, "step", None)):
                raise TypeError(f"the optimizer is a {type(each).__name__}; it must be a torch.optim.Optimizer, or a list of them")
        self._optimizers = optimizers

    @property
    def criterion(self):
        return self._criterion and self._criterion.function

    @criterion.setter
    def criterion(self, criterion):
        if not self._is_set("criterion", self._criterion):
            self._criterion = Criterion(criterion, **self._criterion_options)

    @property
    def dataloader(self):
        return self._dataloader

    @dataloader.setter
    def dataloader(self, dataloader):
        """May be set repeatedly. Abandons an interrupted epoch."""
        self._dataloader, self._iterator, self._pending = dataloader, None, None

    @property
    def losses(self) -> collections.deque:
        """(loss, samples) of the last `keep_losses` batches since train() began."""
        return self._recent_losses

    @property
    def forward_device(self) -> torch.device:
        return self._needed_engine().device

    @property
    def backward_device(self) -> torch.device:
        return self._backward_device or self.forward_device

    @backward_device.setter
    def backward_device(self, device):
        self._backward_device = None if device is None else torch.device(device)
        if self._engine:
            self._engine.output_device = self._backward_device

    def _needed_engine(self):
        if self._engine is None:
            raise InfinityBatchError("there is no model yet: set .model before the first batch")
        return self._engine

    def _need(self, *names):
        for name in names:
            if getattr(self, name) is None:
                raise InfinityBatchError(f"there is no {name} yet: set .{name} first")

    # Training.

    def __call__(self, epochs: int) -> EpochResult | None:
        return self.train(epochs)

    def train(self, epochs: int) -> EpochResult | None:
        """Trains for `epochs` epochs, of which the first may be an interrupted one. Returns the `EpochResult` of the last."""
        if not isinstance(epochs, int) or epochs < 0:
            raise ValueError(f"train({epochs!r}): take 0 epochs or more")
        self._recent_losses.clear()
        last = None
        for _ in range(epochs):
            last = self.epoch()
        return last

    def epoch(self) -> EpochResult:
        """Trains for one pass over the data. Returns its `EpochResult`.

        If anything throws, the batch leaves no gradient, statistics or random draws behind, and the next epoch() goes on
        with it. A batch whose step was done counts as done."""
        self._need("model", "optimizer", "criterion", "dataloader")
        if self._iterator is None:
            self._iterator = self._start_epoch()
        with self._bar() as advance:
            while True:
                if self._pending is None:
                    self._pending = next(self._iterator, None)
                if self._pending is None:
                    break
                self._train_batch(*self._pair(self._pending))
                self._pending = None
                advance()
        self._iterator = None
        done, self._so_far = self._so_far, EpochResult()
        if not done.samples:
            raise InfinityBatchError("the data gave no batch in this epoch")
        done.loss /= done.samples
        done.epoch, done.batches = self._place["epoch"], self._place["batch"]
        self._place.update(epoch=done.epoch + 1, batch=0)
        return done

    @staticmethod
    def _pair(item):
        if isinstance(item, (tuple, list)) and len(item) == 2:
            return item
        if isinstance(item, torch.Tensor):
            return item, None
        raise TypeError(f"a batch of the data is a {type(item).__name__}; it must be a pair (inputs, targets), or a tensor")

    def _bar(self):
        return _Bar(self._progress, self._place, self._dataloader)

    def _start_epoch(self):
        resumed, self._resumed = self._resumed, None
        if not resumed or not self._place["batch"]:
            self._place["batch"], self._so_far = 0, EpochResult()
            self._epoch_random = RandomState(self._engine.devices())
            return iter(self._dataloader)
        self._epoch_random = resumed["epoch_random"]
        self._epoch_random.restore()
        iterator = iter(self._dataloader)
        for _ in range(self._place["batch"]):
            if next(iterator, None) is None:
                raise InfinityBatchError("the data has fewer batches per epoch than when the checkpoint was saved")
        resumed["random"].restore()
        return iterator

    def _train_batch(self, inputs, targets):
        batch = Batch(inputs, targets)
        before = retried("the state of the model's buffers", self._snapshot)
        self._in_batch = True
        try:
            self._monitor.inspect(self.model, self._optimizers, self._criterion)
            result = self._engine.backward(batch, self._criterion, self._keep_outputs)
            try:
                self.step()
            except BaseException:
                before.restore()
                self._monitor.dropped()
                for optimizer in self._optimizers:
                    optimizer.zero_grad()
                raise
        finally:
            self._in_batch = False
        self._place["batch"] += 1
        self._add_to_epoch(result)
        self.zero_grad()
        self._batch_done(batch, result)

    def _snapshot(self):
        return Snapshot(self.model, self._engine.devices())

    def _add_to_epoch(self, result):
        self._recent_losses.append((result.loss, result.samples))
        self._so_far.loss += result.loss * result.samples
        self._so_far.samples += result.samples
        self._so_far.micro_batches += result.micro_batches
        self._so_far.largest_micro_batch = max(self._so_far.largest_micro_batch, result.largest_micro_batch)
        self._so_far.refusals += result.refusals

    def _batch_done(self, batch, result):
        """For subclasses: a batch was stepped."""

    def batch_(self, inputs):
        """Returns the outputs of a batch of any size, for your own loss. Its `backward()` computes the gradients, micro-batch by
        micro-batch. With gradients disabled the outputs have no backward pass."""
        engine = self._needed_engine()
        if torch.is_grad_enabled():
            self._monitor.inspect(self.model, self._optimizers, self._criterion)
            self._monitor.outputs_made()
        return engine.outputs(inputs)

    def loss(self, outputs, targets) -> torch.Tensor:
        """The criterion's loss of these outputs; `backward()` without arguments differentiates it."""
        self._need("criterion")
        self._last_loss = self._criterion(outputs, targets)
        return self._last_loss

    def backward(self, inputs=None, targets=None) -> BatchResult | None:
        """With a batch: its loss and gradients by the criterion, in one pass if that is a mean or a sum. Returns a
        `BatchResult`. Without: the gradients of the last `loss()`."""
        if inputs is None:
            if self._last_loss is None:
                raise InfinityBatchError("there is no loss yet: call loss(outputs, targets) first, or backward(inputs, targets)")
            loss, self._last_loss = self._last_loss, None
            loss.backward()
            return None
        self._need("model", "criterion")
        self._monitor.inspect(self.model, self._optimizers, self._criterion)
        return self._engine.backward(Batch(inputs, targets), self._criterion)

    def step(self) -> None:
        """Steps all optimizers. If one throws, parameters and states of all are as before; if memory runs out, tries once
        more. Raises OutOfMemory if that fails too."""
        self._need("optimizer")
        parameters = [p for each in self._optimizers for group in each.param_groups for p in group["params"]]
        self._monitor.stepping(any(parameter.grad is not None for parameter in parameters))
        if len(self._optimizers) == 1 and allocates_nothing(self._optimizers[0]):
            self._optimizers[0].step()
        elif not self._stepped() and not self._stepped():
            raise OutOfMemory("the optimizer's step does not fit into memory; no parameter was changed")
        self._monitor.stepped_all()
        self._place["step"] += 1

    def _stepped(self):
        """False if memory ran out. Then, and if a step throws, parameters and states are as before."""
        before = []

        def steps():
            before.append(Before(self._optimizers))
            for optimizer in self._optimizers:
                optimizer.step()

        done = False
        try:
            done = had_memory_for(steps)
        finally:
            if not done and before:
                before[0].restore()
        return done

    def zero_grad(self) -> None:
        """Drops the gradients of all optimizers' parameters."""
        self._need("optimizer")
        self._monitor.zeroing()
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def eval(self, dataloader: Iterable, metrics: dict[str, Callable] | None = None) -> dict[str, float]:
        """Loss and metrics without gradients, in evaluation mode; restores the mode of each module.

        `metrics` has a function of (outputs, targets) of a batch per name. Returns a dict of `loss`, the metrics (all
        weighted by samples) and `samples`."""
        engine, metrics = self._needed_engine(), metrics or {}
        self._need("criterion")
        sums = dict.fromkeys(["loss", *metrics], 0.0)
        samples = 0
        with modes_kept(engine.model):
            engine.model.eval()
            for item in dataloader:
                batch = Batch(*self._pair(item))
                result = engine.evaluate(batch, self._criterion, bool(metrics))
                samples += batch.size
                sums["loss"] += result.loss * batch.size
                for name, metric in metrics.items():
                    sums[name] += float(metric(result.outputs, result.targets)) * batch.size
        if not samples:
            raise InfinityBatchError("the data to evaluate with gave no batch")
        return {name: value / samples for name, value in sums.items()} | {"samples": samples}

    # Interrupted training.

    def save(self, path: str | os.PathLike) -> None:
        """Saves all that is needed to resume: parameters, buffers, states, generators, position, sizes. The file is the old
        one or the new one, whole, and keeps the mode of the old one; a symbolic link stays one. Raises OSError if it cannot be
        written, InfinityBatchError between gradients and step of a batch."""
        self._need("model", "optimizer")
        if self._in_batch:
            raise InfinityBatchError("save() was called within a batch, whose random draws are incomplete; call it between batches")
        content = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "place": dict(self._place),
            "so_far": vars(self._so_far),
            "sizes": self._sizes.entries,
            "random": self._random_out(RandomState(self._engine.devices())),
            "epoch_random": self._random_out(self._epoch_random),
        }
        _torch_files.save(content, path)

    @staticmethod
    def _random_out(random):
        return random and {"cpu": random.cpu, "devices": [(str(device), state) for device, state in random.of_devices]}

    def resume(self, path: str | os.PathLike) -> None:
        """Continues from what save() wrote, also within an epoch: on the same machine and data bit for bit as without the
        interruption, once the sizes of micro-batches are chosen. Raises OSError that names the file, and the entry if it is
        known, for a damaged file, ValueError for another model, other optimizers and anything that save() did not write; then
        nothing was changed."""
        self._need("model", "optimizer")
        content = _torch_files.load(path)
        checkpoint = Checkpoint(path, content)
        checkpoint.check_model(self.model)
        checkpoint.check_optimizers(self._optimizers)
        checkpoint.load_states(self.model, self._optimizers)
        self._place, self._so_far = dict(content["place"]), checkpoint.so_far
        self._sizes.remember(content["sizes"])
        self._iterator = self._pending = None
        self._resumed = checkpoint.random
        self._resumed["random"].restore()


InfinityBatch = MicroBatches
"""MicroBatches, under the name of the C++ class."""


class _Bar:
    """Shows tqdm over the batches of an epoch, if it is wanted and installed."""

    def __init__(self, wanted, place, dataloader):
        self.bar = None
        try:
            import tqdm
        except ImportError:
            if wanted:
                raise ImportError("progress=True needs tqdm; install it, or leave progress out") from None
            return
        if wanted is False:
            return
        total = len(dataloader) if hasattr(dataloader, "__len__") else None
        disable = None if wanted is None else False  # None: tqdm's choice, by the terminal
        self.bar = tqdm.tqdm(total=total, initial=place["batch"], desc=f"epoch {place['epoch']}", unit="batch", disable=disable)

    def __enter__(self):
        return self.bar.update if self.bar is not None else lambda: None

    def __exit__(self, *_):
        if self.bar is not None:
            self.bar.close()
