"""All parameters of a model in one buffer, their gradients in another, for any elementwise optimizer."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from speedtorch import _native


class ContiguousParams:
    """Moves parameters into one buffer per dtype and device. They stay the model's own tensors.

        parameters = speedtorch.ContiguousParams(model.parameters())
        optimizer = torch.optim.Adam(parameters.contiguous())
        ...
        parameters.prepare_step()
        optimizer.step()
        parameters.zero_grad()

    Raises errors.BufferError for parameters that cannot be moved, with their number and the reason, and TypeError for anything
    but tensors.
    `speedtorch.optim.Adam(model.parameters(), contiguous=True)` does all of it in one pass.
    """

    def __init__(self, parameters: Iterable[Tensor]):
        given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        for number, parameter in enumerate(given):
            if not isinstance(parameter, Tensor):
                raise TypeError(f"parameter {number} is a {type(parameter).__name__}; give tensors, as model.parameters() does")
        self._native = _native.ContiguousParameters(given)

    def contiguous(self) -> list[Tensor]:
        """The flat buffers, one per dtype and device. Each is a leaf and has a gradient."""
        return self._native.contiguous()

    def original(self) -> list[Tensor]:
        """The parameters, each once."""
        return self._native.original()

    def buffer_is_valid(self) -> bool:
        """True if no parameter or gradient has moved."""
        return self._native.buffer_is_valid()

    def assert_buffer_is_valid(self) -> None:
        """Raises errors.BufferError naming the first one that does not, and what moved it."""
        self._native.assert_buffer_is_valid()

    def make_params_contiguous(self) -> None:
        """Lays the parameters out again, after `module.to()` or anything else that moved them."""
        self._native.rebuild()

    def prepare_step(self) -> None:
        """Call it before a step: brings gradients back that `zero_grad()` to none detached. Raises errors.BufferError if a
        parameter was moved."""
        self._native.prepare_step()

    def zero_grad(self) -> None:
        """Zeroes the gradients in the buffer."""
        self._native.zero_grad()

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scales all gradients to a joint 2-norm of at most `max_norm`, and returns the norm before."""
        return self._native.clip_grad_norm(max_norm)

    def split(self, flat: list[Tensor]) -> list[Tensor]:
        """Views of flat tensors, one per buffer, as one tensor per parameter: for states of an optimizer of contiguous()."""
        return self._native.split(flat)

    def join(self, parts: list[Tensor]) -> list[Tensor]:
        """The reverse of split(): copies."""
        return self._native.join(parts)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.original())

    def __len__(self) -> int:
        return len(self.original())
