/// Google Benchmark in a process of its own, because it ends the process it is in (exit status 1) where it
/// cannot read what the system says of the caches, and takes options from the environment (BENCHMARK_FILTER
/// and its like).
#pragma once

#include <string>

#include "reports/record.h"

namespace stbench {

/// How the program is told to be that process: not for users.
inline constexpr const char* google_benchmark_command = "internal-google-benchmark";

/// The samples of a report as Google Benchmark writes them, in one of its formats (json, csv, console).
/// @throws reports::ReportError with Google Benchmark's own words if it cannot
std::string google_benchmark_text(const reports::Report& report, const std::string& format);

/// The process's side: reads a report from stdin and writes to stdout. @returns the exit status
int serve_google_benchmark(const std::string& format);

}  // namespace stbench
