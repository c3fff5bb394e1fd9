/// The environment in a report: machine, system and program, without host, user or folder names.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/build_info.h"
#include "harness/machine.h"

namespace stbench::harness {

/// Null for what is not known.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// In hertz.
inline nlohmann::ordered_json hertz_or_null(const std::optional<int>& megahertz) {
  return megahertz ? nlohmann::ordered_json(*megahertz * 1e6) : nlohmann::ordered_json(nullptr);
}

/// The sources of the environment; tests replace them.
struct EnvironmentSources {
  std::filesystem::path root = "/";  ///< of /proc, /sys and /etc
  std::string nvml_library = "libnvidia-ml.so.1";
  /// The PCI bus IDs of CUDA's devices in CUDA's order. CUDA_VISIBLE_DEVICES makes it differ from the
  /// driver's.
  std::vector<std::string> cuda_bus_ids{};
  bool emulated_gpu = false;  ///< CUDA's runtime is the tests' substitute
};

/// Returns the objects `cpu`, `memory`, `os`, `build` and `gpu`: bytes and hertz as numbers, null for unknown
/// values (for `memlock_limit_bytes` and `cpu_quota`: no limit). `gpu` has `driver_version` and the list
/// `devices` in the driver's order, each with the `cuda` device that it is ("cuda:0") or null, or null for
/// both and the `reason`; `emulated` as given. The caller adds `libtorch` and `cuda`.
nlohmann::ordered_json environment(const Machine& machine, const EnvironmentSources& sources = {});

/// Numbers as the kernel writes them: 0-3,8.
std::string cpu_ranges(std::vector<int> cpus);

}  // namespace stbench::harness
