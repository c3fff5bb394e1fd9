/// The memory suite: the memory that a table costs, by allocator and placement. Each case has its own
/// process; nothing is timed.
#include <fmt/format.h>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/memory/footprint.h"
#include "benchmarks/memory/plan.h"
#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/row_shape.h"
#include "benchmarks/tables/table_file.h"
#include "harness/errors.h"
#include "reports/tables/memory_table.h"

namespace stbench::memory_suite {
namespace {

/// Speed of filling, checking and freeing a table on slow machines; only for the progress line.
constexpr double bytes_a_second = 1e9, start_seconds = 1;

class MemoryGroup final : public Group {
 public:
  MemoryGroup(const reports::Identity& id, FootprintTerms terms) : terms_(std::move(terms)) {
    cases = {id};
    title = fmt::format("{} in {}, {}", id.suite, id.placement, id.method);
    seconds = start_seconds + static_cast<double>(shape_of(id).bytes()) / bytes_a_second;
  }

  /// An interrupted case is unfinished and not reported.
  std::vector<reports::Record> measure(Bench& bench) override {
    terms_.stop = [&bench] { return bench.stop(); };
    auto record = measure_footprint(cases.front(), terms_);
    if (record.status == reports::Status::failed && bench.stop()) return {};
    return {std::move(record)};
  }

 private:
  FootprintTerms terms_;
};

Plan plan(const Options& options, const harness::Machine& machine) {
  auto cpus = machine.allowed_cpus;
  if (std::ssize(cpus) > machine.allowed_cores) cpus.resize(static_cast<std::size_t>(machine.allowed_cores));
  Peers::of_this_run().configure(machine.allowed_cpus, options.timeout_s);
  const auto table = table_of(options);
  if (table && table->is_raw())
    throw UsageError(
        fmt::format("--table {}: --suite memory takes .npy and safetensors files", table->name()));
  auto memory = plan_memory(table ? with_shape_of(*table, options) : options, machine, table.get());
  Plan result;
  result.waived = std::move(memory.waived), result.warnings = std::move(memory.warnings);
  for (const auto& id : memory.cases) {
    result.groups.push_back(std::make_unique<MemoryGroup>(
        id, FootprintTerms{
                .seed = options.seed, .timeout_s = options.timeout_s, .cpus = cpus, .table = options.table}));
  }
  if (table) {
    result.environment["table"] = table->environment();
    result.warnings.push_back(fmt::format(
        "--table {}: the file is only read. A mapped table is the file itself; all others are copies",
        table->name()));
  }
  if (auto peers = Peers::of_this_run().versions(); !peers.empty())
    result.environment["peers"] = std::move(peers);
  return result;
}

std::vector<AxisInfo> describe() {
  return with_methods(
      {{"placement", closed_axes::placements(), "all"},
       {"device", "cpu cuda:N", "cpu, and cuda:0 where there is one"},
       {"dtype", closed_axes::dtypes(), "float32"},
       {"row-bytes", "any number, instead of dim and dtype", "-"},
       {"rows", "any number", "10M, or what the memory has room for"},
       {"dim", "any number", "128"},
       {"table", "FILE.npy or FILE.safetensors:NAME, instead of rows, dim and dtype", "none"},
       {"touched", "in a --case: the part of the table that is written", "1, and 0.25 of a mapped file"}},
      1, method_infos(allocators()));
}

const RegisterSuite registration{{
    .name = "memory",
    .summary = "what holding a table costs, by who makes its memory and where",
    .kind = harness::CaseKind::holds,
    .axes = memory_axes(),
    .describe = describe,
    .methods = [] { return method_infos(allocators()); },
    .times_cases = false,
    .waives_strange_peers = true,
    .tables = {reports::memory_tables, /*waived_too=*/true, reports::finished_memory_rows},
    .plan = plan,
}};

}  // namespace
}  // namespace stbench::memory_suite
