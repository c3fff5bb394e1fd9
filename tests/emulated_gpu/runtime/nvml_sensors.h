// The values that the stand-in of NVML reports, from the file that EMULATED_GPU_SENSORS names.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace emulated_gpu {

/// The values of one GPU by name.
using Sensors = std::map<std::string, std::string>;

/// Reads the sensors of a GPU from the file each time: a test may change it between two queries.
///
/// A line is `NAME = VALUE`. Lines before the first `[N]` are for all GPUs, those after it for GPU N. `#`
/// begins a comment. The value `unsupported` makes NVML refuse. Values that the file leaves out are
/// those of a healthy H100. A wrong line ends the process with a message that names it.
Sensors read_sensors(int device);

/// Returns a number of the sensors (decimal, or hexadecimal after 0x), or nullopt if it is `unsupported`.
std::optional<unsigned long long> sensor(const Sensors& sensors, const std::string& name);

}  // namespace emulated_gpu
