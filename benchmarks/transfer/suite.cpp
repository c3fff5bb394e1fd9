/// The transfer suite: how fast rows move between a table in any placement and a LibTorch tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/option_spec.h"
#include "benchmarks/suite/plainly.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/suite/sums.h"
#include "benchmarks/tables/table_file.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/files_environment.h"
#include "benchmarks/transfer/group.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/plan.h"
#include "benchmarks/transfer/workload.h"
#include "reports/tables/sweep_tables.h"

namespace stbench {
namespace {

using reports::Record;

/// Adds waived cases and warnings once per placement, method and device, because workloads repeat them.
void add_new(Plan& plan, TransferPlan& more) {
  const auto said = [&](const Record& record) {
    return std::ranges::any_of(plan.waived, [&](const Record& other) {
      return std::tie(record.id.placement, record.id.method, record.id.device, record.id.direction,
                      record.reason) ==
             std::tie(other.id.placement, other.id.method, other.id.device, other.id.direction, other.reason);
    });
  };
  const bool first = plan.waived.empty();
  for (auto& record : more.waived) {
    if (first || !said(record)) plan.waived.push_back(std::move(record));
  }
  for (const auto& warning : more.warnings) add_once(plan.warnings, warning);
}

/// The methods to compare with that --method left out; empty if none.
std::string without_yardsticks(const Options& options, const std::vector<TransferCase>& measured) {
  if (options.methods.empty() || measured.empty()) return {};
  const auto lacks = [&](harness::Role role) {
    return std::ranges::none_of(measured, [&](const TransferCase& one) { return one.method->role == role; });
  };
  std::vector<std::string> lacking;
  if (lacks(harness::Role::ceiling))
    lacking.emplace_back("the ceilings (copy, stream), so no row has its share of one");
  if (lacks(harness::Role::libtorch))
    lacking.emplace_back("LibTorch's methods (index_select, ...), so no row is compared with them");
  if (lacking.empty()) return {};
  return fmt::format("--method leaves out {}", fmt::join(lacking, ", and "));
}

/// The options on the rows of --table: its shape, and batches that it has rows for.
Options on_table(const Options& given, const TableFile& table, std::vector<std::string>& warnings) {
  if (!given.case_id.empty()) require_shape_of(table, case_of(given.case_id, "transfer"));
  auto options = options_for_case(with_shape_of(table, given));
  constexpr std::int64_t usual = 131'072;  // of the standard preset
  if (options.batches.empty() && table.rows() < usual) {
    options.batches = {table.rows()};
    warnings.push_back(
        fmt::format("--table {}: batches have {} rows, as many as the table", table.name(), table.rows()));
  }
  warnings.push_back(
      fmt::format("--table {}: the file is only read. A mapped table that is only read is the file itself; "
                  "each other table is a copy",
                  table.name()));
  return options;
}

/// A mapped table takes room on the disk unless it is the file of --table itself.
std::optional<std::int64_t> room_for_files(const Options& options) {
  const auto directions = directions_of(options);
  const bool only_reads =
      std::ranges::all_of(directions, [](const auto& name) { return name == "to" || name == "consume"; });
  return !options.table.empty() && only_reads ? std::nullopt : table_folder_free();
}

Plan plan(const Options& given, const harness::Machine& machine) {
  const auto file = table_of(given);
  Plan result;
  const auto options = file ? on_table(given, *file, result.warnings) : options_for_case(given);
  const auto run = std::make_shared<TransferRun>(options.seed, file, machine);
  Peers::of_this_run().configure(machine.allowed_cpus, options.timeout_s);
  const auto workload_runs = stbench::workload_runs(options, machine);
  result.last_check = [run] { plainly([&] { run->tables.check_all(); }); };
  result.settle = [run](std::vector<Record>& records) { mark_users_wrong(run->tables, records); };
  std::set<TransferCase> planned;  // two workloads may have a shape in common
  std::vector<TransferCase> measured;
  for (const auto& one : workload_runs) {
    auto transfer = plan_transfer(one.options, machine, room_for_files(options), run->indices);
    add_new(result, transfer);
    for (auto& cases : transfer.groups) {
      std::erase_if(cases.cases, [&](const auto& found) { return !planned.insert(found).second; });
      if (cases.cases.empty()) continue;
      measured.insert(measured.end(), cases.cases.begin(), cases.cases.end());
      cases.seconds /= static_cast<double>(workload_runs.size());  // the preset's time is for all of them
      result.groups.push_back(transfer_group(std::move(cases), run, machine));
    }
    if (!one.scale.empty())
      result.warnings.push_back(fmt::format("workload {}: {}", one.workload, one.scale));
  }
  if (const auto lacking = without_yardsticks(options, measured); !lacking.empty())
    result.warnings.push_back(lacking);
  if (auto peers = Peers::of_this_run().versions(); !peers.empty())
    result.environment["peers"] = std::move(peers);
  if (auto files = files_environment(measured); !files.empty())
    result.environment["files"] = std::move(files);
  if (auto used = workload_environment(workload_runs); !used.empty())
    result.environment["workloads"] = std::move(used);
  if (file) result.environment["table"] = file->environment();
  return result;
}

void add_sums_asked_for(std::vector<Record>& records, const Options& given) {
  const auto options = options_for_case(given);
  if (!options.workloads.empty() && options.directions.empty()) return;  // workloads have to and from only
  const auto directions = directions_of(options);
  if (contains(directions, "sum")) add_sums(records, "transfer");
}

std::vector<AxisInfo> describe() {
  using namespace transfer_axes;
  return with_methods({{"direction", directions(), "all but both"},
                       {"placement", placements(), "all"},
                       {"device", "cpu cuda:N", "cpu, and cuda:0 where there is one"},
                       {"dtype", dtypes(), "float32"},
                       {"row-bytes", "any number, instead of dim and dtype", "-"},
                       {"index-dtype", index_dtypes(), "int64"},
                       {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "unique"},
                       {"rows", "any number", "1M"},
                       {"dim", "any number", "128"},
                       {"batch", "any number", "131072"},
                       {"cores", "1 to what the process may use", "1 and all"},
                       {"cache", caches(), "warm"},
                       {"cache-bytes", "any number, of row_cache", "2 % of the table"},
                       {"callers", "1 to 1024", "1"},
                       {"isa", isas(), "best"},
                       {"table", "FILE.npy or FILE.safetensors:NAME, instead of rows, dim and dtype", "none"},
                       {"workload", "one of those below, instead of axes", "none"}},
                      2, method_infos(methods()), "all but those of so many SMs");
}

std::string workload_lines() {
  std::string lines = "  workloads:\n";
  for (const auto& workload : workloads())
    lines += fmt::format("    {:<12} {}\n", workload.name, workload.summary);
  return lines;
}

const RegisterOption workload_option{
    "--workload LIST", "shapes of today's programs: engram-v41, kv-page, ...",
    option_reader::names(&Options::workloads), workload_names,
    R"(stbench list names them. Each sets rows, row bytes, batches, distributions and directions; an axis that is given wins.
       Rows are halved until the tables fit a quarter of the memory and half of what is free. Batches have at most as many
       rows as the table. The report says what was scaled; the width of a row never is.)"};

const RegisterSuite registration{{
    .name = "transfer",
    .summary = "rows of a table into a LibTorch tensor and back",
    .leads = true,
    .axes = transfer_axes::further(),
    .describe = describe,
    .methods = [] { return method_infos(methods()); },
    .directions = transfer_axes::directions(),
    .presets = preset_list(),
    .tables = {reports::movement_tables},
    .more = workload_lines,
    .plan = plan,
    .derive = add_sums_asked_for,
}};

}  // namespace
}  // namespace stbench
