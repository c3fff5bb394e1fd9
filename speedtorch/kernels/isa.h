/// The instruction sets that the row movements were compiled for, of which the best that the processor has
/// runs unless another is chosen.
#pragma once

#include <string_view>
#include <vector>

namespace speedtorch::kernels {

/// Those that this processor has, best first: of `avx512`, `avx2`, `sse4` and `baseline` (plain C++) on
/// x86-64, of `sve2`, `sve`, `neon` and `baseline` on Arm.
std::vector<std::string_view> supported_isas();

/// Every later movement of this process (and whatever else in it dispatches by Highway) runs on `name`, one
/// of supported_isas(), or on the `best` of them. Not while a movement runs.
/// @throws IsaError for any other name.
void use_isa(std::string_view name);

/// What the movements run on now.
std::string_view isa_in_use();

}  // namespace speedtorch::kernels
