/// The optimizer suite: the cost of a step on the rows of a batch, and of moving their states there and back.
/// Its methods are files in benchmarks/optimizer/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/steps/reference_step.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/cache_bytes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/sums.h"
#include "harness/distribution.h"
#include "harness/errors.h"
#include "reports/columns.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::optimizer_suite {
namespace {

using reports::Identity;
using speedtorch::Placement;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names host_placements{"libtorch", "pageable", "hugepage", "mapped"};
/// A GPU steps tables that its kernels can read and write.
const Names gpu_placements{"pinned", "device"};

/// The values of a preset for axes that the user does not give.
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

harness::AxisDefaults axes() {
  return {{"cache", "warm"}, {"cache_bytes", std::int64_t{0}}, {"optimizer", "Adam"}};
}

/// The case moves the states' rows; otherwise it is a step.
bool moves_states(const Identity& id) { return id.direction != "step"; }

std::int64_t states_of(const Identity& id) {
  return std::ssize(speedtorch::state_names(optimizer_named(optimizer_of(id))));
}

/// @throws UsageError for a value that is impossible
void require_cell(const Identity& id) {
  if (id.dtype != "float32")
    throw UsageError(fmt::format("--dtype {}: --suite optimizer has float32 only", id.dtype));
  require_positive({{"--rows", id.rows}, {"--dim", id.dim}, {"--batch", id.batch}});
  harness::IndexSource(harness::parse_distribution(id.distribution)).require(id.rows, id.batch);
}

/// In the steps preset each method runs only in the placement that its users choose; in other presets all
/// methods run in all placements.
Names methods_of(const Options& options, const Identity& id) {
  if (options.preset != "steps") return {};
  if (on_gpu(id)) return {"sparse_rows", "swap", "link"};
  return placement_of(id.placement) == Placement::libtorch ? Names{"torch_sparse"}
                                                           : Names{"sparse_rows", "swap"};
}

bool is_cold(const Identity& id) { return axis<std::string>(id, "cache") == "cold"; }

/// Methods that keep rows of a file have a cell for each size of their memory, if they are asked for.
void add_caches(std::vector<StepCell>& cells, const Options& options) {
  const bool by_size = asks_for_cache(options) && options.methods.empty();
  if (!contains(options.methods, "row_cache") && !by_size) return require_cache_used(options, false);
  std::vector<StepCell> all;
  for (const auto& cell : cells) {
    all.push_back(cell);
    if (placement_of(cell.id.placement) != Placement::mapped || moves_states(cell.id)) continue;
    const auto tables = 1 + states_of(cell.id);
    for (const auto bytes : cache_bytes_of(options, tables * cell.id.rows, 4 * cell.id.dim)) {
      all.push_back(cell);
      all.back().methods = {"row_cache"};
      reports::set(all.back().id.axes, "cache_bytes", bytes);
    }
  }
  require_cache_used(options, all.size() > cells.size());
  cells = std::move(all);
}

/// Every combination. Those that differ in placement only, and so have their own tables, share rounds.
std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  for (const auto& dtype : options.dtypes) {
    if (dtype != "float32")
      throw UsageError(fmt::format("--dtype {}: --suite optimizer has float32 only", dtype));
  }
  const auto standard = preset(options.preset);
  const auto distributions = given_or(options.distributions, standard.distributions);
  auto directions = given_or(options.directions, standard.directions);
  std::erase_if(directions, [](const auto& name) { return !contains({"to", "from", "step"}, name); });
  std::vector<Identity> all{{.suite = "optimizer", .dtype = "float32", .axes = axes()}};
  cross(all, step_devices(options), &Identity::device);
  cross(all, cores_of(options, machine), &Identity::cores);
  cross(all, given_or(options.optimizers, standard.optimizers), further_axis("optimizer"));
  cross(all, given_or(options.rows, {standard.rows}), &Identity::rows);
  cross(all, given_or(options.dims, {128}), &Identity::dim);
  cross(all, given_or(options.batches, {standard.batch}), &Identity::batch);
  cross(all, distributions, &Identity::distribution);
  cross(all, directions, &Identity::direction);
  cross(all, given_or(options.caches, {"warm"}), further_axis("cache"));
  std::erase_if(all, [&](const Identity& id) {
    return moves_states(id) &&
           (states_of(id) == 0 || id.distribution != distributions.front() || is_cold(id));
  });
  auto cells = cells_of(all, standard.seconds);
  cross(cells, placements_asked_for(options, standard.placed, host_placements, gpu_placements),
        placement_axis);
  cross(cells, given_or(options.index_dtypes, {"int64"}),
        [](StepCell& cell, const std::string& dtype) { cell.id.index_dtype = dtype; });
  for (auto& cell : cells) require_cell(cell.id), cell.methods = methods_of(options, cell.id);
  add_caches(cells, options);
  return cells;
}

void check_case(const Identity& id, const Options& /*options*/) {
  require_cell(id);
  if (moves_states(id) && states_of(id) == 0)
    throw UsageError(fmt::format("--case: {} has no states to move", optimizer_of(id)));
  if (moves_states(id) && (is_cold(id) || cache_bytes_of(id) > 0))
    throw UsageError("--case: states are moved with cache=warm and no cache_bytes");
  if (cache_bytes_of(id) > 0 && placement_of(id.placement) != Placement::mapped)
    throw UsageError(fmt::format("--case: cache_bytes is of mapped tables, not of {}", id.placement));
}

std::unique_ptr<StepFixture> fixture(const Identity& id, const StepTerms& terms) {
  if (moves_states(id)) return std::make_unique<StateFixture>(id, terms);
  return std::make_unique<OptimizerFixture>(id, terms);
}

/// Bytes of the tables, and of a dense gradient on the case's device, that are in the GPU's memory or in the
/// host's.
std::int64_t needs(const Identity& id, bool gpu) {
  const bool steps = !moves_states(id), on_device = placement_of(id.placement) == Placement::device;
  const auto tables = on_device == gpu ? states_of(id) + (steps ? 1 : 0) : 0;
  return bytes_or_most(id, 4 * (tables + (steps && on_gpu(id) == gpu ? 1 : 0)));
}

std::vector<AxisInfo> describe() {
  return {{"direction", "to from sum step", "all"},
          {"optimizer", optimizer_names(), "all"},
          {"placement",
           fmt::format("{}; with a GPU {}", fmt::join(host_placements, " "), fmt::join(gpu_placements, " ")),
           "libtorch hugepage; pinned device"},
          {"dtype", "float32", "float32"},
          {"index-dtype", closed_axes::index_dtypes(), "int64"},
          {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "uniform"},
          {"rows", "any number", "1M"},
          {"dim", "any number", "128"},
          {"table", "FILE.npy or FILE.safetensors:NAME of float32, instead of rows and dim", "none"},
          {"batch", "any number", "131072"},
          {"cache", closed_axes::caches(), "warm"},
          {"cache-bytes", "any number, of row_cache", "2 % of the tables"}};
}

void derive(std::vector<reports::Record>& records, const Options& options) {
  const auto directions = given_or(options.directions, preset(options.preset).directions);
  if (options.case_id.empty() && contains(directions, "sum")) add_sums(records, "optimizer");
}

const RegisterStepSuite registration{{
    .suite = {.name = "optimizer",
              .summary = "a step on the rows of a batch, and its states there and back",
              .axes = axes(),
              .describe = describe,
              .directions = {"to", "from", "step"},
              .presets = {"quick",
                          "standard",
                          "full",
                          {"steps", "Judged by scripts/goals, with --suite contiguous."}},
              .tables = {reports::step_tables},
              .derive = derive},
    .host_placements = host_placements,
    .gpu_placements = gpu_placements,
    .cells = cells,
    .check_case = check_case,
    .needs = needs,
    .fixture = fixture,
}};

}  // namespace
}  // namespace stbench::optimizer_suite
