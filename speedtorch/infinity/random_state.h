/// The state of LibTorch's default random generators, to draw the same numbers again.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <mutex>
#include <optional>

namespace speedtorch::infinity {

/// Of the CPU's generator, and of the device's where that is another. The CPU's is copied without a tensor:
/// what is to repair an out-of-memory must not need memory itself (2.5 KB).
class RandomState {
 public:
  explicit RandomState(at::Device device);  ///< the state now
  void restore() const;
  [[nodiscard]] bool operator==(const RandomState& other) const;

 private:
  /// Of the CPU's generator, which is locked. The engine is copied: a new one would be seeded first.
  RandomState(at::Device device, const std::lock_guard<std::mutex>& of_cpu);
  at::Device device_;
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
  at::Tensor of_device_;
};

}  // namespace speedtorch::infinity
