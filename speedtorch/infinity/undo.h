/// What work with a model changes besides its results, to be put back where it fails.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/random_state.h"

namespace speedtorch::infinity {

/// The random generators, and the buffers that a module in training writes (running statistics), as they are
/// when it is made.
class Undo {
 public:
  Undo(const Model& model, at::Device device);

  /// Allocates nothing on the device, so that it cannot fail where memory is short.
  void restore() const;
  void restore_buffers() const;
  /// What `buffer` was; undefined for one that was not noted.
  [[nodiscard]] at::Tensor before(const at::Tensor& buffer) const;

 private:
  RandomState random_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  ///< and what they were
};

}  // namespace speedtorch::infinity
