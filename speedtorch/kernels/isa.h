/// The instruction sets that the row movements were compiled for. The processor's best one runs unless
/// another is chosen.
#pragma once

#include <string_view>
#include <vector>

namespace speedtorch::kernels {

/// The instruction sets of this processor, best first: of `avx512`, `avx2` and `baseline` (plain C++)
/// on x86-64, of `sve2`, `sve`, `neon` and `baseline` on Arm.
std::vector<std::string_view> supported_isas();

/// Runs all later movements of this process (and whatever else dispatches by Highway) on `name`, one of
/// supported_isas(), or on the `best` of them. Do not call it while a movement runs.
/// @throws IsaError for any other name
void use_isa(std::string_view name);

/// The instruction set in use.
std::string_view isa_in_use();

}  // namespace speedtorch::kernels
