"""DeepSpeedCPUAdam: the step of Adam and AdamW on one flat tensor, which stbench shares."""

import importlib.util
import os
import sys
import time

import peer

STEP = os.path.join(sys.prefix, "extensions", "cpu_adam", "cpu_adam.so")  # scripts/setup --peers compiled it

try:
    import torch
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    from deepspeed.ops.op_builder import CPUAdamBuilder
except ImportError as error:
    peer.missing(f"DeepSpeed cannot be imported ({error})")

if not os.path.exists(STEP):
    peer.missing("the step of DeepSpeed is not compiled")
try:
    found = importlib.util.spec_from_file_location("cpu_adam", STEP)
    step = importlib.util.module_from_spec(found)
    found.loader.exec_module(step)
except ImportError as error:
    peer.missing(f"the compiled step of DeepSpeed cannot be loaded ({error})")

# DeepSpeed's own load() may compile again, which takes longer than a case may. A process that is killed meanwhile leaves
# a lock, and each later one waits for it.
CPUAdamBuilder.load = lambda builder, verbose=True: step


class Cell:
    """One case: parameter, gradient and states in shared memory. `read` has nothing to copy."""

    OPTIONS = {"Adam": {"adamw_mode": False, "weight_decay": 0}, "AdamW": {"adamw_mode": True, "weight_decay": 1e-2}}

    def __init__(self, request):
        torch.set_num_threads(request["threads"])
        peer.set_affinity(request["cpus"])
        self.request = request
        self.param = torch.nn.Parameter(self.tensor(request["param"]))
        self.param.grad = self.tensor(request["grad"])
        self.optimizer = DeepSpeedCPUAdam([self.param], lr=1e-3, **self.OPTIONS[request["optimizer"]])
        states = dict(zip(request["states"], map(self.tensor, request["state"])))
        self.optimizer.state[self.param] = {"step": request["steps"], **states}

    tensor = peer.shared_torch_tensor

    def sample(self, first, repeat):
        """Seconds of `repeat` steps."""
        begin = time.perf_counter_ns()  # CLOCK_MONOTONIC, as stbench's own
        for _ in range(repeat):
            self.optimizer.step()
        return (time.perf_counter_ns() - begin) / 1e9


peer.serve(Cell, {"torch": torch.__version__, "deepspeed": peer.version_of("deepspeed")})
