"""infinitybatch's training manager, over speedtorch.MicroBatches: batches really need no more memory than a micro-batch."""

import collections

import torch

from speedtorch import micro_batches
from speedtorch._micro_batch_parts import to_device, warn
from speedtorch.compat import tell_once
from speedtorch.compat.infinitybatch import tools
from speedtorch.micro_batches import InfinityBatchError, InfinityBatchWarning

__all__ = ["InfinityBatch", "InfinityBatchError", "InfinityBatchWarning", "tools"]

KEPT_BATCHES = 64  # of inputs, outputs and targets


class Containers:
    """Lists by `[epoch][batch]` that keep the last batches only."""

    def __init__(self):
        self.epochs, self.kept = [], collections.deque()

    def begin_epoch(self):
        self.epochs.append([])

    def add(self, value):
        if not self.epochs:
            self.begin_epoch()
        self.epochs[-1].append(value)
        self.kept.append((self.epochs[-1], len(self.epochs[-1]) - 1))
        if len(self.kept) > KEPT_BATCHES:
            epoch, at = self.kept.popleft()
            epoch[at] = None
            tell_once(f"inputs, outputs and targets are kept of the last {KEPT_BATCHES} batches; earlier ones are None")


class Watched:
    """A data loader that notes the inputs of the batch it gave last."""

    def __init__(self, loader, owner):
        self._loader, self._owner = loader, owner

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        for item in self._loader:
            self._owner._given = item[0] if isinstance(item, (tuple, list)) else item
            yield item


class InfinityBatch(micro_batches.MicroBatches):
    """infinitybatch's names and containers. Further keywords are those of `speedtorch.MicroBatches`."""

    def __init__(self, model=None, optimizer=None, criterion=None, dataloader=None, backward_device=None, verbose=True, **options):
        self._given = None
        self.clearcontainers_()
        self.verbose_mode = verbose
        if backward_device is None and torch.cuda.is_available():
            backward_device = "cpu"
        options = {"batch_norm": "per_micro_batch", "progress": False} | options
        super().__init__(model, optimizer, criterion, dataloader, backward_device=backward_device, **options)
        self._keep_outputs = True

    def _say(self, text, end="\n"):
        if self.verbose_mode:
            print(text, end=end, flush=True)

    @property
    def optimier(self):
        """The README's name of `optimizer`."""
        return self.optimizer

    @optimier.setter
    def optimier(self, optimizer):
        tell_once("ib.optimier sets ib.optimizer; infinitybatch had no such property and failed at the first step")
        self.optimizer = optimizer

    @property
    def dataloader(self):
        return self._dataloader and Watched(self._dataloader, self)

    @dataloader.setter
    def dataloader(self, dataloader):
        loader = dataloader._loader if isinstance(dataloader, Watched) else dataloader
        micro_batches.MicroBatches.dataloader.fset(self, loader)

    def train(self, num_epochs):
        self.clearcontainers_()
        self._say(f"Training for {num_epochs} epochs.")
        return super().train(num_epochs)

    def epoch(self):
        if self._iterator is None:
            self.epochstart_()
        done = super().epoch()
        self._say(f"-- epoch {done.epoch + 1}: {done.batches} batches, {done.samples} samples, loss {done.loss:.6g}")
        return done

    def epochstart_(self):
        for container in (self._inputs, self._outputs, self._targets):
            container.begin_epoch()
        self._losses.append([])

    def clearcontainers_(self):
        self._inputs, self._outputs, self._targets, self._losses = Containers(), Containers(), Containers(), []

    def _batch_done(self, batch, result):
        keep = self.backward_device
        for container, value in ((self._inputs, batch.inputs), (self._outputs, result.outputs), (self._targets, result.targets)):
            container.add(to_device(value, "cpu" if container is self._inputs else keep))
        self._losses[-1].append((result.loss, result.samples))

    inputs = property(lambda self: self._inputs.epochs, doc="`[epoch][batch]` of the last batches, on the CPU.")
    outputs = property(lambda self: self._outputs.epochs, doc="`[epoch][batch]` of the last batches, without graphs.")
    targets = property(lambda self: self._targets.epochs, doc="`[epoch][batch]` of the last batches.")

    @property
    def losses(self):
        """`[epoch][batch]` of (loss, size of the batch), of all batches since train() began."""
        return self._losses

    def batch_(self, inputs=None):
        if inputs is None:
            if self._given is None:
                raise InfinityBatchError("batch_() without inputs is for loops over ib.dataloader; give the inputs of the batch")
            tell_once("ib.batch_() takes the inputs of the batch that ib.dataloader gave last; infinitybatch refused this call")
            inputs = self._given
        return super().batch_(inputs)

    def changemodeldevice(self, device):
        """Moves the model, and the optimizers' states with it."""
        if self.model is None:
            return
        self.model.to(device)
        for optimizer in self._optimizers or ():
            optimizer.load_state_dict(optimizer.state_dict())  # moves each state to its parameter

    def updateforwarddevice(self):
        """Does nothing, because the model is asked each time."""

    def checkdevices_(self):
        if self.model is not None and self.forward_device == self.backward_device:
            warn(InfinityBatchWarning, "forward and backward devices are the same")


