/// Moves the tensors that a graph saves for its backward pass to host memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Counts since the object was created, of all graphs.
struct OffloadFigures {
  std::int64_t packed = 0;  ///< tensors copied to the host
  std::int64_t packed_bytes = 0;
  std::int64_t unpacked = 0;  ///< tensors copied back
  std::int64_t unpacked_bytes = 0;
};

/// While it lives, each tensor of at least `at_least_bytes` that an operation of this thread saves is copied
/// to host memory of the library (pinned for a GPU), and back when the backward pass needs it. Gradients are
/// equal bit for bit; the cost is one copy each way. Parameters are not copied, because they are on the
/// device anyway.
///
/// LibTorch asks its autograd engine for such hooks. The first use therefore replaces the process's engine
/// permanently by one that adds the hooks and is otherwise the same. Threads without an Offload are not
/// affected, and backward passes that are running finish in the old engine. Any other engine than LibTorch's
/// own (Python's) is not replaced; that is an InfinityBatchError.
class Offload {
 public:
  struct Plan;
  /// @param stay tensors that are not copied, identified by their storage
  /// @param figures receives the counts; may be null
  Offload(std::int64_t at_least_bytes, const Tensors& stay, std::shared_ptr<OffloadFigures> figures = {});
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

 private:
  std::shared_ptr<Plan> plan_;
  std::shared_ptr<Plan> outer_;
};

}  // namespace speedtorch::infinity
