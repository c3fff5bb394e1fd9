"""torch's optimizers with the library's fused steps.

`Adam`, `AdamW`, `SparseAdam`, `Adagrad`, `RMSprop`, `SGD`, `Adadelta`, `Adamax`, `ASGD` and `Rprop` are subclasses of torch's
of the same name. They take its arguments, and its state dicts load into them and theirs into torch's. Only the step differs:

- One pass over parameter, gradient and states of each parameter, for float32 and float64, on the CPU or a GPU.
- A sparse gradient steps the rows that it names, in place, with equal rows summed first. Other rows do not move.
- `contiguous=True` moves all parameters into one buffer and their gradients into another. A step is then one pass over the
  buffers, also for float16 and bfloat16, with float32 masters. `zero_grad` zeroes the gradients there, and a parameter without a
  new gradient is left alone. The states are in buffers, too: `state` holds copies of them as of the last `state_dict()`, and a
  change of it has no effect. Change a state dict instead, and load it.

A step that is refused has changed nothing.
"""

from functools import cache
from itertools import chain
from operator import is_

import torch

from speedtorch import _native, errors
from speedtorch.table import Table

# Torch's tuples are several options of the library.
_PARTS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}
_OTHER_LOOPS = ("foreach", "fused", "capturable", "differentiable")


@cache
def _places(name):
    """The options in the library's order: the name of each in torch's groups, and its place if that is a tuple."""
    places = {part: (option, place) for option, parts in _PARTS.items() for place, part in enumerate(parts)}
    return [places.get(option, (option, None)) for option in _native.option_names(name)]


def _values(name, group):
    """The values of a group's options, in the library's order."""
    return [float(group[option] if place is None else group[option][place]) for option, place in _places(name)]


def _refuse_other_loops(options):
    for option in _OTHER_LOOPS:
        if options.get(option):
            raise errors.OptionError(f"{option}={options[option]} chooses another loop of torch's; this optimizer has one")


def _scalar(value):
    return torch.tensor(value, dtype=torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32)


class _Fused:
    """The step of all of them; mixed into torch's classes, which keep options, states and state dicts."""

    def __init__(self, params, *args, contiguous=False, **options):
        _refuse_other_loops(options)
        self._contiguous = contiguous
        self._start()
        super().__init__(params, *args, **options)
        if contiguous:
            self._flat()

    def _start(self):
        self._rows = {}  # the fused step of each parameter with sparse gradients
        self._native = None  # the contiguous optimizer
        self._laid_out = None  # what _layout() was for it, and its parameters
        self._set = None  # what _options() was when its options were set
        self._apart = False  # True if each parameter is its own group there
        self._etas = {}  # ASGD's state of each parameter that is not in the buffers: (step count, step size, weight of the mean)

    @torch.no_grad()
    def step(self, closure=None, *, max_norm=None, zero_grad=False):
        """Steps all parameters that have a gradient, after the closure if there is one, and returns its loss.

        `max_norm` first scales the gradients to that 2-norm at most, as `torch.nn.utils.clip_grad_norm_`, also sparse ones;
        `zero_grad` then zeroes them. With `contiguous=True` both are part of the step's pass. Raises errors.ShapeError (a
        ValueError) for a gradient, parameter or state that does not fit, errors.IndexError for a sparse gradient of a row that
        is not there, errors.OptionError for a negative `max_norm`, and errors.BufferError if a contiguous parameter was moved:
        call rebuild(). Then no parameter, gradient or state was changed."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._contiguous:
            self._step_flat(max_norm, zero_grad)
            return loss
        self._step_each(max_norm)
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
        """Lays contiguous parameters out again, after `module.to()` or an assignment to `.data` moved them. Keeps the states."""
        self._flat().rebuild()

    def add_param_group(self, group):
        """As torch's; contiguous parameters are laid out again at the next step. Raises errors.OptionError (a ValueError) for
        an option that only the whole optimizer has, or that chooses another loop of torch's."""
        if isinstance(group, dict):
            _refuse_other_loops(group)
            if "contiguous" in group:
                raise errors.OptionError("contiguous is an option of the optimizer; a group of parameters has none")
        super().add_param_group(group)

    def state_dict(self):
        """As torch's. The tensors are the optimizer's own; those of a contiguous optimizer are copies."""
        self._pull()
        return super().state_dict()

    def load_state_dict(self, state_dict):
        """Takes the state dict of this class or of torch's class of the same name."""
        super().load_state_dict(state_dict)
        self._rows.clear()
        if self._contiguous:
            # From the dict itself: torch rounds states to the parameter's dtype, and masters must not be rounded.
            numbers = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
            states = [state_dict["state"].get(number, {}) for number in dict.fromkeys(numbers)]
            if self._native is not None and self._fits(self._options()):
                self._push(self._native, states)
            else:
                self._forget_layout()
                self._lay_out(states)

    def __getstate__(self):
        self._pull()
        return {**super().__getstate__(), "_contiguous": self._contiguous}

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "_rows"):
            self._start()

    def _name(self, group):
        """The library's name for the arithmetic of a group."""
        return "AdamW" if group.get("decoupled_weight_decay") else self._kind

    def _parameters(self):
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    # Each parameter by itself.

    def _step_each(self, max_norm):
        """Checks the steps of all parameters before it does one."""
        dense, sparse, states = [], [], []
        for group in self.param_groups:
            name = self._name(group)
            values = _values(name, group)
            begins = _native.state_begins(name, values)
            alike = []
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                # The check is of a copy: a refused step creates no state. SGD without momentum has none, and torch's then has no
                # entry either.
                state = dict(self.state.get(parameter, ())) if begins else {}
                first = _add_states(state, parameter, begins, name, group)
                states.append((parameter, state, group))
                # torch's SGD does not count: only the first step, which sets the momentum, differs.
                number = int(state["step"]) + 1 if "step" in state else 1 if first else 2
                own = _of_eta(name, values, state.get("eta"))
                tables = [state[table] for table, _ in begins]
                if parameter.grad.is_sparse:
                    sparse.append((parameter, self._row_steps(parameter, name, own, tables), own, number))
                elif own is values:
                    alike.append((parameter, parameter.grad, tables, number))
                else:
                    dense.append((name, own, [parameter], [parameter.grad], [tables], [number]))
            if alike:
                dense.append((name, values, *map(list, zip(*alike))))
        if len(states) > 1 or max_norm is not None:
            for parameter, rows, *_ in sparse:
                rows.check(parameter.grad._indices()[0])
        if max_norm is not None:
            _native.check_dense(dense)
            _clip([parameter for parameter, *_ in states], max_norm)
        _native.step_dense(dense)
        for parameter, rows, own, number in sparse:
            rows.step(parameter.grad._indices()[0], parameter.grad._values(), own, number)
        for parameter, state, group in states:
            if state:
                _count(state, group)
                self.state[parameter].update(state)

    def _row_steps(self, parameter, name, values, tables):
        if parameter.grad.sparse_dim() != 1:
            raise errors.ShapeError("a sparse gradient needs to be sparse in its first dimension and in no other")
        rows = self._rows.get(parameter)
        if rows is None or not rows.steps(parameter, name, tables):
            rows = self._rows[parameter] = _native.RowSteps(parameter, name, values, tables)
        return rows

    # All parameters in one buffer.

    def _flat(self, options=None):
        """The contiguous optimizer of the present groups. `options` is what _options() returns, if it is known."""
        if self._native is not None and not self._fits(options or self._options()):
            self._pull()
            self._forget_layout()
        if self._native is None:
            self._lay_out([self.state.get(parameter, {}) for parameter in self._distinct()])
        return self._native

    def _distinct(self):
        """The parameters, each once: as the contiguous optimizer numbers them."""
        return list(dict.fromkeys(self._parameters()))

    def _options(self):
        """The arithmetic of each group, the values of its options, and the number of its parameters."""
        names = [self._name(group) for group in self.param_groups]
        return [(name, _values(name, group), len(group["params"])) for name, group in zip(names, self.param_groups)]

    @staticmethod
    def _layout(options):
        """The facts that a layout depends on: the arithmetic of each group with its states, and the number of its parameters."""
        return [(name, [table for table, _ in _native.state_begins(name, values)], count) for name, values, count in options]

    def _fits(self, options):
        """False after a group was added, removed or got other parameters, or options that need other states."""
        layout, parameters = self._laid_out
        # Most steps have the options of the step before, and the states need no look.
        return (options == self._set or self._layout(options) == layout) and all(map(is_, self._parameters(), parameters))

    def _forget_layout(self):
        """Gives up the buffers, before others are laid out. Those take each gradient as new, so unused ones become None."""
        if self._native is None:
            return
        if not self._native.buffer_is_valid():
            self._native.rebuild()
        for parameter, used in zip(dict.fromkeys(self._laid_out[1]), self._native.used()):
            if not used and parameter.requires_grad:
                parameter.grad = None
        self._native = None

    def _parts(self):
        """The groups of the contiguous optimizer: parameters that have all options in common."""
        for group in self.param_groups:
            for parameters in [[parameter] for parameter in group["params"]] if self._apart else [group["params"]]:
                yield parameters, group

    def _lay_out(self, states):
        """Moves the parameters to new buffers, and the given states, one dict per parameter."""
        options = self._options()
        layout = self._layout(options)
        for number, (name, tables, _) in enumerate(layout):
            if (name, tables) != layout[0][:2]:
                raise errors.OptionError(
                    f"group {number} has other states than group 0 (amsgrad, momentum, centered), or other arithmetic "
                    "(decoupled_weight_decay); with contiguous=True all groups need the same: use one optimizer for each"
                )
        name = layout[0][0]
        groups = [(list(parameters), _values(name, group)) for parameters, group in self._parts()]
        native = _native.ContiguousOptimizer(name, groups)
        self._push(native, states)
        self._native, self._laid_out, self._set = native, (layout, self._parameters()), options

    def _step_flat(self, max_norm, zero_grad):
        options = self._options()
        native = self._flat(options)
        name = self._laid_out[0][0][0]
        begun = self._begin_etas(native) if name == "ASGD" else {}
        # The step sizes in a group differ after a step in which one parameter had no gradient, or after a load.
        if begun and not self._apart and any(
            len({begun[one][1] for one in parameters if one in begun}) > 1 for parameters, _ in self._parts()
        ):
            self._pull()
            self._forget_layout()
            self._apart = True
            native = self._flat(options)
        if begun or options != self._set:
            for number, (parameters, group) in enumerate(self._parts()):
                eta = next((begun[one][1] for one in parameters if one in begun), None)
                native.set_options(number, name, _of_eta(name, _values(name, group), eta))
            self._set = None if begun else options
        native.step(max_norm, zero_grad)
        for parameters, group in self._parts() if begun else ():
            ended = {}  # by step count, which most parameters of a group have in common
            for parameter in parameters:
                if parameter in begun:
                    steps = begun[parameter][0] + 1
                    if steps not in ended:
                        ended[steps] = (steps, *_eta_and_mu(group, steps))
                    self._etas[parameter] = ended[steps]

    def _begin_etas(self, native):
        """ASGD's step count, step size and weight of the mean of each parameter that has a gradient, before this step."""
        groups = {parameter: group for parameters, group in self._parts() for parameter in parameters}
        return {
            parameter: self._etas.get(parameter) or (0, float(group["lr"]), 1.0)
            for (parameter, group), used in zip(groups.items(), native.used())
            if used
        }

    def _pull(self):
        """Copies the states of the buffers to `state`."""
        if self._native is None:
            return
        name = self._laid_out[0][0][0]
        for parameter, (steps, tables) in zip(dict.fromkeys(self._laid_out[1]), self._native.state()):
            if steps == 0 and parameter not in self.state or name == "SGD" and not tables:
                continue
            state = {} if name == "SGD" else {"step": _scalar(float(steps))}
            state.update(tables)
            if parameter in self._etas:
                state["eta"], state["mu"] = map(_scalar, self._etas[parameter][1:])
            self.state[parameter] = state

    def _push(self, native, states):
        """Sets the states of the buffers."""
        given, etas = [], {}
        for parameter, state in zip(self._distinct(), states):
            tables = [(name, table) for name, table in state.items() if name not in ("step", "eta", "mu") and table is not None]
            given.append((int(state["step"]) if "step" in state else int(bool(tables)), tables))
            if "eta" in state:
                etas[parameter] = (int(state["step"]), float(state["eta"]), float(state["mu"]))
        native.set_state(given)
        self._etas = etas


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


def _clip(parameters, max_norm):
    """As torch.nn.utils.clip_grad_norm_, also for sparse gradients. Their equal rows are summed first."""
    if not max_norm >= 0:
        raise errors.OptionError(f"max_norm is {max_norm}; 0 or more is needed")
    for parameter in parameters:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
    grads = [one.grad._values() if one.grad.is_sparse else one.grad for one in parameters]
    factor = torch.clamp(max_norm / (torch.nn.utils.get_total_norm(grads) + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(factor.to(grad.device))


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
    return lr / ((1 + group["lambd"] * lr * steps) ** group["alpha"]), 1 / max(1, steps - group["t0"])


def _of_eta(name, values, eta):
    """ASGD's step size is the one that the state holds, which may stem from another learning rate than today's. With an
    `alpha` of 0 the library's step size is `lr` itself."""
    if name != "ASGD" or eta is None:
        return values
    changed = {"lr": float(eta), "alpha": 0.0}
    return [changed.get(option, value) for option, value in zip(_native.option_names(name), values)]


def _count(state, group):
    if "step" in state:
        state["step"] += 1
    if "eta" in state:
        state["eta"], state["mu"] = map(_scalar, _eta_and_mu(group, int(state["step"])))


def _fused(name):
    torchs = getattr(torch.optim, name)
    text = f"torch.optim.{name} with a fused step: same arguments, and `contiguous` for one pass over all parameters."
    return type(name, (_Fused, torchs), {"__module__": __name__, "__doc__": text, "_kind": name})


__all__ = _native.optimizer_names()
globals().update({name: _fused(name) for name in __all__})
