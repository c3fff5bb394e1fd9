/// Clocks, temperature, power and throttling of the processors while a group is measured. The kernel's files
/// give those of the CPUs, the driver those of the GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/environment.h"
#include "harness/nvml.h"
#include "speedtorch/system/system_files.h"

namespace stbench::harness {

class ClockWatch {
 public:
  /// @param cpus that are measured on
  /// @param sources with the PCI bus IDs of CUDA's devices: the driver numbers its devices in another order
  ClockWatch(const EnvironmentSources& sources, std::vector<int> cpus);

  /// Returns the present state, one object per device ("cpu", "cuda:0"), null for unknown values. For `cpu`:
  /// `clock_hz` (the lowest and the highest), `temperature_c`, `throttle_count`. For a GPU: `sm_clock_hz`,
  /// `memory_clock_hz`, `temperature_c`, `power_w`, `power_limit_w`, `throttle_reasons`, `link_generation`,
  /// `link_width`.
  [[nodiscard]] nlohmann::ordered_json read(const std::set<std::string>& devices) const;

  /// Returns a counter that grows if the device was throttled since the last call; nullopt if unknown.
  [[nodiscard]] std::optional<std::int64_t> throttle_count(const std::string& device);

 private:
  [[nodiscard]] nlohmann::ordered_json read_cpu() const;
  [[nodiscard]] nlohmann::ordered_json read_gpu(const std::string& device) const;
  /// The driver's number of a device that CUDA calls `cuda:N`.
  [[nodiscard]] std::optional<int> number_of(const std::string& device) const;
  [[nodiscard]] std::optional<std::int64_t> cpu_throttle_count() const;

  speedtorch::SystemFiles files_;
  std::vector<int> cpus_;
  std::vector<std::string> throttle_files_;  ///< those of the CPUs that the kernel has
  std::vector<std::string> cuda_bus_ids_;
  std::unique_ptr<Nvml> nvml_;  ///< null without a driver
  std::int64_t gpu_throttle_sightings_ = 0;
};

}  // namespace stbench::harness
