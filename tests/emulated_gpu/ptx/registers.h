/// Gives rows their places in a warp's register file.
#pragma once

#include <vector>

#include "tests/emulated_gpu/ptx/decode.h"

namespace emulated_gpu {

/// PTX has a register per value, thousands in one kernel, which no cache would hold. Rows of one size that
/// are never live together share a place. (Of one size only: lane 16 of a row of 4 bytes is lane 8 of one of
/// 8, and lanes that diverged have different rows live.) Replaces row numbers by offsets.
void assign_registers(Code& code, const std::vector<Row>& rows);

}  // namespace emulated_gpu
