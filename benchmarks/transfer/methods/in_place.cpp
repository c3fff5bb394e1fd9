#include <array>

#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"
#include "speedtorch/error.h"
#include "speedtorch/files/pinned_file.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// The table's file as the GPU sees it, and the indices there.
struct OnTheGpu {
  at::Tensor table;
  std::array<at::Tensor, harness::index_sets> index;
};

OnTheGpu see(Arena& arena) {
  const auto device = arena.model().device();
  const auto& memory = *arena.memory();
  const auto file = speedtorch::register_read_only(
      arena.memory(), {memory.data(), static_cast<std::size_t>(memory.bytes())}, device);
  if (!file.memory) throw speedtorch::PlacementError(file.reason);
  OnTheGpu seen{file.memory->tensor(arena.table().sizes(), arena.table().scalar_type()), {}};
  for (std::size_t set = 0; set < seen.index.size(); ++set)
    seen.index[set] = arena.index(static_cast<int>(set)).to(device);
  return seen;
}

/// Kernels of the GPU read the rows of a mapped file over the link, where the driver lets them. Elsewhere the
/// rows are staged, which is what `staged` measures. Not yet run on a GPU.
const RegisterMethod registration{{
    .name = "in_place",
    .summary = "this library: gather_rows from a mapped file that is registered with CUDA (to only)",
    .role = harness::Role::ours,
    .supports =
        [](const reports::Identity& id) {
          return id.placement == "mapped" && id.device != "cpu" && id.direction == "to" && !is_cold(id);
        },
    .skip_reason =
        [](const reports::Identity& id) {
          return speedtorch::in_place_refusal(shape_of(id).bytes(), at::Device(id.device));
        },
    .to =
        [](Arena& arena, int set) {
          const auto& seen = arena.kept<OnTheGpu>([&] { return see(arena); });
          speedtorch::gather_rows(seen.table, seen.index[static_cast<std::size_t>(set)], arena.model());
        },
}};

}  // namespace
}  // namespace stbench
