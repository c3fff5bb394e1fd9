#include "benchmarks/memory/allocator.h"

namespace stbench {
namespace {

/// NumPy's plain array. Which pages it gets is NumPy's choice (it asks for huge ones from 4 MB on).
const RegisterAllocator registration{{
    .name = "numpy",
    .summary = "peer: Python's NumPy, a plain array",
    .role = harness::Role::peer,
    .placements = {"pageable"},
    .asked_only = true,
}};

}  // namespace
}  // namespace stbench
