/// Reports of runs that never were, with the troubles of real ones, and how slow each row really is known.
///
/// The logarithm of a sample is: the row's own time; what the whole process had (drift of the machine); what
/// the cell had, ceilings included; what the row had in this process (where its memory lies); a slow walk
/// that the cell's rows share from round to round; noise with a memory; and now and then a long one. The
/// laws between processes are Student's with few degrees of freedom: most are quiet, some are far off.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

struct SyntheticMachine {
  int cells = 12;  ///< each with copy, stream, speedtorch, index_select
  int samples = 21;
  double drift = 0.05;      ///< of the process, all rows together
  double of_cell = 0.03;    ///< of the process, the rows of a cell together
  double of_row = 0.02;     ///< of the process, in the median row; others have half or twice of it
  double noise = 0.04;      ///< of a sample
  double memory = 0.6;      ///< correlation of a sample's noise with the next one's
  double tail_freedom = 5;  ///< of the laws between processes
  double two_modes = 0;     ///< a row is this much slower in one process of three (its memory lies badly)
  /// The machine's speed wanders from process to process: all rows together, and each row half as much by
  /// itself.
  double wander = 0;
  bool controls = false;  ///< each cell also has LibTorch's method on LibTorch's own tensor
};

/// One process's report.
/// @param slower how many times slower a row of `speedtorch` is, by the number of its cell
/// @param extra logarithm that a row's time has beside, by cell and method; methods are copy, stream,
/// speedtorch, index_select, and the control
Report synthetic_run(
    const SyntheticMachine& machine, std::uint64_t seed,
    const std::function<double(int cell)>& slower = [](int) { return 1.0; },
    const std::function<double(int cell, int method)>& extra = [](int, int) { return 0.0; });

/// What a comparison measures: the processes of both sides, one after the other.
struct SyntheticSides {
  std::vector<Report> base, now;
};

/// @param interleaved the sides take turns; else all of BASE comes first
/// @param state of the machine during NEW: copies are slower by half of that much in logarithms, LibTorch's
/// rows by all of it, ours by one and a half times
SyntheticSides synthetic_sides(
    const SyntheticMachine& machine, std::uint64_t seed, int processes, bool interleaved, double state = 0,
    const std::function<double(int cell)>& slower = [](int) { return 1.0; });

/// So many processes of it, no two of the same seed.
std::vector<Report> synthetic_runs(
    const SyntheticMachine& machine, std::uint64_t seed, int processes,
    const std::function<double(int cell)>& slower = [](int) { return 1.0; });

}  // namespace stbench::reports
