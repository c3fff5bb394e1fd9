/// Workloads: shapes of tables and batches that programs of today have, each a data file with the source of
/// its shape.
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
      file;  ///< all of the data file: also source, order, what is assumed or was not verified
};

/// The data files by name, as they were when the program was built: benchmarks/transfer/workloads/*.json.
const std::vector<std::pair<std::string, std::string>>& workload_files();

/// All workloads, by name.
const std::vector<Workload>& workloads();
std::vector<std::string> workload_names();

/// A data file's text. @throws std::runtime_error naming the workload where something is missing or of
/// another kind.
Workload read_workload(const std::string& name, const std::string& text);

/// One run of the suite for one row width of a workload: its axes in place of those that the user did not
/// give.
struct WorkloadRun {
  Options options;
  std::string workload;  ///< its name
  std::string scale;     ///< what is less than in the workload and why, empty where nothing is
};

/// The runs that `--workload` comes to; one run of the options as they are where it names none.
///
/// Rows are halved until the tables of all host placements together take no more than a quarter of the
/// machine's memory and half of what is free. So the same machine gives the same rows from run to run while
/// no more than half of its memory is in use; beyond, what is free decides, and the rows can differ between
/// runs: `scale` says what they came to. A batch is at most as many rows as the table has, and is halved
/// until the ready tensors of those placements take no more than that either. Axes that the user gave are
/// left alone.
/// @throws UsageError where a given dtype does not divide the workload's rows.
std::vector<WorkloadRun> workload_runs(const Options& options, const harness::Machine& machine);

/// What a report's environment says of them.
nlohmann::ordered_json workload_environment(const std::vector<WorkloadRun>& runs);

}  // namespace stbench
