"""torch's optimizers with the library's fused steps.

`Adam`, `AdamW`, `SparseAdam`, `Adagrad`, `RMSprop`, `SGD`, `Adadelta`, `Adamax`, `ASGD` and `Rprop` are subclasses of torch's
of the same name. They take its arguments, and its state dicts load into them and theirs into torch's. Only the step differs:

- One pass over parameter, gradient and states of each parameter, for float32 and float64, on the CPU or a GPU.
- A sparse gradient steps the rows that it names, in place, with equal rows summed first. Other rows do not move.
- `contiguous=True` moves all parameters into one buffer and their gradients into another. A step is then one pass over the
  buffers, also for float16 and bfloat16, with float32 masters. `zero_grad` zeroes the gradients there, and a parameter without a
  new gradient is left alone.

docs/updates.md says what is equal to torch bit for bit.
"""

from itertools import chain

import torch

from speedtorch import _native, errors
from speedtorch.table import Table

# Torch's tuples are several options of the library.
_PARTS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}
_OTHER_LOOPS = ("foreach", "fused", "capturable", "differentiable")


def _values(name, group):
    """The values of a group's options, in the library's order."""
    fields = dict(group)
    for option, parts in _PARTS.items():
        fields.update(zip(parts, group.get(option, ())))
    return [float(fields[option]) for option in _native.option_names(name)]


def _scalar(value):
    return torch.tensor(value, dtype=torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32)


class _Fused:
    """The step of all of them; mixed into torch's classes, which keep options, states and state dicts."""

    def __init__(self, params, *args, contiguous=False, **options):
        for option in _OTHER_LOOPS:
            if options.get(option):
                raise errors.OptionError(f"{option}={options[option]} chooses another loop of torch's; this optimizer has one")
        self._contiguous = contiguous
        self._start()
        super().__init__(params, *args, **options)
        if contiguous:
            self._flat()

    def _start(self):
        self._rows = {}  # the fused step of each parameter with sparse gradients
        self._native = None  # the contiguous optimizer
        self._lr_before = []  # of each group, at the last contiguous step

    @torch.no_grad()
    def step(self, closure=None, *, max_norm=None, zero_grad=False):
        """Steps all parameters that have a gradient, after the closure if there is one, and returns its loss.

        `max_norm` first scales the gradients to that 2-norm at most, as `torch.nn.utils.clip_grad_norm_`; `zero_grad` then
        zeroes them. With `contiguous=True` both are part of the step's pass. Raises errors.ShapeError (a ValueError) for a
        gradient or parameter that does not fit, errors.BufferError if a contiguous parameter was moved: call rebuild()."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._contiguous:
            self._step_flat(max_norm, zero_grad)
            return loss
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters(), max_norm)
        for group in self.param_groups:
            self._step_group(group)
        if zero_grad:
            self.zero_grad()
        return loss

    def zero_grad(self, set_to_none=True):
        """As torch's. Contiguous gradients stay in their buffer as zeros, which the next step counts as none."""
        if self._contiguous:
            self._flat().zero_grad()
        else:
            super().zero_grad(set_to_none)

    def rebuild(self):
        """Lays contiguous parameters out again, after `module.to()` or whatever else moved them; keeps the states."""
        self._flat().rebuild()

    def add_param_group(self, group):
        """As torch's; contiguous parameters are laid out again."""
        if self._native is not None:
            self._pull()
            self._native = None
        super().add_param_group(group)

    def state_dict(self):
        """As torch's. The tensors are the optimizer's own; those of a contiguous optimizer are copies."""
        self._pull()
        return super().state_dict()

    def load_state_dict(self, state_dict):
        """Takes the state dict of this class or of torch's class of the same name."""
        super().load_state_dict(state_dict)
        self._rows.clear()
        self._lr_before = []
        if self._contiguous:
            # From the dict itself: torch rounds states to the parameter's dtype, and masters must not be rounded.
            numbers = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
            self._push([state_dict["state"].get(number, {}) for number in numbers])

    def __getstate__(self):
        self._pull()
        return {**super().__getstate__(), "_contiguous": self._contiguous}

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "_rows"):
            self._start()

    def _name(self, group):
        """The library's name for the arithmetic of a group."""
        kind = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__ and kind.__name__ in __all__)
        return "AdamW" if group.get("decoupled_weight_decay") else kind.__name__

    def _parameters(self):
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    # Each parameter by itself.

    def _step_group(self, group):
        name = self._name(group)
        values = _values(name, group)
        begins = _native.state_begins(name, values)
        dense = []
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            # SGD without momentum has no states, and torch's then has no entry either.
            state = self.state[parameter] if begins else {}
            first = _add_states(state, parameter, begins, name, group)
            # torch's SGD does not count: only the first step, which sets the momentum, differs.
            number = int(state["step"]) + 1 if "step" in state else 1 if first else 2
            own = _of_eta(name, values, state)
            tables = [state[table] for table, _ in begins]
            if parameter.grad.is_sparse:
                self._step_rows(parameter, name, own, tables, number)
                _count(state, group)
            elif own is values:
                dense.append((parameter, parameter.grad, tables, number))
            else:
                _native.step_dense(name, own, [parameter], [parameter.grad], [tables], [number])
                _count(state, group)
        if dense:
            _native.step_dense(name, values, *map(list, zip(*dense)))
            for parameter, *_ in dense:
                if begins:
                    _count(self.state[parameter], group)

    def _step_rows(self, parameter, name, values, tables, number):
        grad = parameter.grad
        if grad.sparse_dim() != 1:
            raise errors.ShapeError("a sparse gradient needs to be sparse in its first dimension and in no other")
        rows = self._rows.get(parameter)
        if rows is None or not rows.steps(parameter, name, tables):
            rows = self._rows[parameter] = _native.RowSteps(parameter, name, values, tables)
        rows.step(grad._indices()[0], grad._values(), values, number)

    # All parameters in one buffer.

    def _flat(self):
        if self._native is None:
            name = self._name(self.param_groups[0])
            groups = [(group["params"], _values(name, group)) for group in self.param_groups]
            self._native = _native.ContiguousOptimizer(name, groups)
            if self.state:
                self._push([self.state.get(parameter, {}) for parameter in self._parameters()])
        return self._native

    def _step_flat(self, max_norm, zero_grad):
        native = self._flat()
        rates = [float(group["lr"]) for group in self.param_groups]
        for number, group in enumerate(self.param_groups):
            name = self._name(group)
            # torch's ASGD takes the step size that it computed after the step before.
            lr = self._lr_before[number] if name == "ASGD" and number < len(self._lr_before) else rates[number]
            native.set_options(number, name, _values(name, {**group, "lr": lr}))
        native.step(max_norm, zero_grad)
        self._lr_before = rates

    def _pull(self):
        """Copies the states of the buffers to `state`."""
        if self._native is None:
            return
        groups = chain.from_iterable([group] * len(group["params"]) for group in self.param_groups)
        for parameter, group, (steps, tables) in zip(self._parameters(), groups, self._native.state()):
            name = self._name(group)
            if steps == 0 and parameter not in self.state or name == "SGD" and not tables:
                continue
            state = {} if name == "SGD" else {"step": _scalar(float(steps))}
            state.update(tables)
            if name == "ASGD":
                state["eta"], state["mu"] = _eta_and_mu(group, steps)
            self.state[parameter] = state

    def _push(self, states):
        """Sets the states of the buffers."""
        given = []
        for state in states:
            tables = [(name, table) for name, table in state.items() if name not in ("step", "eta", "mu") and table is not None]
            given.append((int(state["step"]) if "step" in state else int(bool(tables)), tables))
        self._flat().set_state(given)


def _add_states(state, parameter, begins, name, group):
    """Creates the states that are missing, as torch's optimizer does at its first step. True if there were any."""
    if "step" not in state and name != "SGD":
        state["step"] = 0 if name == "SparseAdam" else _scalar(0.0)
    if name == "ASGD" and "eta" not in state:
        state["eta"], state["mu"] = _scalar(float(group["lr"])), _scalar(1.0)
    missing = [(table, value) for table, value in begins if state.get(table) is None]
    for table, value in missing:
        state[table] = _new_state(parameter, value)
    return bool(missing)


def place_states(parameter, placement):
    """The optimizers create the states of this parameter in a placement, instead of torch's memory."""
    parameter._speedtorch_placement = placement


def _new_state(parameter, value):
    placement = getattr(parameter, "_speedtorch_placement", None)
    if placement is None:
        return torch.full_like(parameter, value, memory_format=torch.preserve_format)
    return Table.filled(parameter.shape, value, parameter.dtype, placement=placement).tensor


def _eta_and_mu(group, steps):
    """ASGD's step size and weight of the mean after that many steps, as torch keeps them."""
    lr = float(group["lr"])
    return (_scalar(lr / ((1 + group["lambd"] * lr * steps) ** group["alpha"])), _scalar(1 / max(1, steps - group["t0"])))


def _of_eta(name, values, state):
    """ASGD's step size is the one that the state holds, which may stem from another learning rate than today's. With an
    `alpha` of 0 the library's step size is `lr` itself."""
    if name != "ASGD":
        return values
    changed = {"lr": float(state["eta"]), "alpha": 0.0}
    return [changed.get(option, value) for option, value in zip(_native.option_names(name), values)]


def _count(state, group):
    if "step" in state:
        state["step"] += 1
    if "eta" in state:
        state["eta"], state["mu"] = _eta_and_mu(group, int(state["step"]))


def _fused(name):
    torchs = getattr(torch.optim, name)
    text = f"torch.optim.{name} with a fused step: same arguments, and `contiguous` for one pass over all parameters."
    return type(name, (_Fused, torchs), {"__module__": __name__, "__doc__": text})


__all__ = _native.optimizer_names()
globals().update({name: _fused(name) for name in __all__})
