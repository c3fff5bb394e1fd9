/// Detects that tensors were changed between two passes over the same batch. Internal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

/// Notes version and address of each tensor. Like LibTorch, it does not see writes that LibTorch does not
/// count, such as those through a raw pointer.
class Marks {
 public:
  explicit Marks(std::vector<NamedTensor> named);

  /// The name of the first tensor that was written in place or whose data moved, or an empty name.
  [[nodiscard]] std::string changed() const;

 private:
  struct Mark {
    std::uint32_t version;
    const void* data;     ///< of the storage
    std::int64_t offset;  ///< of the tensor in it
    bool operator==(const Mark&) const = default;
  };
  static Mark mark(const at::Tensor& tensor);

  std::vector<NamedTensor> named_;
  std::vector<Mark> marks_;
};

}  // namespace speedtorch::infinity
