from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

def place_states(parameter: torch.Tensor, placement: str) -> None: ...

class _Fused(torch.optim.Optimizer):
    # The arguments are those of torch's class of the same name, and `contiguous`.
    def __init__(self, params: ParamsT, *args: Any, contiguous: bool = False, **options: Any) -> None: ...
    def step(  # type: ignore[override]
        self, closure: Callable[[], Any] | None = None, *, max_norm: float | None = None, zero_grad: bool = False
    ) -> Any: ...
    def rebuild(self) -> None: ...

class Adam(_Fused, torch.optim.Adam): ...  # type: ignore[misc]
class AdamW(_Fused, torch.optim.AdamW): ...  # type: ignore[misc]
class SparseAdam(_Fused, torch.optim.SparseAdam): ...  # type: ignore[misc]
class Adagrad(_Fused, torch.optim.Adagrad): ...  # type: ignore[misc]
class RMSprop(_Fused, torch.optim.RMSprop): ...  # type: ignore[misc]
class SGD(_Fused, torch.optim.SGD): ...  # type: ignore[misc]
class Adadelta(_Fused, torch.optim.Adadelta): ...  # type: ignore[misc]
class Adamax(_Fused, torch.optim.Adamax): ...  # type: ignore[misc]
class ASGD(_Fused, torch.optim.ASGD): ...  # type: ignore[misc]
class Rprop(_Fused, torch.optim.Rprop): ...  # type: ignore[misc]
