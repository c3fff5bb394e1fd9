/// What a graph keeps for its backward pass, in the host's memory instead of the device's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// What went out and came back, of all graphs since it was made.
struct OffloadFigures {
  std::int64_t packed = 0;  ///< tensors
  std::int64_t packed_bytes = 0;
  std::int64_t unpacked = 0;
  std::int64_t unpacked_bytes = 0;
};

/// While it lives, each tensor of at least so many bytes that an operation of this thread saves for its
/// backward pass is copied into memory of the library's own (pinned for a GPU), and back when the backward
/// pass asks. Gradients are the same to the bit; the price is a copy each way. Parameters stay, for they are
/// on the device anyway.
///
/// LibTorch asks its autograd engine for such hooks, so the first use replaces the process's engine, for
/// good, by one that adds them and is otherwise the same; threads without an Offload notice nothing, and
/// backward passes that run meanwhile end in the old one. Another engine than LibTorch's own (Python's) is
/// not replaced: that is an InfinityBatchError.
class Offload {
 public:
  struct Plan;
  /// @param stay tensors that are not copied, by their storage; @param figures where to count, or null
  Offload(std::int64_t at_least_bytes, const Tensors& stay, std::shared_ptr<OffloadFigures> figures = {});
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

 private:
  std::shared_ptr<Plan> plan_;
  std::shared_ptr<Plan> outer_;
};

}  // namespace speedtorch::infinity
