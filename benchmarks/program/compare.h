/// The commands that compare: compare, calibrate, and a run against a baseline.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "benchmarks/suite/options.h"

namespace stbench {

/// Compares two sides, each files or folders of reports, and prints. @returns the exit status: 0 none slower,
/// 1 a row slower, lost or failed, 2 a wrong result, 3 not comparable, 4 inconclusive. @throws UsageError,
/// reports::ReportError
int compare(const std::vector<std::string>& base, const std::vector<std::string>& now,
            const Options& options);

/// Measures with two programs in turn and compares. @param programs BASE's file and NEW's
/// @param measuring options of a run, which both know
/// @returns the same, or 128 + signal if a measurement was interrupted. @throws as compare(), and
/// reports::ReportError if a process leaves no report or has a wrong result
int compare_programs(const std::array<std::string, 2>& programs, const std::vector<std::string>& measuring,
                     const Options& options);

/// Runs the same thing as several processes and stores this machine's spread. @returns 0, or the exit status
/// of a process that did not measure everything.
int calibrate(const Options& options);

/// Runs as one or more processes, compares with a named baseline, saves a named baseline.
/// @returns the exit status of the comparison if there is one, else of the run.
int run_with_baseline(const Options& options);

/// `stbench history`: each case over many reports, the oldest first.
/// @param words files of reports, or folders of them
/// @returns the exit status: as of compare() for the latest report against the others; 1 if a case drifts to
/// slower, too
int show_history(const std::vector<std::string>& words, const Options& options);

}  // namespace stbench
