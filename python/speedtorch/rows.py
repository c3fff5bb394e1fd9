"""Gather and scatter between tensors. The operators themselves are `torch.ops.speedtorch`."""

import torch
from torch import Tensor

from speedtorch import _native

_ops = torch.ops.speedtorch


@torch.library.register_fake("speedtorch::distinct_rows")
def _distinct_shapes(index, rows):
    count = torch.library.get_ctx().new_dynamic_size()
    return index.new_empty(count, dtype=torch.int64), torch.empty_like(index, dtype=torch.int64)


def gather_rows(table: Tensor, index: Tensor, *, out: Tensor | None = None, sparse_grad: bool = False) -> Tensor:
    """Returns the rows `table[index]`, of shape [*index.shape, *table.shape[1:]].

    The table's rows are contiguous; `index` is int32 or int64 of any shape. On a GPU the call is queued on the current
    stream. Differentiable with respect to `table`; with `sparse_grad` its gradient is sparse, as that of
    `torch.nn.Embedding(sparse=True)`. With `out` the rows are written there, and it is returned;
    this is not differentiable.

    Raises errors.IndexError for an index outside of the table (on a GPU: NaN rows), errors.ShapeError (a ValueError),
    errors.PlacementError (a ValueError) for tensors on different devices.
    """
    if torch.compiler.is_dynamo_compiling():
        if out is None:
            return _ops.gather_rows(table, index, sparse_grad=sparse_grad)
        _ops.gather_rows.out(table, index, out=out)
        return out
    if out is None:
        return _native.gather_rows(table, index, sparse_grad)
    _native.gather_rows_out(table, index, out)
    return out


def scatter_rows(table: Tensor, index: Tensor, values: Tensor, duplicates: str = "last") -> None:
    """Sets `table[index[i]] = values[i]` for each i, in place. `values` has the shape [*index.shape, *table.shape[1:]].

    `duplicates` says what a row gets that occurs several times: "last" (its last value), "accumulate" (the values are added
    to the row, also if none repeats), "reject" (errors.DuplicateError, nothing is written) or "none" (the caller knows that
    no row repeats). Values that require a gradient are used as numbers.

    Raises as gather_rows(); nothing is written then.
    """
    if torch.compiler.is_dynamo_compiling():
        _ops.scatter_rows_(table, index, values, duplicates)
    else:
        _native.scatter_rows(table, index, values, duplicates)


def distinct_rows(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Returns the distinct rows of an index, ascending, and the position of each index among them: two int64 tensors on the
    host, so that `distinct[positions]` is `index`. Raises errors.IndexError for an index outside of `rows` rows."""
    return _ops.distinct_rows(index, rows)
