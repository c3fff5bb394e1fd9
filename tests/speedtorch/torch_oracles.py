"""Python torch's optimizers as oracles, run in the tests. `torch` is None where it is not installed.

The wheel's square root is that of Intel's vector library, which one time in some hundred is not the nearest number; the
processor's instruction, which we use, always is. Within nearest_roots() torch's is that instruction's too, and then all is
equal bit for bit."""

import contextlib
from unittest import mock

try:
    import numpy as np
    import torch
except ImportError:
    torch = None

# Each optimizer with each of its switches at least once, and betas on both sides of where ATen's lerp turns.
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "beta1": 0.4, "weight_decay": 0.02, "amsgrad": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "beta1": 0.5, "amsgrad": True, "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.02, "initial_accumulator_value": 0.3}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.01}),
    ("RMSprop", {"centered": True, "maximize": True}),
    ("RMSprop", {"alpha": 0.9, "centered": True, "momentum": 0.8}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.01}),
    ("Adamax", {}),
    ("Adamax", {"beta1": 0.3, "weight_decay": 0.01, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lambd": 0.01, "t0": 2, "weight_decay": 0.01}),
    ("Rprop", {}),
    ("Rprop", {"etaminus": 0.4, "etaplus": 1.5, "step_size_max": 0.02, "maximize": True}),
]


# Who takes no square root is equal as it is.
ROOTLESS = ("SGD", "Adamax", "ASGD", "Rprop")


@contextlib.contextmanager
def nearest_roots():
    """Torch's square roots, here, are the nearest numbers."""

    def root_(tensor):
        return tensor.copy_(torch.from_numpy(np.asarray(np.sqrt(tensor.numpy()))))

    with mock.patch.object(torch.Tensor, "sqrt_", root_), mock.patch.object(
        torch.Tensor, "sqrt", lambda tensor: root_(tensor.detach().clone())
    ):
        yield


def torchs(options):
    """In torch's words."""
    words = dict(options)
    if "beta1" in words or "beta2" in words:
        words["betas"] = (words.pop("beta1", 0.9), words.pop("beta2", 0.999))
    if "etaminus" in words:
        words["etas"] = (words.pop("etaminus"), words.pop("etaplus"))
    if "step_size_max" in words:
        words["step_sizes"] = (1e-6, words.pop("step_size_max"))
    return words


class Rows:
    """SpeedTorch's scheme, which is right if each row is named once: the rows and their states are taken out, stepped by
    torch's dense optimizer, and put back."""

    def __init__(self, name, options, table):
        self.make = lambda param: getattr(torch.optim, name)([param], foreach=False, **torchs(options))
        self.table = torch.from_numpy(table.copy())
        whole = torch.nn.Parameter(self.table.clone())
        optimizer = self.make(whole)
        whole.grad = torch.zeros_like(whole)
        began = optimizer.state[whole]  # Adagrad sets its state at once
        self.tables, self.shared = {}, {}
        if not began:
            optimizer.step()
            began = optimizer.state[whole]
        for key, value in began.items():
            if torch.is_tensor(value) and value.shape == whole.shape:
                self.tables[key] = self.first(name, key, value, options)
        self.first_step = True

    @staticmethod
    def first(name, key, value, options):
        if name == "Adagrad":
            return value.clone()
        lr = options.get("lr", 0.01)
        return torch.full_like(value, lr if key == "step_size" else 0)

    def step(self, index, grad):
        rows, place = np.unique(index, return_inverse=True)
        summed = np.zeros((len(rows), *grad.shape[1:]), grad.dtype)
        np.add.at(summed, place, grad)  # one after the other, in order
        rows = torch.from_numpy(rows.astype(np.int64))
        param = torch.nn.Parameter(self.table[rows])
        param.grad = torch.from_numpy(summed)
        optimizer = self.make(param)
        if not self.first_step or "sum" in self.tables:
            optimizer.state[param].update(self.shared)
            optimizer.state[param].update({key: table[rows] for key, table in self.tables.items()})
        optimizer.step()
        self.table[rows] = param.data
        for key, value in optimizer.state[param].items():
            if key in self.tables:
                self.tables[key][rows] = value
            else:
                self.shared[key] = value
        self.first_step = False


class Dense:
    """Torch's optimizer of a whole table, whose gradient is zero but for the rows named, each once."""

    def __init__(self, name, options, table):
        self.param = torch.nn.Parameter(torch.from_numpy(table.copy()))
        self.optimizer = getattr(torch.optim, name)([self.param], foreach=False, **torchs(options))
        self.table = self.param.data

    def step(self, index, grad):
        self.param.grad = torch.zeros_like(self.param)
        self.param.grad[torch.from_numpy(index)] = torch.from_numpy(grad)
        self.optimizer.step()
        self.tables = self.optimizer.state[self.param]


class Sparse:
    """Torch's SparseAdam of a whole table."""

    def __init__(self, table, lr):
        self.param = torch.nn.Parameter(torch.from_numpy(table.copy()))
        self.optimizer = torch.optim.SparseAdam([self.param], lr=lr)
        self.table = self.param.data

    def step(self, index, grad):
        places = torch.from_numpy(index.astype(np.int64))[None]
        self.param.grad = torch.sparse_coo_tensor(
            places, torch.from_numpy(grad), self.param.shape, check_invariants=True
        )
        self.optimizer.step()
        self.tables = self.optimizer.state[self.param]


def fuses(isa):
    """Whether both sides fuse in the same places: without an instruction for it they do not."""
    return isa in ("avx512", "avx2") and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def same(test, found, wanted, what, exact):
    """Equal bit for bit, or to 1e-6 where that is all that can be; `test` says whether both sides fuse."""
    wanted = np.asarray(wanted)
    test.assertEqual(found.shape, wanted.shape, what)
    if exact and test.fuses:
        differ = int((found != wanted).sum())
        test.assertEqual(differ, 0, f"{what}: {differ} of {found.size} differ")
    else:
        worst = np.abs(found.astype(np.float64) - wanted).max(initial=0)
        test.assertLessEqual(worst, 1e-6 * max(1, np.abs(wanted).max(initial=0)), what)
