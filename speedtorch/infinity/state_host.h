/// The states of optimizers in a table of the library's own instead of the device's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/memory/table_options.h"

namespace speedtorch::infinity {

/// Adam keeps twice the parameters' bytes, which only the step needs. Here they lie in a table
/// (speedtorch/tables/table.h) in whatever placement: pages of the host, a mapped file, or for parameters on
/// a GPU pinned memory, which its kernels read and write in place over the link (not yet run on a GPU). The
/// optimizer steps on them as on its own, so that the numbers are the same; nothing is copied at a step.
///
/// A table of rows by OptimizerFactory would be the other way: it moves the rows of a batch in and out, and a
/// dense step is of all rows.
class StateHost {
 public:
  explicit StateHost(TableOptions home) : home_(std::move(home)) {}

  /// States that are missing are begun, as the optimizer begins them; those that are elsewhere (after the
  /// first step of SGD, which makes its momentum itself, or a load) move into a table. Cheap where all are
  /// there.
  /// @throws InfinityBatchError for an optimizer of one's own, or where parameters on a GPU need a `pinned`
  /// home; what Table throws; nothing was changed then
  void place_states(const Optimizer& optimizer);

  [[nodiscard]] std::int64_t bytes() const;  ///< of all states that lie here

 private:
  struct Wanted;
  struct Change;
  void plan_states(const Optimizer& optimizer, const at::Tensor& parameter, std::vector<Change>& changes,
                   std::vector<Wanted>& wanted) const;
  [[nodiscard]] bool is_here(const at::Tensor& tensor) const;
  Tensors place(const std::vector<Wanted>& wanted);

  TableOptions home_;
  std::unordered_map<const void*, at::Tensor> here_;  ///< by storage
};

}  // namespace speedtorch::infinity
