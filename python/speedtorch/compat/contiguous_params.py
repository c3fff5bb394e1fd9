"""contiguous_pytorch_params: `ContiguousParams` for torch's own optimizers, without the trap that ended training silently."""

import torch

import speedtorch


class _Buffer(torch.nn.Parameter):
    """All parameters of one dtype and device as one, for an optimizer. Its gradient is always there and up to date, also after
    a `zero_grad()` that makes gradients None, torch's default."""

    @staticmethod
    def over(flat, owner):
        made = torch.Tensor._make_subclass(_Buffer, flat.detach(), True)
        made._flat, made._owner = flat, owner
        return made

    @property
    def grad(self):
        self._owner.prepare_step()
        return self._flat.grad

    @grad.setter
    def grad(self, value):
        self._owner.prepare_step()
        if value is None:
            self._flat.grad.zero_()
        else:
            self._flat.grad.copy_(value)


class ContiguousParams(speedtorch.ContiguousParams):
    """Moves all parameters into one buffer per dtype and device, and gives the buffers to an optimizer:

        parameters = ContiguousParams(model.parameters())
        optimizer = torch.optim.Adam(parameters.contiguous())

    The training loop stays as it is. Frozen parameters are never changed. `speedtorch.optim` with `contiguous=True` does a
    step in one pass, and leaves parameters alone that the loss did not use."""

    def contiguous(self):
        """The buffers, for an optimizer."""
        return [_Buffer.over(flat, self) for flat in super().contiguous()]

    def assert_buffer_is_valid(self):
        """Raises ValueError naming the parameter that lies elsewhere, and what moved it."""
        try:
            super().assert_buffer_is_valid()
        except speedtorch.errors.BufferError as error:
            raise ValueError(str(error)) from error
