/// The infinitybatch suite: a training step by batches larger than what fits, under a cap on memory.
/// Contestants are files in benchmarks/infinitybatch/, models files in benchmarks/steps/nets/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "benchmarks/infinitybatch/world.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/columns.h"
#include "reports/tables/training_table.h"

namespace stbench::infinitybatch_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names policies{"auto", "fixed"};

struct BatchPreset {
  Counts times;  ///< what fits
  Names policies;
  double seconds = 0;  ///< for one group: a model
  bool slow_ways_once =
      true;            ///< one sample at a time only where the plain batch fits: its speed is the same
  Names methods = {};  ///< all where empty
};

BatchPreset preset(const std::string& name) {
  if (name == "quick") return {{1, 8}, policies, 8};
  if (name == "batches") return {{1, 2, 4, 8, 32}, {"auto"}, 25, true, {"plain", "infinity"}};
  if (name == "full") return {{1, 2, 4, 8, 32}, policies, 60, false};
  return {{1, 2, 4, 8, 32}, policies, 25};
}

std::string text(const Identity& id, const char* axis) {
  return std::get<std::string>(*reports::find(id.axes, axis));
}

void require(const std::string& value, const std::string& option, const Names& known) {
  if (!contains(known, value)) throw UsageError(harness::unknown_name(value, option, known));
}

/// @throws UsageError where a value of the cell cannot be
void require_cell(const Identity& id) {
  require(text(id, "model"), "--model", net_names());
  require(text(id, "micro_batch"), "--micro-batch", policies);
  for (const auto& [name, value] : {std::pair{"--rows", id.rows}, std::pair{"--batch", id.batch}}) {
    if (value < 1) throw UsageError(fmt::format("{} {}: at least 1 is needed", name, value));
  }
}

/// Samples of the batches: those that were given, or as many times as many as fit.
Counts batches_of(const Options& options, const BatchPreset& standard, std::int64_t fits) {
  if (!options.batches.empty()) return options.batches;
  Counts batches;
  for (const auto times : standard.times) batches.push_back(times * fits);
  return batches;
}

Names methods_of(const Identity& id, const BatchPreset& standard) {
  const bool slow_ways = !standard.slow_ways_once || id.batch <= id.rows;
  if (standard.methods.empty()) return slow_ways ? Names{} : Names{"plain", "accumulate", "infinity"};
  auto methods = standard.methods;
  if (slow_ways && text(id, "model") == "mlp") methods.emplace_back("one_by_one");
  return methods;
}

std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  const auto standard = preset(options.preset);
  std::vector<StepCell> all;
  if (!options.directions.empty() && !contains(options.directions, "step")) return all;
  if (!options.placements.empty() && !contains(options.placements, "libtorch")) return all;
  int group = 0;
  for (const auto& device : step_devices(options)) {
    for (const auto cores : cores_of(options, machine)) {
      for (const auto& model : given_or(options.models, net_names())) {
        const auto& net = net_named(model);
        for (const auto fits : given_or(options.rows, Counts{net.fits})) {
          for (const auto batch : batches_of(options, standard, fits)) {
            for (const auto& policy : given_or(options.micro_batches, standard.policies)) {
              Identity id{.suite = "infinitybatch",
                          .direction = "step",
                          .placement = "libtorch",
                          .device = device,
                          .dtype = "float32",
                          .index_dtype = "int64",
                          .distribution = "uniform",
                          .rows = fits,
                          .dim = net.sample_elements(),
                          .batch = batch,
                          .cores = cores,
                          .axes = {{"micro_batch", policy}, {"model", model}}};
              require_cell(id);
              auto methods = methods_of(id, standard);
              all.push_back({std::move(id), group, standard.seconds, std::move(methods)});
            }
          }
          ++group;  // all batches of a model take turns: they are compared with the one that fits
        }
      }
    }
  }
  return all;
}

StepCell cell_of_case(const Identity& id, const Options& /*options*/) {
  require_cell(id);
  const auto elements = net_named(text(id, "model")).sample_elements();
  if (id.dim != elements)
    throw UsageError(
        fmt::format("--case: a sample of {} has {} elements, not {}", text(id, "model"), elements, id.dim));
  return {id, 0, 60};
}

/// Examples of all batches; and to know how far the plain batch is from the exact gradients, its graph
/// without a cap, with what its backward pass takes besides.
std::int64_t needs(const Identity& id) {
  const auto& net = net_named(text(id, "model"));
  const auto numbers = TrainingWorld::batches * net.sample_elements() + 2 * net.activity;
  std::int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(std::max(id.rows, id.batch), 4 * numbers, &bytes);
  return overflow ? std::numeric_limits<std::int64_t>::max() : bytes;
}

std::vector<AxisInfo> describe() {
  return {{"model", fmt::format("{}", fmt::join(net_names(), " ")), "all"},
          {"micro-batch", "auto: finds its size. fixed: half of what fits", "auto fixed"},
          {"rows", "samples of the plain batch that fits under the cap", "the model's"},
          {"batch", "samples, any number", "1 2 4 8 32 times rows"},
          {"device", "cpu cuda:N", "cpu"},
          {"cores", "1 to what the process may use", "all"}};
}

std::string model_lines() {
  std::string lines = "  models:\n";
  for (const auto& net : nets())
    lines += fmt::format("    {:<12} {}\n                 {} parameters; {} samples fit\n", net.name,
                         net.summary, net.parameter_elements(), net.fits);
  return lines;
}

const RegisterOption model_option{"--model LIST", "what --suite infinitybatch trains: mlp, conv, transformer",
                                  option_reader::names(&Options::models), net_names};

const RegisterOption micro_batch_option{
    "--micro-batch LIST", "auto, fixed: whether its micro-batches find their size",
    option_reader::names(&Options::micro_batches), [] { return policies; }};

const RegisterStepSuite registration{{
    .name = "infinitybatch",
    .summary = "a training step by batches larger than memory",
    .axes = {{"micro_batch", "auto"}, {"model", "mlp"}},
    .presets = {"quick", "standard", "full", {"batches", "Judged by scripts/goals."}},
    .instead = {{"--dim",
                 "a sample is as large as its model says; --rows: how many samples fit under the cap, "
                 "--batch: how many a batch has"}},
    .tables = {reports::training_tables, /*waived_too=*/true},
    .runs_last = true,
    .describe = describe,
    .more = model_lines,
    .cells = cells,
    .cell_of_case = cell_of_case,
    .needs = needs,
    .world = [](const Identity& id, const StepTerms& terms) -> std::unique_ptr<StepWorld> {
      return std::make_unique<TrainingWorld>(id, terms);
    },
}};

}  // namespace
}  // namespace stbench::infinitybatch_suite
