/// One case of the transfer suite, as --case names it.
#pragma once

#include "benchmarks/suite/options.h"

namespace stbench {

/// The options that run the case of `options.case_id` and what it is judged against: LibTorch's methods
/// and the ceilings of its cell. Options without a case are returned as they are.
/// @throws UsageError naming the part of the sentence that is not known.
Options options_for_case(const Options& options);

}  // namespace stbench
