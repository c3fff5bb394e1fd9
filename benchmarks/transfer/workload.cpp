#include "benchmarks/transfer/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "benchmarks/suite/registry.h"
#include "benchmarks/tables/row_shape.h"
#include "benchmarks/transfer/axes.h"
#include "harness/errors.h"
#include "harness/numbers.h"

namespace stbench {
namespace {

using Counts = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

/// The allocated tensors of a cell per byte of its payload: the model, the values, and two that checks and
/// LibTorch make.
constexpr std::int64_t tensors_a_batch = 4;

/// Bytes that the tables, and that the allocated tensors, of one placement may take.
std::int64_t budget(const Options& options, const harness::Machine& machine) {
  const auto placements = placements_of(options);
  const auto host = std::count_if(placements.begin(), placements.end(),
                                  [](const std::string& p) { return p != "pinned" && p != "device"; });
  return std::min(machine.memory_total / 4, machine.memory_available / 2) / std::max<std::int64_t>(1, host);
}

std::int64_t halved_until(std::int64_t count, std::int64_t bytes_each, std::int64_t most) {
  while (count > 1 && count > most / bytes_each) count /= 2;
  return count;
}

/// Sets the run's rows, as the user gave them or scaled.
void set_rows(WorkloadRun& run, const Workload& workload, std::int64_t row_bytes, std::int64_t most) {
  auto& rows = run.options.rows;
  const bool given = !rows.empty();
  if (!given) rows = {halved_until(workload.rows, row_bytes, most)};
  if (rows == Counts{workload.rows}) return;
  run.scale = given ? fmt::format("--rows in place of {} rows", harness::human(workload.rows))
                    : fmt::format("{} of {} rows of {} bytes (1/{}), as the memory here allows",
                                  harness::human(rows.front()), harness::human(workload.rows), row_bytes,
                                  (workload.rows + rows.front() / 2) / rows.front());
}

void say(WorkloadRun& run, const std::string& what) { run.scale += (run.scale.empty() ? "" : "; ") + what; }

/// Sets the run's batches, as the user gave them or cut.
void set_batches(WorkloadRun& run, const Workload& workload, std::int64_t row_bytes, std::int64_t most) {
  auto& batches = run.options.batches;
  if (!batches.empty()) return;
  const auto rows = *std::min_element(run.options.rows.begin(), run.options.rows.end());
  for (const auto wanted : workload.batches) {
    const auto fits = halved_until(wanted, tensors_a_batch * row_bytes, most);
    if (fits < std::min(wanted, rows))
      say(run, fmt::format("batch {} in place of {}", harness::human(fits), harness::human(wanted)));
    const auto batch = std::min(rows, fits);
    add_once(batches, batch);
  }
  const auto largest = *std::max_element(workload.batches.begin(), workload.batches.end());
  if (largest > rows && rows > 0)
    say(run, fmt::format("no batch is above the table's {} rows", harness::human(rows)));
}

WorkloadRun run_of(const Workload& workload, std::int64_t row_bytes, Options options, std::int64_t most) {
  WorkloadRun run{std::move(options), workload.name, {}};
  set_rows(run, workload, row_bytes, most);
  set_batches(run, workload, row_bytes, most);
  run.options.directions = given_or(run.options.directions, workload.directions);
  run.options.distributions = given_or(run.options.distributions, workload.distributions);
  return run;
}

/// The options once per row width: the workload's in bytes, or in elements of a dtype that the user gave.
std::vector<std::pair<std::int64_t, Options>> widths_of(const Workload& workload, const Options& options) {
  std::vector<std::pair<std::int64_t, Options>> widths;
  if (!options.row_bytes.empty() || !options.dims.empty()) {
    // The user's own widths; the widest decides what fits. 8 bytes is the largest element.
    const auto& given = options.row_bytes.empty() ? options.dims : options.row_bytes;
    const auto widest = *std::max_element(given.begin(), given.end());
    constexpr std::int64_t largest = std::int64_t{1} << 40;  // more is refused as it stands
    widths.emplace_back(std::clamp<std::int64_t>(widest, 1, largest) * (options.row_bytes.empty() ? 8 : 1),
                        options);
    return widths;
  }
  for (const auto row_bytes : workload.row_bytes) {
    auto one = options;
    if (options.dtypes.empty()) {
      one.row_bytes = {row_bytes};
      widths.emplace_back(row_bytes, one);
    }
    for (const auto& dtype : options.dtypes) {
      const auto bytes = row_shape(dtype_named(dtype), 1, 1).row_bytes();
      if (row_bytes % bytes != 0) {
        throw UsageError(
            fmt::format("--workload {} has rows of {} bytes, which {} does not divide; leave out --dtype",
                        workload.name, row_bytes, dtype));
      }
      one.dtypes = {dtype}, one.dims = {row_bytes / bytes};
      widths.emplace_back(row_bytes, one);
    }
  }
  return widths;
}

}  // namespace

Workload read_workload(const std::string& name, const std::string& text) {
  Workload workload;
  workload.name = name;
  try {
    auto file = nlohmann::ordered_json::parse(text);
    workload.summary = file.at("summary").get<std::string>();
    workload.rows = file.at("rows").get<std::int64_t>();
    workload.row_bytes = file.at("row_bytes").get<Counts>();
    workload.batches = file.at("batches").get<Counts>();
    workload.distributions = file.at("distributions").get<Names>();
    workload.directions = file.at("directions").get<Names>();
    for (const char* said : {"source", "order", "distribution_because"}) {
      if (file.at(said).get<std::string>().empty())
        throw std::runtime_error(fmt::format("'{}' is empty", said));
    }
    workload.file = std::move(file);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("workload {}: {}", name, error.what()));
  }
  return workload;
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = [] {
    std::vector<Workload> read;
    for (const auto& [name, text] : workload_files()) read.push_back(read_workload(name, text));
    return read;
  }();
  return all;
}

Names workload_names() { return names_of(workloads()); }

std::vector<WorkloadRun> workload_runs(const Options& options, const harness::Machine& machine) {
  if (options.workloads.empty()) return {{options, {}, {}}};
  const auto most = budget(options, machine);
  std::vector<WorkloadRun> runs;
  for (const auto& name : options.workloads) {
    const auto& workload = by_name(workloads(), name);
    for (auto& [row_bytes, one] : widths_of(workload, options))
      runs.push_back(run_of(workload, row_bytes, std::move(one), most));
  }
  return runs;
}

nlohmann::ordered_json workload_environment(const std::vector<WorkloadRun>& runs) {
  auto environment = nlohmann::ordered_json::object();
  for (const auto& run : runs) {
    if (run.workload.empty()) continue;
    auto& one = environment[run.workload];
    if (one.is_null()) one = by_name(workloads(), run.workload).file;
    if (!run.scale.empty()) one["scale"].push_back(run.scale);
  }
  return environment;
}

}  // namespace stbench
