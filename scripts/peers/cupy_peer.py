"""CuPy over pinned host memory, as SpeedTorch held its tables: kernels on the GPU read and write the table in place.

The table is stbench's memory, registered with CUDA in this process too. Output, values and index are on the device;
what stbench shares of them is copied outside the timed part. Not yet run on a GPU.
"""

import ctypes

import peer

try:
    import cupy as cp
    import numpy as np

    cp.cuda.runtime.getDeviceCount()
except ImportError as error:
    peer.missing(f"CuPy cannot be imported ({error})")
except cp.cuda.runtime.CUDARuntimeError as error:
    peer.missing(f"CuPy finds no GPU ({error})")

REGISTER_PORTABLE_AND_MAPPED = 1 | 2


class Registered:
    """Host memory registered with the GPU while this object lives."""

    def __init__(self, memory):
        self.memory = memory
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        cp.cuda.runtime.hostRegister(self.address, len(memory), REGISTER_PORTABLE_AND_MAPPED)

    def __del__(self):
        cp.cuda.runtime.hostUnregister(self.address)


class Cell(peer.Cell):
    def __init__(self, request):
        super().__init__(request)
        self.hosts = {"model": self.model, "values": self.values}
        registered = Registered(self.memory_of_table)
        block = cp.cuda.UnownedMemory(registered.address, self.table.nbytes, registered)
        self.table = cp.ndarray(self.table.shape, self.table.dtype, cp.cuda.MemoryPointer(block, 0))
        self.index = [cp.asarray(one) for one in self.index]
        self.values = [cp.asarray(one) for one in self.values]
        self.model = cp.empty(self.model.shape, self.model.dtype)

    def configure(self, threads, device):
        cp.cuda.Device(int(device.partition(":")[2] or 0)).use()

    def attach(self, memory, dtype, shape):
        self.memory_of_table = memory  # the table is attached last
        return np.frombuffer(memory, "uint16" if dtype == "bfloat16" else dtype).reshape(shape)

    def before(self, sets):
        for number in sets:
            self.values[number].set(self.hosts["values"][number])

    def finish(self):
        cp.cuda.get_current_stream().synchronize()

    def after(self):
        self.model.get(out=self.hosts["model"])

    def to(self, number):
        self.model[:] = self.table[self.index[number]]

    def back(self, number):
        self.table[self.index[number]] = self.values[number]


class Pinned:
    """Memory of cudaHostAlloc, as SpeedTorch allocated its pinned tables."""

    def __init__(self, size):
        self.address = cp.cuda.runtime.hostAlloc(size, 0)

    def __del__(self):
        cp.cuda.runtime.freeHost(self.address)


class Table(peer.Table):
    WARM_UP = 512  # CuPy's pool keeps what was freed, and would give it to the table

    def __init__(self, request):
        cp.cuda.Device(int(request["device"].partition(":")[2] or 0)).use()
        super().__init__(request)

    def make(self, size):
        if self.request["placement"] == "device":
            return cp.empty(size, cp.uint8)
        pinned = Pinned(size)
        block = cp.cuda.UnownedMemory(pinned.address, size, pinned)
        return cp.ndarray((size,), cp.uint8, cp.cuda.MemoryPointer(block, 0))

    def write(self, memory, begin, values):
        memory[begin : begin + len(values)].set(values)

    def read(self, memory, begin, end):
        return memory[begin:end].get()

    def device_figures(self):
        free, total = cp.cuda.runtime.memGetInfo()
        pool = cp.get_default_memory_pool()
        reserved = pool.total_bytes()
        # The pool gives nothing back by itself, so what it has now is the most that it had.
        return {"device_bytes": total - free, "device_reserved_bytes": reserved,
                "device_allocated_bytes": pool.used_bytes(), "device_most_reserved_bytes": reserved}


peer.serve(Cell, {"cupy": cp.__version__, "numpy": np.__version__}, Table)
