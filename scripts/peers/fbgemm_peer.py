"""FBGEMM's table-batched embedding on a CPU: one table, bags of one row. Rows into the model, and the step of its backward pass."""

import time

import peer

try:
    import torch
    from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
except (ImportError, OSError, RuntimeError) as error:
    peer.missing(f"FBGEMM cannot be imported ({error})")

PRECISION = {torch.float32: SparseType.FP32, torch.float16: SparseType.FP16}


def embedding(rows, dim, dtype, optimizer, pooling, **options):
    kind = PRECISION[dtype]
    return SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=optimizer, pooling_mode=pooling, weights_precision=kind, output_dtype=kind, **options)  # fmt: skip


def bags_of_one(index):
    return torch.arange(len(index) + 1, dtype=index.dtype)


class Rows(peer.Cell):
    """A case of the transfer suite: the embedding has the suite's table as its weights and allocates its output."""

    def __init__(self, request):
        super().__init__(request)
        rows, dim = self.table.shape
        self.embedding = embedding(rows, dim, self.table.dtype, EmbOptimType.EXACT_SGD, PoolingMode.SUM)
        self.embedding.weights_host.data = self.table.view(-1)
        self.begins = [bags_of_one(index) for index in self.index]
        self.output = None

    def configure(self, threads, device):
        torch.set_num_threads(threads)

    def attach(self, memory, dtype, shape):
        return torch.frombuffer(memory, dtype=getattr(torch, dtype)).view(shape)

    @torch.no_grad()
    def to(self, number):
        self.output = self.embedding(self.index[number], self.begins[number])

    def after(self):
        """Untimed: a user takes the output as it is."""
        self.model.copy_(self.output)


class Steps:
    """A case of the optimizer suite, on its own embedding: the backward pass of bags of one row, which is the step."""

    KINDS = {"SGD": (EmbOptimType.EXACT_SGD, {"learning_rate": 1e-3}),
             "Adagrad": (EmbOptimType.EXACT_ADAGRAD, {"learning_rate": 1e-2, "eps": 1e-10})}  # fmt: skip

    def __init__(self, request):
        torch.set_num_threads(request["threads"])
        peer.set_affinity(request["cpus"])
        self.request = request
        self.index = [self.tensor(one).long() for one in request["index"]]
        self.grad, self.probe, self.seen = (self.tensor(request[name]) for name in ("grad", "probe", "seen"))
        kind, options = self.KINDS[request["optimizer"]]
        self.embedding = embedding(request["rows"], request["dim"], torch.float32, kind, PoolingMode.SUM, **options)
        self.begins = bags_of_one(self.index[0])
        weights = self.embedding.split_embedding_weights()[0]
        weights.uniform_(-0.1, 0.1)
        self.tables = [weights]
        if request["states"]:
            self.tables += [state[0].uniform_(0.5, 1) for state in self.embedding.split_optimizer_states()]

    tensor = peer.shared_torch_tensor

    def sample(self, first, repeat):
        """Seconds of `repeat` backward passes. The forward passes before them are not timed."""
        nanoseconds = 0
        for k in range(repeat):
            output = self.embedding(self.index[(first + k) % len(self.index)], self.begins)
            begin = time.perf_counter_ns()  # CLOCK_MONOTONIC, as stbench's own
            output.backward(self.grad)
            nanoseconds += time.perf_counter_ns() - begin
        return nanoseconds / 1e9

    def read(self, count):
        """The first `count` rows that the probe names, of the weights and each state."""
        for number, table in enumerate(self.tables):
            self.seen[number, :count] = table[self.probe[:count]]


def cell(request):
    return Steps(request) if request["direction"] == "step" else Rows(request)


peer.serve(cell, {"torch": torch.__version__, "fbgemm": peer.version_of("fbgemm-gpu-cpu")})
