// What the stand-in of NVML tells, from the file that EMULATED_GPU_SENSORS names.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace emulated_gpu {

/// The values of one GPU by name.
using Sensors = std::map<std::string, std::string>;

/// Reads the sensors of a GPU anew: a test may change the file between two questions.
///
/// A line is `NAME = VALUE`. Lines before the first `[N]` are for all GPUs, those after it for GPU N. `#`
/// begins a comment. The value `unsupported` makes NVML refuse. What the file does not say is as on a healthy
/// H100. A line that is wrong ends the process and is named.
Sensors read_sensors(int device);

/// Returns a number of the sensors (decimal, or hexadecimal after 0x), or nullopt if it is `unsupported`.
std::optional<unsigned long long> sensor(const Sensors& sensors, const std::string& name);

}  // namespace emulated_gpu
