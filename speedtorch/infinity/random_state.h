/// Saves and restores the state of LibTorch's default random generators.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <mutex>
#include <optional>

namespace speedtorch::infinity {

/// The state of the CPU's generator and of the device's, if that is a GPU. The CPU's state (2.5 KB) is copied
/// without a tensor, because restoring after an out-of-memory error must not allocate.
class RandomState {
 public:
  explicit RandomState(at::Device device);  ///< the current state
  void restore() const;
  [[nodiscard]] bool operator==(const RandomState& other) const;

 private:
  /// Copies the state of the CPU's generator, which is locked. Copies the engine, because a
  /// default-constructed one would be seeded first.
  RandomState(at::Device device, const std::lock_guard<std::mutex>& of_cpu);
  at::Device device_;
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
  at::Tensor of_device_;
};

}  // namespace speedtorch::infinity
