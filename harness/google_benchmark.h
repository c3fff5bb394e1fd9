/// Google Benchmark as the front of the measured cases: each is registered with manual time, one iteration
/// and as many repetitions as it has samples, and each repetition hands over one sample that was already
/// taken. So its flags, its output files and the tools that read them work, while the order of the samples is
/// the sampler's.
///
/// Why not let it take the samples: release 1.7.1 shuffles all repetitions of all cases once and unseeded,
/// and knows no checks between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::harness {

/// Replays every record that has samples through Google Benchmark: its own file reporter writes
/// `out`, ours receives what a display would show. Called once a process (a second run with its
/// reporters is a use after free).
/// @param out the file of --benchmark_out
/// @param format json, csv or console
/// @param name_of the name that a record's samples are registered under
/// @returns how many samples the display reporter was handed
std::size_t replay(const std::vector<reports::Record>& records,
                   const std::function<std::string(const reports::Record&)>& name_of, const std::string& out,
                   const std::string& format);

}  // namespace stbench::harness
