/// Tensors in memory that a peer process maps as well.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/tables/row_shape.h"
#include "speedtorch/memory/shared_memory.h"

namespace stbench {

/// The fields by which a peer maps a tensor behind this descriptor.
inline nlohmann::ordered_json described(int fd, const at::Tensor& tensor) {
  return {{"fd", fd},
          {"shape", std::vector(tensor.sizes().begin(), tensor.sizes().end())},
          {"dtype", dtype_name(tensor.scalar_type())}};
}

struct SharedTensor {
  SharedTensor() = default;
  SharedTensor(at::IntArrayRef sizes, at::ScalarType dtype)
      : memory(speedtorch::allocate_shared(
            speedtorch::Placement::pageable,
            c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype)))),
        tensor(memory->host_tensor(sizes, dtype)) {}
  explicit SharedTensor(const at::Tensor& like) : SharedTensor(like.sizes(), like.scalar_type()) {
    tensor.copy_(like);
  }
  [[nodiscard]] nlohmann::ordered_json described() const {
    return stbench::described(memory->shared_fd(), tensor);
  }

  std::shared_ptr<speedtorch::Memory> memory;
  at::Tensor tensor;  ///< undefined until it is made
};

}  // namespace stbench
