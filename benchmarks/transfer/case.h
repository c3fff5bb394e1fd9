/// Options for the one case that --case names.
#pragma once

#include "benchmarks/suite/options.h"

namespace stbench {

/// The options that run the case of `options.case_id` and those that it is compared with: LibTorch's methods
/// and the ceilings of its cell. Options without a case are returned as they are.
/// @throws UsageError naming the part of the case ID that is not known.
Options options_for_case(const Options& options);

}  // namespace stbench
