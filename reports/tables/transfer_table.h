/// The tables of SpeedTorch's README for the rows of a transfer suite.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/statistics/role.h"
#include "reports/style.h"

namespace stbench::reports {

/// For each workload (device, dtype, rows, dim, batch, distribution, index dtype, further axes) one table
/// per direction (to, from, sum, round_trip), with one block per number of cores: method, time, half-width of
/// the interval, GB/s, share of the ceiling, ratio against LibTorch's best, verified rows; on wide screens
/// also quantiles and samples. Rows go by placement in the plan's order, then by time.
std::string transfer_tables(const std::vector<const Record*>& rows, Style style);

/// The rows of cases that were just measured, as one table without a title.
std::string finished_rows(const std::vector<const Record*>& rows, Style style);

/// "131,072 of 1,000,000 × 128 float32 rows (67.1 MB), unique int64 indices", and the axes not at their
/// defaults.
std::string workload_text(const Record& record);

/// ", isa=avx2": the axes that are not at their defaults.
std::string further_axes_text(const Identity& id);

}  // namespace stbench::reports
