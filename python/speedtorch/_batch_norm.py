"""Batch normalisation by the statistics of the whole batch, while the model runs one micro-batch at a time.

Forward: one pass over the micro-batches per normalisation, in the order of the model. In pass k the normalisations before
the k-th use statistics that are known, so the k-th sees what it sees in the plain batch, and its mean and variance are those.

Backward: the loss depends on a parameter also through every mean m and variance v. With these as separate variables, the
micro-batches are independent again. One pass per normalisation, from the last to the first, sums the derivatives of the loss
by its m and v. In later passes they enter through the input x, as the derivative of by_m * sum(x) / n + by_v * sum((x - m)^2) / n.
"""

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

POSITIONS = {
    F.batch_norm: ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    torch.batch_norm: ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
    torch.native_batch_norm: ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
}
DEFAULTS = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}
POSITIONS_OF_INSTANCES = {
    F.instance_norm: ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats"),
    torch.instance_norm: ("input", "weight", "bias", "running_mean", "running_var", "use_input_stats"),
}


def call_in_training_mode(function, args, kwargs):
    """The named arguments of a batch normalisation that takes statistics of its samples; None for anything else."""
    if function not in POSITIONS:
        return None
    call = DEFAULTS | dict(zip(POSITIONS[function], args)) | (kwargs or {})
    return call if call["training"] else None


def moves_instance_statistics(function, args, kwargs):
    """True for an instance normalisation that moves running statistics."""
    if function not in POSITIONS_OF_INSTANCES:
        return False
    call = dict(zip(POSITIONS_OF_INSTANCES[function], args)) | (kwargs or {})
    return call.get("running_mean") is not None and call.get("use_input_stats", True)


def norms_of_opaque(model):
    """None if a function mode sees all operations of the model. If parts are compiled or scripted: the kinds of the model's
    normalisations that depend on the batch, used or not, as in NormWatch."""

    def is_opaque(module):
        return isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule" or bool(
            getattr(module, "_compiled_call_impl", None)
        )

    def kind(module):
        name = getattr(module, "original_name", type(module).__name__)
        if "InstanceNorm" in name and getattr(module, "running_mean", None) is not None:
            return "instance"
        return "batch" if "BatchNorm" in name else None

    if not any(map(is_opaque, model.modules())):
        return None
    return {kind(module) for module in model.modules() if module.training} - {None}


class NormWatch(TorchFunctionMode):
    """While it is entered, `seen` receives "batch" if a batch normalisation takes statistics of its samples, and "instance" if
    an instance normalisation moves running statistics."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if call_in_training_mode(function, args, kwargs) is not None:
            self.seen.add("batch")
        if moves_instance_statistics(function, args, kwargs):
            self.seen.add("instance")
        return function(*args, **(kwargs or {}))


class _Measured(BaseException):
    """Ends a pass that has measured; no handler of a model takes it for an error."""


class _Moments:
    """Count, mean and sum of squared distances per channel, in float64."""

    def __init__(self, values):
        dims = [d for d in range(values.dim()) if d != 1]
        values = values.detach().to(torch.promote_types(values.dtype, torch.float32))
        variance, mean = torch.var_mean(values, dims, correction=0)
        self.count = values.numel() // values.size(1)
        self.mean, self.squares = mean.double(), variance.double() * self.count

    def add(self, other):
        """Combines both by the distance of their means, without cancellation (Chan, Golub and LeVeque)."""
        count, distance = self.count + other.count, other.mean - self.mean
        mean = self.mean + distance * (other.count / count)
        squares = self.squares + other.squares + distance.square() * (self.count * other.count / count)
        self.count, self.mean, self.squares = count, mean, squares


class _Call:
    """One normalisation of the forward pass."""

    def __init__(self, given):
        self.running = given["running_mean"], given["running_var"]
        self.momentum = given["momentum"]
        dtype = given["input"].dtype
        self.dtype = self.running[0].dtype if self.running[0] is not None else dtype if dtype == torch.double else torch.float
        self.moments = self.mean = self.variance = self.adjoints = None

    def normalised(self, values, weight, bias, eps, extras):
        shape = [-1 if d == 1 else 1 for d in range(values.dim())]
        distance = values.to(self.dtype) - self.mean.view(shape)
        if self.adjoints is not None and values.requires_grad:
            dims, count = [d for d in range(values.dim()) if d != 1], self.moments.count
            by_mean, by_variance = self.adjoints
            # sum(x - m) has the derivative of sum(x), and m is a constant here.
            extras.append((by_mean * distance.sum(dims) + by_variance * distance.square().sum(dims)).sum() / count)
        made = distance * torch.rsqrt(self.variance + eps).view(shape)
        made = made if weight is None else made * weight.view(shape)
        return (made if bias is None else made + bias.view(shape)).to(values.dtype)


class BatchStatistics(TorchFunctionMode):
    """The statistics of one batch."""

    def __init__(self):
        super().__init__()
        self.calls, self.known, self.complete = [], 0, False

    def run(self, forward, inputs, measuring=False):
        """Runs the model on a micro-batch. Returns its outputs, and the terms by which the statistics' adjoints enter the
        loss. Measures the first normalisation whose statistics are not known; with `measuring` ends there.

        Raises ValueError if the model normalises more or less often than with the first micro-batch."""
        self.measuring, self.at, self.measured, self.extras = measuring, 0, None, []
        try:
            with self:
                outputs = forward(inputs)
        except _Measured:
            return None, []
        if self.at != len(self.calls) or measuring:
            self.refuse(self.at)
        self.complete = True
        return outputs, self.extras

    def refuse(self, times):
        raise ValueError(
            f"the model normalised {times} times and in other passes {len(self.calls)}: batch_norm='exact' needs the same in "
            "each micro-batch"
        )

    def __torch_function__(self, function, types, args=(), kwargs=None):
        given = call_in_training_mode(function, args, kwargs)
        return function(*args, **(kwargs or {})) if given is None else self.normalise(given)

    def normalise(self, given):
        if self.at == len(self.calls):
            if self.complete:
                self.refuse(self.at + 1)
            self.calls.append(_Call(given))
        call, at = self.calls[self.at], self.at
        self.at += 1
        values, weight, bias, eps = (given[name] for name in ("input", "weight", "bias", "eps"))
        if at < self.known:
            return call.normalised(values, weight, bias, eps, self.extras)
        if at == self.known:
            self.measured = _Moments(values)
            if self.measuring:
                raise _Measured
        return F.batch_norm(values, None, None, weight, bias, True, 0.0, eps)

    def add_measured(self):
        if self.calls:
            call = self.calls[self.known]
            if call.moments is None:
                call.moments = self.measured
            else:
                call.moments.add(self.measured)

    def end_measuring(self):
        call = self.calls[self.known]
        call.mean = call.moments.mean.to(call.dtype)
        call.variance = (call.moments.squares / call.moments.count).to(call.dtype)
        self.known += 1

    @torch.no_grad()
    def move_running(self, before, micro_batches):
        """Moves the running statistics once, as in the plain batch. The counter of batches was incremented once per
        micro-batch and is set to one increment. It is the buffer of one element that grew by a multiple of their number since
        `before`."""
        moved = {}  # the buffers and their new values, all computed before one is changed

        def move(buffer, value):
            moved[id(buffer)] = buffer, value

        for call in self.calls:
            count, momentum = call.moments.count, call.momentum
            for running, value in zip(call.running, (call.moments.mean, call.moments.squares / (count - 1))):
                if running is not None:
                    now = moved.get(id(running), (running, running))[1]
                    move(running, now * (1 - momentum) + value.to(running.dtype) * momentum)
        for _, _, buffer, value, _ in before.buffers:
            counted = (buffer - value).item() if buffer.numel() == 1 else 0
            if counted > 0 and counted % micro_batches == 0 and id(buffer) not in moved:
                move(buffer, value + counted / micro_batches)
        for buffer, value in moved.values():
            buffer.copy_(value)

    def variables(self, call):
        """Mean and variance of a normalisation, by which the next pass differentiates."""
        its = self.calls[call]
        its.mean, its.variance = its.mean.detach().requires_grad_(), its.variance.detach().requires_grad_()
        return [its.mean, its.variance]

    def set_adjoints(self, call, adjoints):
        its = self.calls[call]
        its.mean, its.variance = its.mean.detach(), its.variance.detach()
        its.adjoints = None if adjoints is None or adjoints[0] is None else adjoints
