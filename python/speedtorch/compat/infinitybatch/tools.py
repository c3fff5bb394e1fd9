"""infinitybatch.tools: snapshots of a GPU's memory, repeatable training, comparison of results."""

import random

import torch

ERROR_TOLERANCE = 1e-7


class CudaMemorySnapShot:
    """Bytes of a GPU: `total`, `reserved` by torch's allocator, `allocated` in tensors. All are 0 without a GPU."""

    def __init__(self, device_id=None, synchronize=True):
        self.device = device_id
        self.total = self.reserved = self.allocated = 0
        if torch.cuda.is_available():
            if synchronize:
                torch.cuda.synchronize(device_id)
            self.total = torch.cuda.get_device_properties(device_id).total_memory
            self.reserved = torch.cuda.memory_reserved(device_id)
            self.allocated = torch.cuda.memory_allocated(device_id)

    @property
    def free_cache(self):
        """Bytes that torch's allocator has reserved and no tensor uses."""
        return self.reserved - self.allocated

    def __repr__(self):
        return f"CudaMemorySnapShot(total={self.total}, reserved={self.reserved}, allocated={self.allocated})"


class CudaHistory(list):
    """(label, CudaMemorySnapShot) in the order of append(). Labels are cut at 20 characters."""

    def __init__(self):
        super().__init__()

    def append(self, name, device_id=None, synchronize=True):
        super().append((name[:20], CudaMemorySnapShot(device_id, synchronize)))

    def __str__(self):
        if not self:
            return "CudaHistory is empty."
        line = "+" + "-" * 22 + ("+" + "-" * 13) * 3 + "+"
        rows = [f"| {'Name':20} | {'Total':11} | {'Reserved':11} | {'Allocated':11} |", line]
        rows += [f"| {name:20} | {taken.total:>11} | {taken.reserved:>11} | {taken.allocated:>11} |" for name, taken in self]
        return "CudaHistory:\n" + "\n".join(rows) + "\n"


def determinize(seed=None, be_deterministic=True):
    """Seeds Python's, NumPy's and torch's generators and makes cuDNN deterministic. Without a seed takes 0, or, with
    `be_deterministic=False`, new entropy."""
    torch.backends.cudnn.deterministic = be_deterministic
    torch.backends.cudnn.benchmark = not be_deterministic
    seed = 0 if seed is None and be_deterministic else seed
    random.seed(seed)
    torch.seed() if seed is None else torch.manual_seed(seed)  # of all devices
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)


def _is_equal(one, another):
    """Compares tensors, numbers, and dicts and lists of them. Devices may differ."""
    if isinstance(one, torch.Tensor) and isinstance(another, torch.Tensor):
        return torch.equal(one.cpu(), another.cpu())
    if isinstance(one, dict) and isinstance(another, dict):
        return one.keys() == another.keys() and all(_is_equal(value, another[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(another, (list, tuple)):
        return len(one) == len(another) and all(map(_is_equal, one, another))
    return type(one) is type(another) and one == another


def is_equal_network(one, another):
    """True if both state dicts have the same names, and each parameter and buffer the same shape and values. Devices may differ."""
    return _is_equal(one.state_dict(), another.state_dict())


def is_equal_with_error(one, another, detach=True):
    """True if the shapes are equal and no element differs by more than 1e-7. infinitybatch had it the wrong way round."""
    if one.shape != another.shape:
        return False
    return bool(((one.detach().double() - another.detach().double()).abs() <= ERROR_TOLERANCE).all())


def compare_with_error_(one, another):
    """True if two numbers differ by at most 1e-7."""
    return abs(one - another) <= ERROR_TOLERANCE
