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

  /// Allocates nothing on the device, so it cannot run out of memory. A buffer whose version stayed keeps it,
  /// because outputs of other batches may need it unchanged. Its value is copied all the same: batch
  /// normalisation moves its statistics without counting them up.
  void restore() const;
  void restore_buffers() const;
  /// The saved value of `buffer`; undefined if it was not saved.
  [[nodiscard]] at::Tensor before(const at::Tensor& buffer) const;

 private:
  RandomState random_;
  struct Saved {
    at::Tensor buffer, before;
    std::int64_t version;  ///< of the buffer when it was saved
  };
  std::vector<Saved> buffers_;
};

}  // namespace speedtorch::infinity
