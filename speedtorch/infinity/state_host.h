/// Places the states of optimizers in a table of the library instead of the device's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/memory/table_options.h"

namespace speedtorch::infinity {

/// Adam keeps twice the parameters' bytes, which only the step needs. StateHost keeps them in a table
/// (speedtorch/tables/table.h) in any placement: host pages, a mapped file, or, for parameters on a GPU,
/// pinned memory, which its kernels read and write in place over the link (not yet run on a GPU). The
/// optimizer steps on them directly: the results are the same and a step copies nothing.
///
/// OptimizerFactory does not fit here: it swaps the rows of a batch, and a dense step updates all rows.
class StateHost {
 public:
  explicit StateHost(TableOptions home) : home_(std::move(home)) {}

  /// Creates missing states with the optimizer's initial values, and moves states that are elsewhere into a
  /// table (after a load, or after the first step of SGD, which creates its momentum itself). Cheap if all
  /// states are in place. If it throws, nothing was changed. @throws InfinityBatchError for a custom
  /// optimizer, or if parameters on a GPU have a placement other than `pinned`; what Table throws
  void place_states(const Optimizer& optimizer);

  [[nodiscard]] std::int64_t bytes() const;  ///< of all states in its tables

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
