"""Modules over tables."""

import io
import os
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor

from speedtorch import errors, optim
from speedtorch.rows import gather_rows
from speedtorch.table import Fill, Normal, Path, Table

_OF_TORCHS_EMBEDDING = {"padding_idx", "max_norm", "norm_type", "scale_grad_by_freq"}


class Embedding(torch.nn.Module):
    """An embedding whose table lives in any placement.

        embedding = speedtorch.nn.Embedding(1_000_000, 128, placement="hugepage", optimizer="SparseAdam", lr=0.01)
        loss(model(embedding(index))).backward()
        embedding.step()

    `weight` has the shape [num_embeddings, embedding_dim]; forward() takes an int tensor of any shape and returns
    [*index.shape, embedding_dim]. The gradient of `weight` is sparse, unless `sparse=False`.

    With `optimizer`, a class of speedtorch.optim or its name, and its options, the embedding trains itself: step() steps the
    rows that were used since the last one. `weight` is then no parameter of the module, so that the model's optimizer leaves it
    alone. Only the embedding's own requires_grad_() and zero_grad() reach it, not those of a model around it. The state dict
    holds tensors only: the optimizer's options are `optimizer.lr` and so on, its states `optimizer.state.exp_avg` and so on. The
    states are in the table's placement. Without `optimizer`, `weight` is a parameter for any optimizer.

    `fill`, `placement`, `device` and `file` are those of Table.filled(). The table stays in its placement and dtype when the
    module is moved or cast. A deep copy has its own table. The copy of a table in a file is in a file without a name.

    `weight` stays in the table. Assigning it is refused (TypeError), and so are `contiguous=True` (errors.OptionError) and
    share_memory() (errors.PlacementError). If something else moves it, the next forward(), step(), state_dict() or copy raises
    errors.BufferError: an optimizer of the model with `contiguous=True`, an assigned `weight.data`, or torch when it sends the
    weight or the state dict to another process. The module itself can be sent. The process gets its own table, or the same
    named file.

    Raises errors.OptimizerError for an unknown optimizer, errors.OptionError, and TypeError for unknown arguments.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, *, fill: Fill = Normal(), dtype: torch.dtype = torch.float32,
                 placement: str = "hugepage", device: torch.device | str = "cpu", file: Path | None = None, sparse: bool = True,
                 optimizer: str | type[torch.optim.Optimizer] | None = None, **options: Any):
        super().__init__()
        kind = _optimizer_class(optimizer, options)
        self.table = Table.filled((num_embeddings, embedding_dim), fill, dtype, placement=placement, device=device, file=file)
        self.sparse = sparse
        self.optimizer = None
        try:
            weight = torch.nn.Parameter(self.table.tensor)
            optim.place_states(weight, placement)
            if kind is not None:
                self.optimizer = kind([weight], **options)
        except BaseException:
            if self.table.file is not None:
                os.unlink(self.table.file)
            raise
        if kind is None:
            self._parameters["weight"] = weight
        self._weight = [weight]  # in a list, so that it is no parameter of the module
        self._address = weight.data_ptr()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        ForkingPickler.register(cls, _reduce_for_process)

    def __getattr__(self, name):
        if name == "weight" and self.__dict__.get("optimizer") is not None:
            return self._weight[0]
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        if name == "weight" and (self.optimizer is not None or isinstance(value, torch.nn.Parameter)):
            raise TypeError("the weight of an Embedding lies in its table; set its elements by table.fill() or weight.data.copy_()")
        super().__setattr__(name, value)

    def __getstate__(self):
        self._require_weight_in_table()
        return self.__dict__.copy()

    def __setstate__(self, state):
        """Restores a copy or a pickle: the weight is the copied table's memory again."""
        super().__setstate__(state)
        self.weight.data = self.table.tensor
        self._address = self.weight.data_ptr()
        optim.place_states(self.weight, self.table.placement)

    @property
    def num_embeddings(self) -> int:
        return self.table.shape[0]

    @property
    def embedding_dim(self) -> int:
        return self.table.shape[1]

    def forward(self, index: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            self._require_weight_in_table()
        return gather_rows(self.weight, index, sparse_grad=self.sparse)

    def step(self) -> None:
        """Steps the rows that were used since the last step. Raises TypeError if it has no optimizer."""
        if self.optimizer is None:
            raise TypeError("this Embedding has no optimizer; name one in its constructor, or step its parameter with yours")
        self._require_weight_in_table()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def requires_grad_(self, requires_grad: bool = True) -> "Embedding":
        """As torch's, also for the weight of an optimizer of its own. Without, step() leaves the weight alone."""
        self.weight.requires_grad_(requires_grad)
        if not requires_grad and self.optimizer is not None:
            self.optimizer.zero_grad()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's, also for the weight of an optimizer of its own."""
        super().zero_grad(set_to_none)
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none)

    def extra_repr(self) -> str:
        own = f", optimizer={type(self.optimizer).__name__}" if self.optimizer is not None else ""
        return f"{self.table.shape[0]}, {self.table.shape[1]}, dtype={self.table.dtype}, placement='{self.table.placement}'{own}"

    def _require_weight_in_table(self):
        """A weight from elsewhere, as torch.func.functional_call() gives one, is no concern of the table."""
        if self._weight[0].data_ptr() != self._address:
            raise errors.BufferError(
                "the weight of an Embedding has left its table, so that training would not reach the table. An optimizer with "
                "contiguous=True, ContiguousParams, share_memory_(), an assigned weight.data and sending the weight to another "
                "process move it; use none of them, and send a clone"
            )

    def _apply(self, fn, recurse=True):
        """A table is not moved or cast. share_memory() of a model comes here, too: a tensor shows it."""
        probe = fn(torch.empty(1, device="cpu"))
        if probe.is_cpu and probe.is_shared():
            raise errors.PlacementError(
                "the table of an Embedding cannot move to shared memory; torch.nn.Embedding can"
            )
        return self

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        self._require_weight_in_table()
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.optimizer is not None:
            destination[prefix + "weight"] = self.weight if keep_vars else self.weight.detach()
            for name, tensor in _flat(self.optimizer.state_dict()).items():
                destination[f"{prefix}optimizer.{name}"] = tensor

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        if self.optimizer is None:
            super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
            return
        start = prefix + "optimizer."
        rest = {key: value for key, value in state_dict.items() if not key.startswith(start)}
        flat = {key.removeprefix(start): value for key, value in state_dict.items() if key.startswith(start)}
        self._parameters["weight"] = self._weight[0]  # torch's checks of parameters hold for it
        try:
            super()._load_from_state_dict(rest, prefix, metadata, strict, missing, unexpected, errors)
        finally:
            del self._parameters["weight"]
        options = _flat({"param_groups": [self.optimizer.defaults], "state": {}})
        missing.extend(start + name for name in options if name not in flat)
        wrong = [f"{start}{name}: {fault}" for name, value in flat.items() if (fault := self._fault(name, value))]
        errors.extend(wrong)
        if flat and not wrong:
            self._load_optimizer(flat)

    def _placed(self, state):
        """Returns a copy of a state in the table's placement."""
        return Table.from_array(state, placement=self.table.placement, device=self.table.device).tensor

    def _fault(self, name, value):
        """Returns the reason to refuse an entry of the optimizer in a state dict, or None."""
        if not isinstance(value, torch.Tensor):
            return f"a tensor is needed, not a {type(value).__name__}"
        allowed = ((), tuple(self.weight.shape)) if name.startswith("state.") else ((), (len(value),) if value.dim() == 1 else ())
        return None if tuple(value.shape) in allowed else f"size mismatch: its shape is {tuple(value.shape)}"

    def _load_optimizer(self, flat):
        """Sets options and states from copies of tensors. States that are not there start again."""
        group, state = self.optimizer.state_dict()["param_groups"][0], {}
        for name, value in flat.items():
            if not name.startswith("state."):
                group[name] = _number(value)
            elif value.dim() > 0 and not value.is_sparse:
                value = value.detach().to(self.weight.dtype)
                state[name.removeprefix("state.")] = self._placed(value)
            else:
                # SparseAdam counts its steps in an int, all others in a float tensor.
                state[name.removeprefix("state.")] = value.detach().clone() if value.is_floating_point() else _number(value)
        self.optimizer.load_state_dict({"param_groups": [group], "state": {0: state} if state else {}})


def _optimizer_class(optimizer, options):
    """Returns the class for the arguments of an Embedding, or None without an optimizer."""
    foreign = sorted(_OF_TORCHS_EMBEDDING & options.keys())
    if foreign:
        raise TypeError(f"this Embedding has no {', '.join(foreign)}; torch.nn.Embedding has")
    if optimizer is None:
        if options:
            raise TypeError(f"{', '.join(options)}: unknown arguments; options of an optimizer need the argument `optimizer`")
        return None
    if options.get("contiguous"):
        raise errors.OptionError("contiguous=True would move the weight of an Embedding out of its table; leave it out")
    if isinstance(optimizer, str):
        if optimizer not in optim.__all__:
            raise errors.OptimizerError(f"no optimizer is called '{optimizer}'; there are: {', '.join(optim.__all__)}")
        return getattr(optim, optimizer)
    if not (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)):
        raise TypeError(f"optimizer is {optimizer!r}; give a class of speedtorch.optim or its name")
    return optimizer


def _flat(state_dict):
    """Returns the state dict of an optimizer of one parameter as tensors: options by their names, states as `state.<name>`.
    Leaves out options that are no numbers, and those that choose a loop of torch's."""
    (group,) = state_dict["param_groups"]
    flat = {name: _option(value) for name, value in group.items() if name not in ("params", *optim._OTHER_LOOPS)}
    for states in state_dict["state"].values():
        flat.update({f"state.{name}": torch.as_tensor(value).detach() for name, value in states.items()})
    return {name: tensor for name, tensor in flat.items() if tensor is not None}


def _option(value):
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, bool):
        return torch.tensor(value)
    if isinstance(value, (int, float)):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, (tuple, list)):
        return torch.tensor([float(part) for part in value], dtype=torch.float64)
    return None


def _number(tensor):
    """The reverse of _option(): a number, or a tuple of them."""
    return tensor.item() if tensor.dim() == 0 else tuple(tensor.tolist())


class _Pickler(pickle.Pickler):
    """Leaves a weight out, whose elements come with the table."""

    def __init__(self, file, weight):
        super().__init__(file)
        self._weight = weight

    def persistent_id(self, obj):
        return (obj.dtype, obj.requires_grad) if obj is self._weight else None


class _Unpickler(pickle.Unpickler):
    """Puts an empty weight in its place, the same everywhere, for Embedding.__setstate__() to fill."""

    _weight = None

    def persistent_load(self, pid):
        if self._weight is None:
            dtype, requires_grad = pid
            self._weight = torch.nn.Parameter(torch.empty(0, dtype=dtype), requires_grad)
        return self._weight


def _reduce_for_process(embedding):
    """Pickles an embedding for another process. torch would move the weight to shared memory, out of the table. If other modules
    hold the weight, they get another one."""
    _Pickler(content := io.BytesIO(), embedding.weight).dump(embedding)
    return _from_bytes, (content.getvalue(),)


def _from_bytes(content):
    return _Unpickler(io.BytesIO(content)).load()


ForkingPickler.register(Embedding, _reduce_for_process)
