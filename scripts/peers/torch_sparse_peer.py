"""Python's torch: the step of an optimizer on a sparse gradient, on its own tables."""

import time

import peer

try:
    import torch
except ImportError as error:
    peer.missing(f"torch cannot be imported ({error})")


class Cell:
    """One case: parameter and states, and the index sets that stbench shares."""

    def __init__(self, request):
        torch.set_num_threads(request["threads"])
        peer.set_affinity(request["cpus"])
        self.request = request
        self.index = [self.tensor(one).long()[None] for one in request["index"]]
        self.grad, self.probe, self.seen = (self.tensor(request[name]) for name in ("grad", "probe", "seen"))
        shape = request["rows"], request["dim"]
        self.param = torch.nn.Parameter(torch.empty(shape).uniform_(-0.1, 0.1))
        self.optimizer = getattr(torch.optim, request["optimizer"])([self.param])
        state = self.optimizer.state[self.param]
        state["step"] = request["steps"] if request["optimizer"] == "SparseAdam" else torch.tensor(float(request["steps"]))
        for name in request["states"]:
            state[name] = torch.empty(shape).uniform_(0.5, 1)
        self.tables = [self.param.detach(), *(state[name] for name in request["states"])]

    tensor = peer.shared_torch_tensor

    def sample(self, first, repeat):
        """Seconds of `repeat` steps. The gradient is made before them, not yet coalesced, as autograd returns it."""
        nanoseconds = 0
        for k in range(repeat):
            self.param.grad = torch.sparse_coo_tensor(self.index[(first + k) % len(self.index)], self.grad,
                                                      self.param.shape, check_invariants=False)
            begin = time.perf_counter_ns()  # CLOCK_MONOTONIC, as stbench's own
            self.optimizer.step()
            nanoseconds += time.perf_counter_ns() - begin
        return nanoseconds / 1e9

    def read(self, count):
        """The first `count` rows that the probe names, of the parameter and each state."""
        for number, table in enumerate(self.tables):
            self.seen[number, :count] = table[self.probe[:count]]


peer.serve(Cell, {"torch": torch.__version__})
