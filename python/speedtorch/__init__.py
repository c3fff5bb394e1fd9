"""Tables in any kind of memory, fast row movement and fused optimizer steps for PyTorch.

    table = speedtorch.Table.filled((1_000_000, 128), speedtorch.Uniform(-1, 1), placement="hugepage")
    batch = table.gather(index)
    table.scatter(index, batch)

`speedtorch.optim` has torch's optimizers with fused steps, `speedtorch.nn.Embedding` an embedding over a table,
`torch.ops.speedtorch` the operators for compiled code. docs/python.md describes them.
"""

from typing import TYPE_CHECKING

import torch  # noqa: F401  first: the native module needs its libraries

try:
    from speedtorch import _native  # noqa: F401
except ImportError as error:
    raise ImportError(f"this build of speedtorch does not load with torch {torch.__version__}; the wheel's metadata name its torch, "
                      "and scripts/wheel builds it for another") from error
from speedtorch import errors
from speedtorch._version import __version__  # noqa: F401
from speedtorch.contiguous import ContiguousParams
from speedtorch.row_cache import RowCache
from speedtorch.rows import distinct_rows, gather_rows, scatter_rows
from speedtorch.sharded import ShardedTable
from speedtorch.shared import SharedTable
from speedtorch.table import FileRows, Normal, Table, Uniform
from speedtorch import nn, optim  # noqa: I001  after the tables that they use
if TYPE_CHECKING:  # __getattr__ imports them
    from speedtorch.micro_batches import InfinityBatch, MicroBatches

__all__ = ["ContiguousParams", "FileRows", "InfinityBatch", "MicroBatches", "Normal", "RowCache", "ShardedTable",
           "SharedTable", "Table", "Uniform", "distinct_rows", "errors", "gather_rows", "nn", "optim", "scatter_rows"]


def __getattr__(name):
    """MicroBatches are imported when they are used: that takes as long as all else of this package."""
    if name not in ("InfinityBatch", "MicroBatches", "compat", "micro_batches"):
        raise AttributeError(f"module 'speedtorch' has no attribute {name!r}")
    import importlib

    module = importlib.import_module("speedtorch.compat" if name == "compat" else "speedtorch.micro_batches")
    return module if name in ("compat", "micro_batches") else getattr(module, name)


def __dir__():
    return [*__all__, "__version__", "compat"]
