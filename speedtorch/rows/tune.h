/// Choosing the plan of row movements by a short measurement of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/rows/host_plan.h"

namespace speedtorch {

struct TuneOptions {
  /// To spend at most. What is not measured by then stays as the defaults have it, also in the stored plan.
  /// All 34 widths take 27 s on an Intel Xeon of model 167. The first 22 took 4.4 s on a Zen 5 and 15.6 s on
  /// a Zen 3, where 5 s were enough for 7.
  double seconds = 60;
  bool store = true;  ///< for later processes of this user on this machine
};

/// What was measured of rows of one width: the best of the choices and the default one, in the same rounds.
struct TunedChoice {
  kernels::Direction direction = kernels::Direction::gather;
  std::string kind;  ///< "small", "whole_lines" or "cut_lines", as in a plan
  std::int64_t row_bytes = 0;
  kernels::RowChoice standard;
  kernels::RowChoice chosen;
  /// Seconds to move 64 MiB of rows and to read what was written, the least of several measurements. Small
  /// gathers move 16 MiB on one thread, 192 KiB at a time.
  double standard_s = 0;
  double chosen_s = 0;
};

struct Tuning {
  Plan plan;
  std::vector<TunedChoice> choices;
  double seconds = 0;      ///< that it took
  bool complete = false;   ///< false: the time was spent before all was measured
  std::string stored;      ///< the file's path; empty if nothing was stored
  std::string not_stored;  ///< why not
};

/// Measures on the threads that movements use (threads.h), uses the plan from then on, and stores it for
/// later processes. The time that counts is that of a movement and of one pass that reads what it wrote:
/// stores past the cache may not cost the reader what they save the writer.
/// Allocates 2.2 GB meanwhile, because only a table far beyond the caches shows what large tables take; some
/// 250 MB if `seconds` is less than 8, or if less than four times as much is free.
/// Not while rows move on other threads: both would be measured wrong.
/// @throws MemoryError if that memory cannot be had
Tuning tune(const TuneOptions& options = {});

/// The size of rows, in bytes, from which a second thread pays: the smallest of 64 KiB to 1 MiB by powers of
/// two from which on two threads take at least 3 % less time than one. Each time is the median of eleven, of
/// rounds in which two cores were free. Nothing if that was not so in eleven rounds of forty. For tune() and
/// its test.
/// @param seconds measures a gather of so many bytes on so many threads
/// @param spent true ends the search, which then returns nothing
std::optional<std::int64_t> fewest_bytes_to_share(
    const std::function<double(int threads, std::int64_t bytes)>& seconds,
    const std::function<bool()>& spent);

}  // namespace speedtorch
