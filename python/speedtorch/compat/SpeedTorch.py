"""SpeedTorch's classes: `DataGadget`, the model and optimizer factories, and `COM`.

Tables lie where SpeedTorch put them: on the GPU, in pinned memory (`CPUPinn`, `pinType`), or in a file (names with `MM`).
Without a GPU they lie in huge pages of host memory, and rows go to the CPU. Indices are arrays, lists or tensors of any shape;
negative ones count from the end, and one outside of the table raises IndexError.
"""

import concurrent.futures
import copy
import inspect
import os

import numpy as np
import torch

from speedtorch import Normal, Table, Uniform, _native, _torch_files, distinct_rows
from speedtorch.compat import tell_once


def dtype_of(given):
    """A torch dtype, from one or from the name that NumPy has for it."""
    if isinstance(given, torch.dtype):
        return given
    name = {"uint32": "int32"}.get(np.dtype(given).name, np.dtype(given).name)  # the same bits
    return getattr(torch, name)


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def home(pinned, device="cuda"):
    """The options of a Table that lies where SpeedTorch would put it."""
    if torch.device(device).type == "cpu" and not pinned:
        return {"placement": "libtorch"}
    if torch.cuda.is_available():
        return {"placement": "pinned" if pinned else "device"}
    tell_once("there is no GPU: SpeedTorch's tables lie in huge pages of host memory, and rows go to the CPU")
    return {"placement": "hugepage"}


def gpu_or_cpu():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def as_index(given):
    index = given if isinstance(given, torch.Tensor) else torch.as_tensor(np.asarray(given))
    if index.numel() and (index.is_floating_point() or index.is_complex()):
        raise IndexError(f"an index is {index.dtype}; take integers")
    return index


def row_numbers(given, rows):
    """int64, of the same shape, on the host. Raises IndexError naming position, value and bounds."""
    index = as_index(given).detach().to("cpu", torch.int64)
    wrong = (index < -rows) | (index >= rows)
    if wrong.any():
        at = wrong.flatten().nonzero()[0].item()
        raise IndexError(f"index {index.flatten()[at].item()} at position {at} is outside of {rows} rows ({-rows} to {rows - 1})")
    return torch.where(index < 0, index + rows, index)


def _is_fortran(file):
    """True for a `.npy` file in Fortran order, which np.load() reads and Table.from_file() refuses."""
    try:
        return not np.load(file, mmap_mode="r").flags.c_contiguous
    except (OSError, ValueError, EOFError, AttributeError):
        return False  # from_file() says what is wrong


class _Saved:
    """Saving and loading of `self.table`, by the names of all families."""

    table = None

    def _ready(self):
        if self.table is None:
            raise RuntimeError(f"{type(self).__name__}: there is no table yet; call {self._inits} first")
        return self.table

    def getNumpyVersion(self):
        """A copy of all rows."""
        return self._ready().tensor.cpu().numpy().copy()

    def getCupyVar(self):
        """The table itself, as a tensor of torch."""
        return self._ready().tensor

    getTorchVar = getCupyMM = getCupyVar

    def saveCupy(self, saveFileName):
        """Writes a `.npy` file; adds `.npy` to another name, as numpy.save() does."""
        name = os.fspath(saveFileName)
        self._save_npy(name if name.endswith(".npy") else name + ".npy")

    def _save_npy(self, name):
        self._ready().save(name)

    def saveTorch(self, saveFileName):
        """Writes a file that torch.load() reads, under any name."""
        _torch_files.save(self._ready().tensor.cpu().clone(), saveFileName)

    def loadCupy(self, loadFileName):
        """Reads a `.npy` file. Raises ValueError for another shape than the table's."""
        self._take(torch.as_tensor(np.load(loadFileName)), loadFileName)

    def loadTorch(self, loadFileName):
        """Reads a tensor that torch.save() wrote, from any device. Raises OSError for a damaged file, ValueError for another
        shape and for anything but a tensor."""
        values = _torch_files.load(loadFileName)
        if not isinstance(values, torch.Tensor):
            raise ValueError(f"{loadFileName} holds a {type(values).__name__}, not a tensor")
        self._take(values, loadFileName)

    def _take(self, values, name):
        if self._shape is not None and tuple(values.shape) != self._shape:
            raise ValueError(f"{name} has the shape {tuple(values.shape)}; this {type(self).__name__} has {self._shape}")
        if self._dtype is not None and values.dtype != self._dtype:
            tell_once(f"{name} has {values.dtype}, which is converted to the declared {self._dtype}; SpeedTorch took it as it was")
            values = values.to(self._dtype)
        if self.table is None or self._shape is None:
            self.table = Table.from_array(values, **self._home())
        else:
            self.table.fill(values)


class DataGadget(_Saved):
    """An array whose rows go to the GPU and back: of a `.npy` file, or of an array in memory.

    `getData(indexes)` returns what NumPy's `array[indexes]` would, as a tensor on the GPU if there is one;
    `insertData(dataObject, indexes)` sets it, where the last of several values for a row wins. `prefetch(indexes)` begins to
    gather, and `take()` returns the oldest batch of those."""

    _inits, _shape, _dtype = "gadgetInit()", None, None

    def __init__(self, fileName, CPUPinn=False):
        self.fileName, self.CPUPinn = fileName, CPUPinn
        self._worker, self._begun = None, []

    def _home(self):
        return home(self.CPUPinn)

    def gadgetInit(self):
        """Reads the data. The other methods do it if it was not called."""
        if not isinstance(self.fileName, (str, os.PathLike)):
            self.table = Table.from_array(self.fileName, **self._home())
        elif _is_fortran(self.fileName):
            self.table = Table.from_array(np.ascontiguousarray(np.load(self.fileName)), **self._home())
        else:
            self.table = Table.from_file(self.fileName, **self._home())

    def _ready(self):
        if self.table is None:
            self.gadgetInit()
        return self.table

    def _indexed(self, indexes):
        """Row numbers, or None for slices that torch takes and for indices of more than rows."""
        if isinstance(indexes, slice) and (indexes.step or 1) < 0:
            return torch.from_numpy(np.arange(*indexes.indices(len(self.table))))
        if isinstance(indexes, (slice, tuple)) or indexes is None or indexes is Ellipsis:
            return None
        index = as_index(indexes)
        return None if index.dtype == torch.bool else row_numbers(index, len(self.table))

    def _view_index(self, indexes):
        """Converts arrays to tensors on the table's device, for torch's own indexing."""
        if isinstance(indexes, tuple):
            return tuple(map(self._view_index, indexes))
        if indexes is None or isinstance(indexes, (slice, int)) or indexes is Ellipsis:
            return indexes
        return as_index(indexes).to(self.table.device)

    def getData(self, indexes):
        table = self._ready()
        rows = self._indexed(indexes)
        if rows is not None:
            return table.gather(rows, device=gpu_or_cpu())
        return table.tensor[self._view_index(indexes)].to(gpu_or_cpu(), copy=True)

    def insertData(self, dataObject, indexes):
        table = self._ready()
        values = torch.as_tensor(dataObject).detach().to(table.dtype)
        rows = self._indexed(indexes)
        if rows is None:
            table.tensor[self._view_index(indexes)] = values.to(table.device)
        else:
            table.scatter(rows, values.broadcast_to((*rows.shape, *table.shape[1:])).contiguous())

    def prefetch(self, indexes):
        """Begins to gather rows on another thread. They are the rows as of the time when they are gathered."""
        self._worker = self._worker or concurrent.futures.ThreadPoolExecutor(1)
        self._begun.append(self._worker.submit(self.getData, indexes))

    def take(self):
        """The oldest batch of prefetch(). Raises RuntimeError if there is none."""
        if not self._begun:
            raise RuntimeError("take() without a prefetch(): call prefetch(indexes) first")
        return self._begun.pop(0).result()


class _Swapped:
    """The rows of a batch, for all factories."""

    _open = None  # the rows of the last beforeForwardPass(), until they are written back

    def _rows(self, positives, negatives):
        parts = [row_numbers(part, self.total_classes).flatten() for part in (positives, negatives) if part is not None]
        return torch.cat(parts)

    def _closed(self, positives, negatives):
        """The rows to write back. Raises ValueError if they are not those of beforeForwardPass()."""
        rows, given = self._open, positives is not None
        if rows is None and not given:
            raise RuntimeError("afterOptimizerStep() without a beforeForwardPass()")
        if given:
            named = self._rows(positives, negatives)
            if rows is not None and not torch.equal(named, rows):
                raise ValueError(
                    f"afterOptimizerStep() names other rows ({len(named)}) than beforeForwardPass() ({len(rows)}), or the same in "
                    "another order; pass the same indices"
                )
            rows = named
        self._open = None
        return rows


class _ModelFactory(_Saved, _Swapped):
    _inits = "zerosInit(), uniformDistributionInit(), normalDistributionInit() or customInit()"

    def _declare(self, model_variable, total_classes, embed_dimension, datatype):
        if not isinstance(getattr(model_variable, "weight", None), torch.Tensor):
            raise TypeError(f"model_variable is a {type(model_variable).__name__} without a weight; give an nn.Embedding")
        self.model_variable, self.total_classes, self.embed_dimension = model_variable, total_classes, embed_dimension
        self.datatype = self._dtype = dtype_of(datatype)
        self._shape = (total_classes, embed_dimension)
        self._repeats = self._hooked = None
        self._shapes, self._version = (), None

    def _init(self, fill):
        if self.table is None:
            self.table = Table.empty(self._shape, self._dtype, **self._home())
        self.table.fill(fill)

    def zerosInit(self):
        """Makes the table, all zeros."""
        self._init(0)

    def uniformDistributionInit(self, low, high):
        """Makes the table of numbers in [low, high), by torch's seed."""
        self._init(Uniform(low, high))

    def normalDistributionInit(self, mean, stdDev):
        """Makes the table of normally distributed numbers, by torch's seed."""
        self._init(Normal(mean, stdDev))

    def customInit(self, initFunction, *args):
        """Makes the table and calls `initFunction(table, *args)`, which sets it in place."""
        self._init(lambda table: initFunction(table, *args))

    @staticmethod
    def variableTransformer(batchSize, posPerBatch, negPerBatch=None):
        """The constant inputs of every step: the numbers of the batch's rows as `[batchSize, posPerBatch]` and, with negatives,
        those after them as `[batchSize, negPerBatch]`."""
        first = batchSize * posPerBatch
        positives = np.arange(first).reshape(batchSize, posPerBatch)
        if negPerBatch is None:
            return positives
        return positives, np.arange(first, first + batchSize * negPerBatch).reshape(batchSize, negPerBatch)

    def beforeForwardPass(self, retrievedPosIndexes, retrievedNegIndexes=None):
        """Puts the rows of the indices into the model's weight, in their order, and drops its gradient."""
        table, rows = self._ready(), self._rows(retrievedPosIndexes, retrievedNegIndexes)
        weight = self.model_variable.weight
        if self._open is not None and weight._version != self._version:
            tell_once("beforeForwardPass() replaces rows that were trained and not written back by afterOptimizerStep()")
        weight.data = table.gather(rows, device=self._model_device(weight))
        weight.grad = None
        self._open, self._version = rows, weight._version
        self._shapes = [np.shape(part) for part in (retrievedPosIndexes, retrievedNegIndexes) if part is not None]
        self._join_repeats(weight, rows)

    def _model_device(self, weight):
        return weight.device

    @property
    def positions(self):
        """The weight's row for each index of the last beforeForwardPass(), one array per argument."""
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        firsts = np.cumsum([0, *sizes])
        return [np.arange(first, first + size).reshape(shape) for first, size, shape in zip(firsts, sizes, self._shapes)]

    def _join_repeats(self, weight, rows):
        """Gives each copy of a row the gradients of all its copies, so that a step changes them equally."""
        distinct, places = distinct_rows(rows, self.total_classes)
        self._repeats = None if len(distinct) == len(rows) else (places.to(weight.device), len(distinct))
        if self._repeats is None:
            return
        tell_once(
            "a batch names rows more than once: their gradients are summed, as in the whole table; SpeedTorch trained each "
            "copy by itself and kept one"
        )
        if self._hooked is not weight and weight.requires_grad:
            weight.register_hook(self._joined)
            self._hooked = weight

    def _joined(self, gradient):
        if self._repeats is None:
            return None
        places, count = self._repeats
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        sums = dense.new_zeros(count, *dense.shape[1:]).index_add_(0, places, dense)[places]
        return sums.to_sparse(1) if gradient.is_sparse else sums

    def afterOptimizerStep(self, retrievedPosIndexes=None, retrievedNegIndexes=None):
        """Writes the weight's rows back. The indices may be left out; given, they are those of beforeForwardPass()."""
        table, weight = self._ready(), self.model_variable.weight
        rows = self._closed(retrievedPosIndexes, retrievedNegIndexes)
        if len(weight) != len(rows):
            raise ValueError(f"the weight has {len(weight)} rows and afterOptimizerStep() names {len(rows)}")
        table.scatter(rows, weight.detach().to(table.dtype))


class ModelFactory(_ModelFactory):
    """Keeps all rows of a weight in a table `[total_classes, embed_dimension]` and swaps those of a batch into the model.

    `model_variable` is a module with a `weight`, such as an nn.Embedding of any number of rows: between beforeForwardPass() and
    afterOptimizerStep() its weight has one row per index. Make the table by an init method or a load method first."""

    def __init__(self, model_variable, total_classes, embed_dimension, datatype="float32", CPUPinn=False):
        self._declare(model_variable, total_classes, embed_dimension, datatype)
        self.CPUPinn = CPUPinn

    def _home(self):
        return home(self.CPUPinn)

    def _model_device(self, weight):
        return gpu_or_cpu()


class PytorchModelFactory(_ModelFactory):
    """ModelFactory whose table is a tensor of torch's on a device. The rows go to the weight's device."""

    def __init__(self, model_variable, total_classes, embed_dimension, datatype=torch.float, deviceType="cuda", pinType=False):
        self._declare(model_variable, total_classes, embed_dimension, datatype)
        self.deviceType, self.pinType = deviceType, pinType

    def _home(self):
        return home(self.pinType, self.deviceType)


class GPUPytorchModelFactory(PytorchModelFactory):
    """PytorchModelFactory whose table is on the GPU."""

    def __init__(self, model_variable, total_classes, embed_dimension, datatype=torch.float):
        super().__init__(model_variable, total_classes, embed_dimension, datatype)


class CPUPytorchModelFactory(PytorchModelFactory):
    """PytorchModelFactory whose table is in pinned memory."""

    def __init__(self, model_variable, total_classes, embed_dimension, datatype=torch.float):
        super().__init__(model_variable, total_classes, embed_dimension, datatype, "cpu", True)


def new_file(diskname):
    """The first free one of SpeedTorch's names."""
    number = 0
    while os.path.exists(name := f"{diskname}{number}.memmap.cpy.npy"):
        number += 1
    return name


class ModelFactoryMM(_ModelFactory):
    """ModelFactory whose table is a mapped file, `<diskname><number>.memmap.cpy.npy`, which it really stays in."""

    def __init__(self, model_variable, total_classes, embed_dimension, diskname="variable", datatype="float32", CPUPinn=False):
        self._declare(model_variable, total_classes, embed_dimension, datatype)
        self.diskname, self.CPUPinn = diskname, CPUPinn

    def _home(self):
        self.fileName = new_file(self.diskname)
        return {"placement": "mapped", "file": self.fileName}

    def _model_device(self, weight):
        return gpu_or_cpu()


class _OptimizerFactory(_Swapped):
    """Keeps an optimizer's states of all rows in tables and swaps those of a batch into the optimizer.

    Any optimizer whose states have the shape of their parameter: SparseAdam, Adam and AdamW (also with amsgrad), Adadelta,
    Adagrad, Adamax, NAdam, RAdam, ASGD, Rprop, RMSprop and SGD with their options. States begin as the optimizer would begin
    them. No step needs to be done before."""

    def _declare(self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype):
        self.given_optimizer, self.model, self.variable_name = given_optimizer, model, variable_name
        self.total_classes, self.embed_dimension, self.datatype = total_classes, embed_dimension, dtype_of(dtype)
        named = dict(model.named_parameters())
        self.parameter = named.get(variable_name + ".weight", named.get(variable_name))
        if self.parameter is None:
            raise ValueError(f"the model has no variable {variable_name!r}; it has {', '.join(sorted(named))}")
        if getattr(given_optimizer, "_contiguous", False):
            raise ValueError("a contiguous optimizer has its states in buffers, where rows cannot be swapped; leave contiguous=True out")
        groups = [group for group in given_optimizer.param_groups if any(p is self.parameter for p in group["params"])]
        if not groups:
            raise ValueError(f"the optimizer does not have the parameter {variable_name!r}")
        self._initial = self._probed(groups[0])
        self.optVarList = list(self._initial)
        self.tables, self._shared = None, {}

    def _probed(self, group):
        """Names and initial values of the states that have one row per class: those after a step of an optimizer of this kind
        by a gradient of zeros on a parameter of zeros."""
        parameter = torch.nn.Parameter(self.parameter.detach().new_zeros(2, self.embed_dimension))
        name = type(self.given_optimizer).__name__
        gradient = torch.zeros_like(parameter)
        parameter.grad = gradient.to_sparse(1) if "Sparse" in name else gradient
        kind = type(self.given_optimizer)
        options = {key: value for key, value in group.items() if key in inspect.signature(kind).parameters and key != "params"}
        try:
            probe = kind([{**group, "params": [parameter]}], **options)
            probe.step()
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"{name} is not supported: it does not step one parameter by its gradient ({error})") from error
        initial = {}
        for key, value in probe.state[parameter].items():
            if not isinstance(value, torch.Tensor) or value.dim() == 0:
                continue
            if value.shape != parameter.shape:
                shapes = f"{tuple(value.shape)} for a parameter of {tuple(parameter.shape)}"
                raise ValueError(f"{name} is not supported: its state {key} is {shapes}")
            initial[key] = value.flatten()[0].item()
        return initial

    def optInit(self):
        """Makes the tables, one per state, of initial values."""
        shape = (self.total_classes, self.embed_dimension)
        self.tables = {name: Table.filled(shape, value, self.datatype, **self._home()) for name, value in self._initial.items()}

    def _ready(self):
        if self.tables is None:
            raise RuntimeError(f"{type(self).__name__}: there are no tables yet; call optInit() first")
        return self.tables

    def beforeForwardPass(self, retrievedPosIndexes, retrievedNegIndexes=None):
        """Puts the states of the indices' rows into the optimizer, in the order of the weight's rows."""
        tables = self._ready()
        self._open = self._rows(retrievedPosIndexes, retrievedNegIndexes)
        if self.parameter not in self.given_optimizer.state and not self._shared:
            return  # before its first step all rows have the states that the optimizer begins with
        state = self.given_optimizer.state[self.parameter]
        if self._shared:
            state.update(copy.deepcopy(self._shared))
            self._shared = {}
        for name, table in tables.items():
            state[name] = table.gather(self._open, device=self.parameter.device)

    def afterOptimizerStep(self, retrievedPosIndexes=None, retrievedNegIndexes=None):
        """Writes the states of the batch's rows back to the tables."""
        tables = self._ready()
        rows = self._closed(retrievedPosIndexes, retrievedNegIndexes)
        if self.parameter not in self.given_optimizer.state:
            return  # no step was done
        state = self.given_optimizer.state[self.parameter]
        for name in tables:
            if len(state[name]) != len(rows):
                raise ValueError(f"the optimizer's {name} has {len(state[name])} rows and afterOptimizerStep() names {len(rows)}")
        for name, table in tables.items():
            table.scatter(rows, state[name].detach().to(table.dtype))

    def getNumpyVersion(self):
        """Copies of all tables, by the names of the states."""
        return {name: table.tensor.cpu().numpy().copy() for name, table in self._ready().items()}

    def save(self, saveFileName):
        """Writes all tables and what the optimizer counts to a file; load() continues from it."""
        state = self.given_optimizer.state.get(self.parameter, {})
        content = {
            "optimizer": type(self.given_optimizer).__name__,
            "tables": {name: table.tensor.cpu().clone() for name, table in self._ready().items()},
            "shared": {name: value for name, value in state.items() if name not in self.tables},
        }
        _torch_files.save(content, saveFileName)

    def load(self, loadFileName):
        """Reads what save() wrote. Raises OSError for a damaged file, ValueError for another optimizer, other states, another
        shape and for anything that save() did not write; then nothing was changed."""
        content = _torch_files.load(loadFileName)
        _torch_files.check_entries(loadFileName, content, {"optimizer": str, "tables": dict, "shared": dict})
        _torch_files.check_entries(loadFileName, content["tables"], dict.fromkeys(content["tables"], torch.Tensor))
        found = content["optimizer"], {name: tuple(table.shape) for name, table in content["tables"].items()}
        mine = type(self.given_optimizer).__name__, dict.fromkeys(self._initial, (self.total_classes, self.embed_dimension))
        if found != mine:
            raise ValueError(f"{loadFileName} has {found}; this factory has {mine}")
        if self.tables is None:
            self.optInit()
        for name, table in self.tables.items():
            table.fill(content["tables"][name].to(self.datatype))
        self._shared = content["shared"]


class OptimizerFactory(_OptimizerFactory):
    """Keeps an optimizer's states of all rows in tables `[total_classes, embed_dimension]`, one per state, and swaps those of a
    batch into the optimizer. `variable_name` is the module's name in the model ("u_embeddings") or the parameter's. Raises
    ValueError for an unknown name, a parameter that the optimizer does not have, or an optimizer whose states do not have one
    row per class."""

    def __init__(self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype="float32", CPUPinn=False):
        self.CPUPinn = CPUPinn
        self._declare(given_optimizer, total_classes, embed_dimension, model, variable_name, dtype)

    def _home(self):
        return home(self.CPUPinn)


class PytorchOptimizerFactory(_OptimizerFactory):
    """OptimizerFactory whose tables are tensors of torch's on a device."""

    def __init__(
        self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype=torch.float, deviceType="cuda",
        pinType=False,
    ):  # fmt: skip
        self.deviceType, self.pinType = deviceType, pinType
        self._declare(given_optimizer, total_classes, embed_dimension, model, variable_name, dtype)

    def _home(self):
        return home(self.pinType, self.deviceType)


class GPUPytorchOptimizerFactory(PytorchOptimizerFactory):
    """PytorchOptimizerFactory whose tables are on the GPU."""

    def __init__(self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype=torch.float):
        super().__init__(given_optimizer, total_classes, embed_dimension, model, variable_name, dtype)


class CPUPytorchOptimizerFactory(PytorchOptimizerFactory):
    """PytorchOptimizerFactory whose tables are in pinned memory."""

    def __init__(self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype=torch.float):
        super().__init__(given_optimizer, total_classes, embed_dimension, model, variable_name, dtype, "cpu", True)


class OptimizerFactoryMM(_OptimizerFactory):
    """OptimizerFactory whose tables are mapped files, `<variable_name><number>.memmap.cpy.npy`."""

    def __init__(self, given_optimizer, total_classes, embed_dimension, model, variable_name, dtype="float32", CPUPinn=False):
        self.CPUPinn = CPUPinn
        self._declare(given_optimizer, total_classes, embed_dimension, model, variable_name, dtype)

    def _home(self):
        return {"placement": "mapped", "file": new_file(self.variable_name)}


class DataGadgetMM(DataGadget):
    """DataGadget that maps its file: nothing is read before its rows are used. Writes go to the file."""

    def gadgetInit(self):
        self.table = Table.from_file(self.fileName, placement="mapped", writable=True)


class COM(_Saved):
    """How often two classes occur together: a table `[total_classes, total_classes]`."""

    _inits = "comInit()"

    def __init__(self, total_classes, datatype="uint32", CPUPinn=False):
        self.total_classes, self.datatype, self.CPUPinn = total_classes, datatype, CPUPinn
        self._shape, self._dtype = (total_classes, total_classes), dtype_of(datatype)

    def _home(self):
        return home(self.CPUPinn)

    def comInit(self, CPUPinn=None):
        """Makes the table, all zeros."""
        if CPUPinn is not None:
            self.CPUPinn = self.CPUPinn or CPUPinn
        self.table = Table.filled(self._shape, 0, self._dtype, **self._home())

    def addPairs(self, first, second):
        """Adds 1 to the count of (first[i], second[i]) for each i."""
        first, second = (row_numbers(index, self.total_classes).flatten() for index in (first, second))
        if len(first) != len(second):
            raise ValueError(f"{len(first)} first classes and {len(second)} second ones; take pairs")
        cells = self._ready().tensor.view(-1)
        cells = cells.view(_SIGNED.get(cells.dtype, cells.dtype))  # torch adds no unsigned numbers; the bits are the same
        places = (first * self.total_classes + second).to(cells.device)
        cells.index_add_(0, places, torch.ones(len(places), dtype=cells.dtype, device=cells.device))

    def _is_uint32(self):
        """True if the table holds uint32 as int32: torch adds no unsigned numbers."""
        return self._dtype == torch.int32 and self.datatype != torch.int32 and np.dtype(self.datatype) == np.uint32

    def getNumpyVersion(self):
        array = super().getNumpyVersion()
        return array.view(np.uint32) if self._is_uint32() else array

    def _save_npy(self, name):
        if not self._is_uint32():
            super()._save_npy(name)
            return
        with _native.FileWriter(name) as file:
            np.save(file, self._ready().tensor.cpu().numpy().view(np.uint32))

    def _take(self, values, name):
        super()._take(values.view(torch.int32) if values.dtype == torch.uint32 and self._is_uint32() else values, name)


class PytorchCOM(COM):
    """COM by the name of torch's family."""

    def __init__(self, total_classes, datatype=torch.int32):
        super().__init__(total_classes, datatype)


class GPUPytorchCOM(PytorchCOM):
    """PytorchCOM by its name for the GPU."""


class CPUPytorchCOM(PytorchCOM):
    """PytorchCOM in pinned memory."""

    def _home(self):
        return home(True, "cpu")


class COMMM(COM):
    """COM in a mapped file, `<diskname><number>.memmap.cpy.npy`."""

    def __init__(self, total_classes, diskname="COM", datatype="uint32", CPUPinn=False):
        super().__init__(total_classes, datatype, CPUPinn)
        self.diskname = diskname

    def _home(self):
        self.fileName = new_file(self.diskname)
        return {"placement": "mapped", "file": self.fileName}
