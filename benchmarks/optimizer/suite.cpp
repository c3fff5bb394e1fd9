/// The optimizer suite: what a step on the rows of a batch costs, and what moving their states there and back
/// does.
///
/// Contestants are files in benchmarks/optimizer/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/optimizer/world.h"
#include "benchmarks/steps/reference_step.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/sums.h"
#include "harness/distribution.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/columns.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::optimizer_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names host_placements{"libtorch", "pageable", "hugepage", "mapped"};
/// A GPU steps tables that it reads and writes by itself.
const Names gpu_placements{"pinned", "device"};

/// What a preset takes where the user names nothing.
struct OptimizerPreset {
  Names directions, optimizers, distributions, placed;
  std::int64_t rows = 0, batch = 0;
  double seconds = 0;  ///< for one group
};

OptimizerPreset preset(const std::string& name) {
  const Names all = optimizer_names();
  if (name == "quick")
    return {{"to", "from", "sum", "step"},
            {"SparseAdam", "Adagrad", "SGD"},
            {"uniform", "zipf:1.05"},
            {"libtorch", "hugepage"},
            200'000,
            16'384,
            5};
  if (name == "steps")
    return {{"step"}, {"SparseAdam"}, {"uniform", "zipf:1.05"}, {"libtorch", "hugepage"}, 2'000'000, 131'072,
            60};
  if (name == "full")
    return {{"to", "from", "sum", "step"},
            all,
            {"unique", "uniform", "zipf:1.05"},
            host_placements,
            1'000'000,
            131'072,
            15};
  return {{"to", "from", "sum", "step"}, all, {"uniform"}, {"libtorch", "hugepage"}, 1'000'000, 131'072, 8};
}

void require(const std::string& text, const std::string& option, const Names& known) {
  if (!contains(known, text)) throw UsageError(harness::unknown_name(text, option, known));
}

std::int64_t states_of(const Identity& id) {
  return std::ssize(speedtorch::state_names(optimizer_named(optimizer_of(id))));
}

/// @throws UsageError where a value of the cell cannot be
void require_cell(const Identity& id) {
  if (id.dtype != "float32")
    throw UsageError(fmt::format("--dtype {}: --suite optimizer has float32 only", id.dtype));
  for (const auto& [name, value] : {std::pair{"--rows", id.rows}, {"--dim", id.dim}, {"--batch", id.batch}}) {
    if (value < 1) throw UsageError(fmt::format("{} {}: at least 1 is needed", name, value));
  }
  harness::IndexSource(harness::parse_distribution(id.distribution)).require(id.rows, id.batch);
}

/// In the steps preset each side is where its users have it; elsewhere every contestant is everywhere.
Names methods_of(const Options& options, const Identity& id) {
  if (options.preset != "steps") return {};
  if (id.device != "cpu") return {"sparse_rows", "swap", "link"};
  return id.placement == "libtorch" ? Names{"torch_sparse"} : Names{"sparse_rows", "swap"};
}

/// Every combination, those that differ in nothing but placement (and so have tables of their own) in one
/// group.
std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  for (const auto& dtype : options.dtypes) {
    if (dtype != "float32")
      throw UsageError(fmt::format("--dtype {}: --suite optimizer has float32 only", dtype));
  }
  const auto standard = preset(options.preset);
  const auto distributions = given_or(options.distributions, standard.distributions);
  std::vector<StepCell> all;
  int group = 0;
  const auto add = [&](Identity id) {
    const bool moved = id.direction != "step";
    if (moved && (states_of(id) == 0 || id.distribution != distributions.front())) return;
    const bool on_host = id.device == "cpu";
    const auto& placements = on_host ? host_placements : gpu_placements;
    for (const auto& placement : given_or(options.placements, on_host ? standard.placed : gpu_placements)) {
      if (!contains(placements, placement)) continue;
      id.placement = placement;
      for (const auto& index_dtype : given_or(options.index_dtypes, {"int64"})) {
        id.index_dtype = index_dtype;
        require_cell(id);
        all.push_back({id, group, standard.seconds, methods_of(options, id)});
      }
    }
    ++group;
  };
  for (const auto& device : step_devices(options)) {
    for (const auto cores : cores_of(options, machine)) {
      for (const auto& optimizer : given_or(options.optimizers, standard.optimizers)) {
        for (const auto rows : given_or(options.rows, {standard.rows})) {
          for (const auto dim : given_or(options.dims, {128})) {
            for (const auto batch : given_or(options.batches, {standard.batch})) {
              for (const auto& distribution : distributions) {
                for (const auto& direction : given_or(options.directions, standard.directions)) {
                  if (!contains({"to", "from", "step"}, direction)) continue;
                  add({.suite = "optimizer",
                       .direction = direction,
                       .device = device,
                       .dtype = "float32",
                       .distribution = distribution,
                       .rows = rows,
                       .dim = dim,
                       .batch = batch,
                       .cores = cores,
                       .axes = {{"optimizer", optimizer}}});
                }
              }
            }
          }
        }
      }
    }
  }
  return all;
}

StepCell cell_of_case(const Identity& id, const Options& /*options*/) {
  require(optimizer_of(id), "--case: optimizer", optimizer_names());
  require(id.index_dtype, "--case: index dtype", closed_axes::index_dtypes());
  require_cell(id);
  if (id.direction != "step" && states_of(id) == 0)
    throw UsageError(fmt::format("--case: {} has no states to move", optimizer_of(id)));
  return {id, 0, 60};
}

std::unique_ptr<StepWorld> world(const Identity& id, const StepTerms& terms) {
  if (id.direction != "step") return std::make_unique<StateWorld>(id, terms);
  return std::make_unique<OptimizerWorld>(id, terms);
}

/// Of the tables, and of a dense gradient beside them on the case's device, those in the memory of the GPU or
/// of the host.
std::int64_t needed_in(bool gpu, const Identity& id) {
  const bool steps = id.direction == "step";
  const auto tables = (id.placement == "device") == gpu ? states_of(id) + (steps ? 1 : 0) : 0;
  return bytes_or_most(id, 4 * (tables + (steps && (id.device != "cpu") == gpu ? 1 : 0)));
}

std::vector<AxisInfo> describe() {
  return {{"direction", "to from sum step", "all"},
          {"optimizer", fmt::format("{}", fmt::join(optimizer_names(), " ")), "all"},
          {"placement",
           fmt::format("{}; with a GPU {}", fmt::join(host_placements, " "), fmt::join(gpu_placements, " ")),
           "libtorch hugepage; pinned device"},
          {"dtype", "float32", "float32"},
          {"index-dtype", "int64 int32", "int64"},
          {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "uniform"},
          {"rows", "any number", "1M"},
          {"dim", "any number", "128"},
          {"batch", "any number", "131072"},
          {"device", "cpu cuda:N", "cpu"},
          {"cores", "1 to what the process may use", "all"}};
}

void derive(std::vector<reports::Record>& records, const Options& options) {
  const auto directions = given_or(options.directions, preset(options.preset).directions);
  if (options.case_sentence.empty() && contains(directions, "sum")) add_sums(records, "optimizer");
}

const RegisterStepSuite registration{{
    .name = "optimizer",
    .summary = "a step on the rows of a batch, and its states there and back",
    .axes = {{"optimizer", "Adam"}},
    .directions = {"to", "from", "step"},
    .presets = {"quick", "standard", "full", {"steps", "Judged by scripts/goals, with --suite contiguous."}},
    .host_placements = host_placements,
    .gpu_placements = gpu_placements,
    .describe = describe,
    .cells = cells,
    .cell_of_case = cell_of_case,
    .needs = [](const Identity& id) { return needed_in(false, id); },
    .gpu_needs = [](const Identity& id) { return needed_in(true, id); },
    .world = world,
    .derive = derive,
}};

}  // namespace
}  // namespace stbench::optimizer_suite
