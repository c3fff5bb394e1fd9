/// Replays measured cases through Google Benchmark, so that its flags, its output files and the tools that
/// read them work. Each case is registered with manual time, one iteration and one repetition per sample.
/// Each repetition returns a sample that the sampler has already taken.
///
/// Google Benchmark does not take the samples itself: release 1.7.1 shuffles all repetitions of all cases
/// once and unseeded, and has no checks between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::harness {

/// Replays every record that has samples through Google Benchmark: its own file reporter writes
/// `out`, ours receives what a display would show. Call it once per process (a second run with its
/// reporters is a use after free).
/// @param out the file of --benchmark_out
/// @param format json, csv or console
/// @param name_of the name that a record's samples are registered under
/// @returns how many samples the display reporter was handed
std::size_t replay(const std::vector<reports::Record>& records,
                   const std::function<std::string(const reports::Record&)>& name_of, const std::string& out,
                   const std::string& format);

}  // namespace stbench::harness
