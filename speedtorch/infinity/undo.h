/// Saves the side effects of running a model, to restore them on failure.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/random_state.h"

namespace speedtorch::infinity {

/// The state of the random generators, and of the buffers that a module in training mode writes (running
/// statistics).
class Undo {
 public:
  Undo(const Model& model, at::Device device);

  /// Allocates nothing on the device, so it cannot run out of memory.
  void restore() const;
  void restore_buffers() const;
  /// The saved value of `buffer`; undefined if it was not saved.
  [[nodiscard]] at::Tensor before(const at::Tensor& buffer) const;

 private:
  RandomState random_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  ///< each buffer with its saved value
};

}  // namespace speedtorch::infinity
