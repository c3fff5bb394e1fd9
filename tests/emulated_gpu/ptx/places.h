/// Where the bytes of a warp's accesses lie, after every check: bounds, alignment, read-only memory,
/// unwritten bytes, races.
#pragma once

#include <cstddef>

#include "tests/emulated_gpu/ptx/warp.h"

namespace emulated_gpu {

/// Fills `places` for the lanes of `mask`. @throws Fault
void find_places(Warp& warp, const Instruction& in, const Access& access, Mask mask, std::byte** places);

}  // namespace emulated_gpu
