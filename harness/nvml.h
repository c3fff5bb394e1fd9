/// The NVIDIA driver's management library, loaded where there is one: no toolkit is needed to build.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stbench::harness {

/// There is no driver, or it refused. what() is one line.
class NvmlError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One GPU as the driver tells of it; what it does not tell is nullopt.
struct GpuState {
  std::string name;
  std::optional<std::int64_t> memory_bytes, memory_free_bytes;
  std::optional<int> link_generation, link_generation_max;  ///< of PCIe; an idle GPU lowers it
  std::optional<int> link_width, link_width_max;            ///< lanes
  std::optional<int> sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz, memory_clock_max_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;  ///< why clocks are lowered now; "idle" is one
  std::optional<bool> mig;                                   ///< in multi-instance mode
};

/// One loaded and initialised library.
class Nvml {
 public:
  /// @throws NvmlError where it cannot be loaded or initialised.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] int device_count() const;
  /// @param device in the driver's order, which CUDA_VISIBLE_DEVICES does not change
  [[nodiscard]] GpuState state(int device) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace stbench::harness
