#include "benchmarks/memory/allocator.h"
#include "benchmarks/tables/table_store.h"

namespace stbench {
namespace {

/// Our placements, exact in bytes.
const RegisterAllocator registration{{
    .name = "speedtorch",
    .summary = "this project's placements",
    .role = harness::Role::ours,
    .placements = {"pageable", "hugepage", "mapped", "pinned", "device"},
    .allocate =
        [](speedtorch::Placement placement, std::int64_t bytes, at::Device device) {
          return speedtorch::allocate(placement, bytes, device, table_folder());
        },
}};

}  // namespace
}  // namespace stbench
