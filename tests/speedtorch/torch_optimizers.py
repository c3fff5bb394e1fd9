"""Python torch's optimizers as ours are compared with them."""

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
        return tensor.copy_(torch.from_numpy(np.sqrt(tensor.numpy())))

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
