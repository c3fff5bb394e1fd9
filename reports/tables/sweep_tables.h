/// Compact tables for many cases that differ in one axis: one row per width or per batch.
#pragma once

#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/statistics/role.h"
#include "reports/style.h"

namespace stbench::reports {

/// All tables of rows that were moved: of single workloads, and compact ones of many that differ in one axis.
std::string movement_tables(const std::vector<const Record*>& rows, Style style);

/// Rows that were moved, by the kind of table that shows them best.
struct SweepRows {
  std::vector<const Record*> widths;   ///< of three or more row widths of the same operation
  std::vector<const Record*> batches;  ///< with single runs, of three or more batches
  std::vector<const Record*> trips;    ///< the same, really there and back
  std::vector<const Record*> others;
};

SweepRows split_sweeps(const std::vector<const Record*>& rows);

/// A table for each direction, placement, number of cores and kind of index; in it a row a width: GB/s of
/// each method, and of ours also the share of the ceiling and the ratio against LibTorch's best.
std::string width_tables(const std::vector<const Record*>& rows, Style style);

/// "Latency of small batches": a table for each direction, placement and number of cores; in it a row a width
/// and batch: median and 99 % quantile of single runs of each method but the ceilings, and our median against
/// LibTorch's best.
/// Rows without single runs, and those that go there and back, are left out; empty if there are no others.
std::string latency_tables(const std::vector<const Record*>& rows, Style style);

/// "Round trips of small tables": a table for each device and number of cores; in it a row a size and way:
/// how many a second, the median and 99 % quantile of single ones, against LibTorch's best and the plain
/// copy. Empty where nothing went there and back in single runs.
std::string round_trip_tables(const std::vector<const Record*>& rows, Style style);

}  // namespace stbench::reports
