"""Python's torch: index_select into an existing tensor, index_copy_ back, with the case's number of threads."""

import peer

try:
    import torch
except ImportError as error:
    peer.missing(f"torch cannot be imported ({error})")

torch.set_grad_enabled(False)


class Cell(peer.Cell):
    def configure(self, threads, device):
        torch.set_num_threads(threads)

    def attach(self, memory, dtype, shape):
        return torch.frombuffer(memory, dtype=getattr(torch, dtype)).view(shape)

    def to(self, number):
        torch.index_select(self.table, 0, self.index[number], out=self.model)

    def back(self, number):
        self.table.index_copy_(0, self.index[number], self.values[number])


peer.serve(Cell, {"torch": torch.__version__})
