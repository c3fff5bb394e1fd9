// The environment variables of the emulated GPU, read once. A wrong value ends the process and is named.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace emulated_gpu {

constexpr int max_devices = 8;

struct Settings {
  bool lazy = true;  ///< EMULATED_GPU_STREAMS: work runs when something waits for it, else at the call
  int devices = 1;   ///< EMULATED_GPU_DEVICES
  /// EMULATED_GPU_BYTES: the memory of each device. Those beyond the list have what its last one has.
  std::array<std::uint64_t, max_devices> bytes{};
  std::uint64_t seed = 1;       ///< EMULATED_GPU_SEED: the order of blocks, and of the copies of a batch
  bool find_races = false;      ///< EMULATED_GPU_CHECKS=races
  bool find_unwritten = false;  ///< EMULATED_GPU_CHECKS=unwritten
  bool newest_ptx = true;       ///< EMULATED_GPU_PTX=newest or oldest
  std::map<std::string, std::uint64_t>
      failures;             ///< EMULATED_GPU_FAIL: the call of each function that fails, from 1
  std::string sensors;      ///< EMULATED_GPU_SENSORS: a file for NVML, or empty
  std::string operators;    ///< EMULATED_GPU_TORCH: the library of LibTorch's operators, or empty
  bool trace = false;       ///< EMULATED_GPU_TRACE: each call and each piece of work on stderr
  bool statistics = false;  ///< EMULATED_GPU_STATISTICS: what ran, on stderr at the end
};

/// Returns the settings. The first call reads the environment.
const Settings& settings();

}  // namespace emulated_gpu
