#include "benchmarks/memory/allocator.h"

namespace stbench {
namespace {

/// CuPy's arrays on the GPU, and over memory of cudaHostAlloc as in SpeedTorch. Not yet run on a GPU.
const RegisterAllocator registration{{
    .name = "cupy",
    .summary = "peer: Python's CuPy, on the GPU and over pinned memory, as SpeedTorch did it (needs a GPU)",
    .role = harness::Role::peer,
    .placements = {"pinned", "device"},
    .asked_only = true,
}};

}  // namespace
}  // namespace stbench
