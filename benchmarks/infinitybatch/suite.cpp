/// The infinitybatch suite: training steps on batches that are larger than memory, under a memory cap. Its
/// methods are files in benchmarks/infinitybatch/, its models files in benchmarks/steps/nets/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "benchmarks/infinitybatch/fixture.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "reports/columns.h"
#include "reports/number.h"
#include "reports/tables/training_table.h"

namespace stbench::infinitybatch_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names policies{"auto", "fixed"};

struct BatchPreset {
  Counts times;  ///< multiples of the batch that fits
  Names policies;
  double seconds = 0;  ///< for one group: all batches of a model
  bool slow_ways_once =
      true;            ///< one sample at a time only where the plain batch fits: its speed is the same
  Names methods = {};  ///< empty: all
  Names models = net_names();
  std::int64_t rows = 0;  ///< samples of the batch that fits; 0: the model's
};

BatchPreset preset(const std::string& name) {
  if (name == "quick") return {{1, 8}, policies, 8};
  if (name == "batches")
    return {.times = {1, 2, 4, 8, 32},
            .policies = {"auto"},
            .seconds = 25,
            .methods = {"plain", "infinity"},
            .models = {"conv", "mlp", "transformer"}};
  // The sizes are those that an author would choose by hand. The batch is small, so that fixed costs show.
  if (name == "sizes")
    return {.times = {1},
            .policies = {"auto", "64", "128", "256", "512"},
            .seconds = 25,
            .methods = {"accumulate", "infinity"},
            .models = {"conv", "mlp", "small"},
            .rows = 512};
  if (name == "full") return {{1, 2, 4, 8, 32}, policies, 60, false};
  return {{1, 2, 4, 8, 32}, policies, 25};
}

harness::AxisDefaults axes() { return {{"micro_batch", "auto"}, {"model", "mlp"}}; }

const Net& net_of(const Identity& id) { return net_named(axis<std::string>(id, "model")); }

/// @throws UsageError for what is neither a policy nor a number of samples
void require_micro_batch(const std::string& text) {
  constexpr std::size_t most_digits = 9;
  const bool number = reports::is_digits(text) && text.size() <= most_digits && text.front() != '0';
  if (!number && !contains(policies, text))
    throw UsageError(
        fmt::format("--micro-batch {}: use auto, fixed or a number of samples, such as 64", text));
}

/// @throws UsageError for a value that is impossible
void require_cell(const Identity& id) {
  require_micro_batch(axis<std::string>(id, "micro_batch"));
  require_positive({{"--rows", id.rows}, {"--batch", id.batch}});
}

/// Samples of the batches: the given ones, or multiples of the batch that fits.
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
  if (slow_ways && axis<std::string>(id, "model") == "mlp") methods.emplace_back("one_by_one");
  return methods;
}

/// Every combination. All batches of a model share rounds: they are compared with the one that fits.
std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  const auto standard = preset(options.preset);
  if (!options.directions.empty() && !contains(options.directions, "step")) return {};
  if (!options.placements.empty() && !contains(options.placements, "libtorch")) return {};
  std::vector<Identity> all{{.suite = "infinitybatch",
                             .direction = "step",
                             .placement = "libtorch",
                             .dtype = "float32",
                             .index_dtype = "int64",
                             .distribution = "uniform",
                             .axes = axes()}};
  cross(all, step_devices(options), &Identity::device);
  cross(all, cores_of(options, machine), &Identity::cores);
  cross(all, given_or(options.models, standard.models), further_axis("model"));
  cross(
      all,
      [&](const Identity& id) {
        return given_or(options.rows, Counts{standard.rows > 0 ? standard.rows : net_of(id).fits});
      },
      &Identity::rows);
  for (auto& id : all) id.dim = net_of(id).sample_elements();
  auto cells = cells_of(all, standard.seconds);
  cross(
      cells, [&](const StepCell& cell) { return batches_of(options, standard, cell.id.rows); },
      [](StepCell& cell, std::int64_t batch) { cell.id.batch = batch; });
  cross(cells, given_or(options.micro_batches, standard.policies),
        [](StepCell& cell, const std::string& policy) { reports::set(cell.id.axes, "micro_batch", policy); });
  for (auto& cell : cells) require_cell(cell.id), cell.methods = methods_of(cell.id, standard);
  return cells;
}

void check_case(const Identity& id, const Options& /*options*/) {
  require_cell(id);
  const auto elements = net_of(id).sample_elements();
  if (id.dim != elements)
    throw UsageError(fmt::format("--case: a sample of {} has {} elements, not {}",
                                 axis<std::string>(id, "model"), elements, id.dim));
}

/// Bytes of the samples of all batches, and of a plain batch without a cap, forward and backward, which tells
/// its difference from the exact gradients.
std::int64_t needs(const Identity& id, bool gpu) {
  if (gpu) return 0;  // the cap tells what of it is used
  const auto& net = net_of(id);
  const auto numbers = TrainingFixture::batches * net.sample_elements() + 2 * net.activity;
  std::int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(std::max(id.rows, id.batch), 4 * numbers, &bytes);
  return overflow ? std::numeric_limits<std::int64_t>::max() : bytes;
}

std::vector<AxisInfo> describe() {
  return {
      {"model", net_names(), "all"},
      {"micro-batch", "auto: finds its size. fixed: half of what fits. Or a number of samples", "auto fixed"},
      {"rows", "samples of the plain batch that fits under the cap", "the model's"},
      {"batch", "samples, any number", "1 2 4 8 32 times rows"}};
}

std::string model_lines() {
  std::string lines = "  models:\n";
  for (const auto& net : nets())
    lines += fmt::format("    {:<12} {}\n                 {} parameters; {} samples fit\n", net.name,
                         net.summary, net.parameter_elements(), net.fits);
  return lines;
}

const RegisterOption model_option{"--model LIST",
                                  "what --suite infinitybatch trains: mlp, conv, small, transformer",
                                  option_reader::names(&Options::models), net_names};

const RegisterOption micro_batch_option{
    "--micro-batch LIST", "auto, fixed: whether its micro-batches find their size; or samples",
    option_reader::texts(&Options::micro_batches), [] { return policies; }};

const RegisterStepSuite registration{{
    .suite = {.name = "infinitybatch",
              .summary = "a training step by batches larger than memory",
              .axes = axes(),
              .describe = describe,
              .presets = {"quick",
                          "standard",
                          "full",
                          {"batches", "Judged by scripts/goals."},
                          {"sizes",
                           "512 samples in micro-batches of several sizes. Judged by scripts/goals."}},
              .instead = {{"--dim",
                           "a sample is as large as its model says; --rows: how many samples fit under the "
                           "cap, --batch: how many a batch has"}},
              .tables = {reports::training_tables, /*waived_too=*/true},
              .more = model_lines,
              .runs_last = true},
    .cells = cells,
    .check_case = check_case,
    .needs = needs,
    .fixture = fixture_of<TrainingFixture>,
}};

}  // namespace
}  // namespace stbench::infinitybatch_suite
