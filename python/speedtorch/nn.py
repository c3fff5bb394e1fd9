"""Modules over tables."""

from typing import Any

import torch
from torch import Tensor

from speedtorch import optim
from speedtorch.rows import gather_rows
from speedtorch.table import Fill, Normal, Path, Table


class Embedding(torch.nn.Module):
    """An embedding whose table lives in any placement.

        embedding = speedtorch.nn.Embedding(1_000_000, 128, placement="hugepage", optimizer="SparseAdam", lr=0.01)
        loss(model(embedding(index))).backward()
        embedding.step()

    `weight` has the shape [num_embeddings, embedding_dim]; forward() takes an int tensor of any shape and returns
    [*index.shape, embedding_dim]. The gradient of `weight` is sparse, unless `sparse=False`.

    With `optimizer`, a class of speedtorch.optim or its name, and its options, the embedding trains itself: step() steps the
    rows that were used since the last one. `weight` is then no parameter of the module, so that the model's optimizer leaves it
    alone, and the state dict has the optimizer's as `optimizer`. Its states are in the table's placement. Without `optimizer`,
    `weight` is a parameter for any optimizer.

    `fill`, `placement`, `device` and `file` are those of Table.filled(). The table stays in its placement and dtype when the
    module is moved or cast.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, *, fill: Fill = Normal(), dtype: torch.dtype = torch.float32,
                 placement: str = "hugepage", device: torch.device | str = "cpu", file: Path | None = None, sparse: bool = True,
                 optimizer: str | type[torch.optim.Optimizer] | None = None, **options: Any):
        super().__init__()
        if optimizer is None and options:
            raise TypeError(f"{', '.join(options)}: options without an optimizer")
        self.table = Table.filled((num_embeddings, embedding_dim), fill, dtype, placement=placement, device=device, file=file)
        self.sparse = sparse
        self.optimizer = None
        weight = torch.nn.Parameter(self.table.tensor)
        optim.place_states(weight, placement)
        if optimizer is None:
            self.weight = weight
        else:
            self._own = [weight]  # in a list, so that it is no parameter of the module
            kind = getattr(optim, optimizer) if isinstance(optimizer, str) else optimizer
            self.optimizer = kind([weight], **options)

    def __getattr__(self, name):
        if name == "weight" and "_own" in self.__dict__:
            return self._own[0]
        return super().__getattr__(name)

    def __setstate__(self, state):
        """Of a copy, or from a pickle: the weight is the copied table's memory again."""
        super().__setstate__(state)
        self.weight.data = self.table.tensor
        optim.place_states(self.weight, self.table.placement)

    def forward(self, index: Tensor) -> Tensor:
        return gather_rows(self.weight, index, sparse_grad=self.sparse)

    def step(self) -> None:
        """Steps the rows that were used since the last step. Raises TypeError without an optimizer of its own."""
        if self.optimizer is None:
            raise TypeError("this Embedding has no optimizer; name one in its constructor, or step its parameter with yours")
        self.optimizer.step()
        self.optimizer.zero_grad()

    def extra_repr(self) -> str:
        own = f", optimizer={type(self.optimizer).__name__}" if self.optimizer is not None else ""
        return f"{self.table.shape[0]}, {self.table.shape[1]}, dtype={self.table.dtype}, placement='{self.table.placement}'{own}"

    def _apply(self, fn, recurse=True):
        return self

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.optimizer is not None:
            destination[prefix + "weight"] = self.weight if keep_vars else self.weight.detach()
            destination[prefix + "optimizer"] = self.optimizer.state_dict()

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        given = dict(state_dict)
        if self.optimizer is not None:
            for name in ("weight", "optimizer"):
                if prefix + name not in given:
                    missing.append(prefix + name)
            if prefix + "weight" in given:
                self.table.fill(given.pop(prefix + "weight"))
            if prefix + "optimizer" in given:
                self.optimizer.load_state_dict(given.pop(prefix + "optimizer"))
        super()._load_from_state_dict(given, prefix, metadata, strict, missing, unexpected, errors)
