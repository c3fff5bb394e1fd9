/// Workloads: shapes of tables and batches of today's programs, each in a data file that names its source.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/suite/options.h"
#include "harness/machine.h"

namespace stbench {

struct Workload {
  std::string name;
  std::string summary;  ///< one line for `list`
  std::int64_t rows = 0;
  std::vector<std::int64_t> row_bytes, batches;
  std::vector<std::string> distributions, directions;
  nlohmann::ordered_json
      file;  ///< the whole data file, with source, order, and what is assumed or was not verified
};

/// The data files by name, embedded at build time: benchmarks/transfer/workloads/*.json.
const std::vector<std::pair<std::string, std::string>>& workload_files();

/// All workloads, by name.
const std::vector<Workload>& workloads();
std::vector<std::string> workload_names();

/// Reads a data file's text. @throws std::runtime_error naming the workload if something is missing or has
/// another type.
Workload read_workload(const std::string& name, const std::string& text);

/// One run of the suite for one row width of a workload: its values for axes that the user did not give.
struct WorkloadRun {
  Options options;
  std::string workload;  ///< its name
  std::string scale;     ///< what is less than in the workload, and why; empty if nothing is
};

/// The runs of `--workload`; without it, one run of the options as they are.
///
/// Rows are halved until the tables of all host placements together take at most a quarter of the machine's
/// memory and half of what is free. So runs on one machine have the same rows while at most half of its
/// memory is in use. Otherwise the free memory decides; `scale` tells the result. A batch has at most the
/// table's rows, and is halved until the allocated tensors of those placements fit the same limit. Axes that
/// the user gave stay as they are.
/// @throws UsageError if a given dtype does not divide the workload's rows.
std::vector<WorkloadRun> workload_runs(const Options& options, const harness::Machine& machine);

/// The part of a report's environment on workloads.
nlohmann::ordered_json workload_environment(const std::vector<WorkloadRun>& runs);

}  // namespace stbench
