"""NumPy: take into an existing array, assignment back; a plain array to hold. One thread, whatever the case has."""

import peer

try:
    import numpy as np
except ImportError as error:
    peer.missing(f"NumPy cannot be imported ({error})")


class Cell(peer.Cell):
    def attach(self, memory, dtype, shape):
        # NumPy has no bfloat16; rows are moved as the same bits.
        return np.frombuffer(memory, "uint16" if dtype == "bfloat16" else dtype).reshape(shape)

    def to(self, number):
        # mode='raise', the default, gathers into a buffer first; stbench has checked the index.
        np.take(self.table, self.index[number], axis=0, out=self.model, mode="clip")

    def back(self, number):
        self.table[self.index[number]] = self.values[number]


class Table(peer.Table):
    def make(self, size):
        return np.empty(size, np.uint8)

    def write(self, memory, begin, values):
        memory[begin : begin + len(values)] = values

    def read(self, memory, begin, end):
        return memory[begin:end]


peer.serve(Cell, {"numpy": np.__version__}, Table)
