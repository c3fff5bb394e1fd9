/// The NVIDIA driver's management library, loaded at run time if present: the build needs no toolkit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stbench::harness {

/// The driver is missing or refused a call. what() is one line.
class NvmlError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The state of one GPU; nullopt for what the driver does not report.
struct GpuState {
  std::string name;
  std::string pci_bus_id;  ///< as NVML writes it: 00000000:3B:00.0
  std::optional<std::int64_t> memory_bytes, memory_free_bytes;
  std::optional<int> link_generation, link_generation_max;  ///< of PCIe; an idle GPU lowers it
  std::optional<int> link_width, link_width_max;            ///< lanes
  std::optional<int> sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz, memory_clock_max_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;  ///< why clocks are lowered now; "idle" is one
  std::optional<bool> mig;                                   ///< in multi-instance mode
  std::optional<bool> ecc;                                   ///< error correction is on
  std::optional<bool> persistence;                           ///< the driver stays loaded between processes
  std::optional<int> temperature_c;                          ///< of the GPU's core
  std::optional<double> power_w, power_limit_w;
  std::optional<int> busy_percent;  ///< of the last fraction of a second, by any process
};

/// Returns true if a reason of GpuState::throttle_reasons slows work down. "idle" and requested clocks do
/// not.
bool slows_down(const std::string& throttle_reason);

/// Normalises a PCI bus ID ("0:3b:0"): CUDA writes the domain with four digits, NVML with eight.
/// @returns the text itself if it is no PCI bus ID
std::string plain_bus_id(const std::string& pci_bus_id);

/// One loaded and initialised library.
class Nvml {
 public:
  /// @throws NvmlError if it cannot be loaded or initialised.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] int device_count() const;
  /// @param device in the driver's order, which CUDA_VISIBLE_DEVICES does not change
  [[nodiscard]] GpuState state(int device) const;
  /// Returns why the clocks are lowered, by one call of the driver.
  [[nodiscard]] std::optional<std::vector<std::string>> throttle_reasons(int device) const;
  /// Returns the number of the device with a PCI bus ID in CUDA's or NVML's spelling; nullopt if there is
  /// none. CUDA_VISIBLE_DEVICES renumbers CUDA's devices, not these.
  [[nodiscard]] std::optional<int> device_at(const std::string& pci_bus_id) const;
  /// Returns true if copies between host and GPU are encrypted (confidential computing).
  [[nodiscard]] std::optional<bool> confidential_computing() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace stbench::harness
