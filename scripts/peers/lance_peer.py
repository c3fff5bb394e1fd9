"""Lance: take of rows by their positions, from a dataset that is made of the table, in the table's folder."""

import os
import shutil
import tempfile

import page_cache
import peer

try:
    import lance
    import numpy as np
    import pyarrow as pa
except ImportError as error:
    peer.missing(f"Lance cannot be imported ({error})")

BLOCK = 1 << 26  # bytes of a record batch


class Cell(peer.Cell):
    """The table is a file of stbench. Lance keeps its metadata in memory, and reads rows on its own threads."""

    def __init__(self, request):
        rows, dim = request["table"]["shape"]
        # Rows are taken as the same bits, so that every dtype of a table is one that Arrow has.
        self.width = dim * self.item_size(request["table"]["dtype"])
        self.folder = None
        super().__init__(request)
        source = f"/proc/{request['pid']}/fd/{request['table']['fd']}"
        self.folder = tempfile.mkdtemp(prefix=".stbench-lance-", dir=os.path.dirname(os.readlink(source)))
        try:
            self.dataset = lance.write_dataset(self.batches(source, rows), f"{self.folder}/table.lance", schema=self.schema())
            self.files = [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names]
            for name in self.files:
                with open(name, "rb") as file:
                    os.fsync(file.fileno())  # the kernel drops written pages only
        except BaseException:
            self.remove()
            raise
        self.taken = None

    def schema(self):
        return pa.schema([("row", pa.binary(self.width))])

    def batches(self, source, rows):
        step = max(1, BLOCK // self.width)
        with open(source, "rb") as file:
            for first in range(0, rows, step):
                count = min(step, rows - first)
                data = pa.py_buffer(os.pread(file.fileno(), count * self.width, first * self.width))
                array = pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.width), count, [None, data])
                yield pa.record_batch([array], schema=self.schema())

    def remove(self):
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    __del__ = remove

    def tensor(self, spec):
        return None if spec is self.request["table"] else super().tensor(spec)

    def attach(self, memory, dtype, shape):
        if dtype in ("int64", "int32") and len(shape) == 1:
            return np.frombuffer(memory, dtype)
        return np.frombuffer(memory, np.uint8)

    def before(self, sets):
        """Evicts the dataset's files from memory if the case is cold."""
        for name in self.files if self.request["cold"] else []:
            page_cache.drop(name)
            if left := page_cache.resident_pages(name):
                raise RuntimeError(f"{left} pages of the dataset stay in memory")

    def to(self, number):
        self.taken = self.dataset.take(self.index[number])

    def after(self):
        """Untimed: a user takes the rows as they are, in Arrow's memory."""
        begin = 0
        for chunk in self.taken.column("row").chunks:
            size = len(chunk) * self.width
            data = np.frombuffer(chunk.buffers()[1], np.uint8)[chunk.offset * self.width :][:size]
            self.model[begin : begin + size] = data
            begin += size


peer.serve(Cell, {"lance": lance.__version__})
