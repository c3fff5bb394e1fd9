#include <unistd.h>

#include <array>

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

OnTheGpu see(Operands& operands) {
  const auto device = operands.model().device();
  const auto& memory = *operands.memory();
  const auto head = memory.file_offset() % ::sysconf(_SC_PAGESIZE);  // CUDA takes whole pages
  const auto file = speedtorch::register_read_only(
      operands.memory(), {memory.data() - head, static_cast<std::size_t>(memory.bytes() + head)}, device);
  if (!file.memory) throw speedtorch::PlacementError(file.reason);
  OnTheGpu seen{file.memory->tensor(operands.table().sizes(), operands.table().scalar_type()), {}};
  for (std::size_t set = 0; set < seen.index.size(); ++set)
    seen.index[set] = operands.index(static_cast<int>(set)).to(device);
  return seen;
}

/// Kernels of the GPU read the rows of a mapped file over the link, if the driver allows it. Otherwise the
/// rows are staged, which `staged` measures. Not yet run on a GPU.
const RegisterMethod registration{{
    .name = "in_place",
    .summary = "this library: gather_rows from a mapped file that is registered with CUDA (to only)",
    .role = harness::Role::ours,
    .supports =
        [](const TransferCase& one) {
          return one.placement == speedtorch::Placement::mapped && one.on_gpu() &&
                 one.direction == Direction::to && !one.is_cold();
        },
    .skip_reason =
        [](const TransferCase& one) { return speedtorch::in_place_refusal(one.shape().bytes(), one.device); },
    .to =
        [](Operands& operands, int set) {
          const auto& seen = operands.kept<OnTheGpu>([&] { return see(operands); });
          speedtorch::gather_rows(seen.table, seen.index[static_cast<std::size_t>(set)], operands.model());
        },
}};

}  // namespace
}  // namespace stbench
