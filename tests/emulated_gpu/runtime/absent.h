// Functions that programs link, but that are not emulated.
#pragma once

namespace emulated_gpu {

/// Says that a function is not emulated and returns cudaErrorNotSupported, which is also the driver's number
/// for it.
int not_emulated(const char* name);

}  // namespace emulated_gpu
