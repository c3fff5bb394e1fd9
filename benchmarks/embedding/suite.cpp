/// The embedding suite: training steps of word2vec (skip-gram with negative sampling) on a real text. A step
/// is the forward pass, the gradients, and the update of two tables. Its methods are files in
/// benchmarks/embedding/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/embedding/fixture.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "reports/columns.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::embedding_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names host_placements{"libtorch", "pageable", "hugepage", "mapped"};
/// A GPU trains tables that its kernels can read and write.
const Names gpu_placements{"pinned", "device"};
/// The standard text has 12,762 different words, the rarest of which occur once.
constexpr std::int64_t text_rows = 10'000;

struct EmbeddingPreset {
  Names optimizers, placed;
  Counts rows, dims;
  double seconds = 0;  ///< for one group
};

EmbeddingPreset preset(const std::string& name) {
  if (name == "quick") return {{"Adagrad", "Adamax"}, {"hugepage"}, {text_rows}, {64}, 5};
  if (name == "full")
    return {training_optimizers(), host_placements, {text_rows, 1'000'000}, {64, 128, 300}, 10};
  return {training_optimizers(), {"libtorch", "hugepage"}, {text_rows, 200'000}, {128}, 8};
}

harness::AxisDefaults axes() { return {{"negatives", std::int64_t{5}}, {"optimizer", "Adam"}}; }

/// @throws UsageError for a value that is impossible
void require_cell(const Identity& id) {
  require_known(axis<std::string>(id, "optimizer"), "--suite embedding: --optimizer", training_optimizers());
  if (id.rows < 2) throw UsageError(fmt::format("--rows {}: at least 2 is needed", id.rows));
  const auto negatives = axis<std::int64_t>(id, "negatives");
  require_positive({{"--dim", id.dim}, {"--batch", id.batch}, {"--negatives", negatives}});
}

/// Every combination. Those that differ in placement only share rounds.
std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  const auto& text = text_of_run(options.text);
  const auto standard = preset(options.preset);
  if (!options.directions.empty() && !contains(options.directions, "step")) return {};
  std::vector<Identity> all{{.suite = "embedding",
                             .direction = "step",
                             .dtype = "float32",
                             .index_dtype = "int64",
                             .distribution = text.name,
                             .axes = axes()}};
  cross(all, step_devices(options), &Identity::device);
  cross(all, cores_of(options, machine), &Identity::cores);
  cross(all, given_or(options.rows, standard.rows), &Identity::rows);
  cross(all, given_or(options.dims, standard.dims), &Identity::dim);
  cross(all, given_or(options.batches, Counts{4096}), &Identity::batch);
  cross(all, given_or(options.negatives, Counts{5}), further_axis("negatives"));
  cross(all, given_or(options.optimizers, standard.optimizers), further_axis("optimizer"));
  auto cells = cells_of(all, standard.seconds);
  cross(cells, placements_asked_for(options, standard.placed, host_placements, gpu_placements),
        placement_axis);
  for (const auto& cell : cells) require_cell(cell.id);
  return cells;
}

void check_case(const Identity& id, const Options& options) {
  require_cell(id);
  const auto& text = text_of_run(options.text);
  if (text.refusal.empty() && id.distribution != text.name)
    throw UsageError(fmt::format("--case: the text is {}, not {}; name another with --text FILE", text.name,
                                 id.distribution));
}

/// Bytes of both tables, their states, and a dense gradient of each on the case's device, that are in the
/// GPU's memory or in the host's.
std::int64_t needs(const Identity& id, bool gpu) {
  const auto states =
      std::ssize(speedtorch::state_names(training_options(axis<std::string>(id, "optimizer"), id.batch)));
  const bool on_device = placement_of(id.placement) == speedtorch::Placement::device;
  const auto tables = on_device == gpu ? 1 + states : 0;
  return bytes_or_most(id, 2 * 4 * (tables + (on_gpu(id) == gpu ? 1 : 0)));
}

std::vector<AxisInfo> describe() {
  return {{"text", "any file", "the King James Bible, of Debian's package bible-kjv"},
          {"optimizer", training_optimizers(), "all"},
          {"placement",
           fmt::format("{}; with a GPU {}", fmt::join(host_placements, " "), fmt::join(gpu_placements, " ")),
           "libtorch hugepage; pinned device"},
          {"rows", "any number: the most frequent words are kept", "10k 200k"},
          {"dim", "any number", "128"},
          {"batch", "pairs a step", "4096"},
          {"negatives", "words drawn for each pair", "5"}};
}

const RegisterOption negatives_option{"--negatives LIST",
                                      "words drawn for each pair of --suite embedding (5)",
                                      option_reader::counts(&Options::negatives)};

const RegisterOption text_option{"--text FILE",
                                 "what --suite embedding trains on (King James Bible)",
                                 option_reader::text(&Options::text),
                                 {},
                                 {},
                                 /*rules=*/0};

const RegisterStepSuite registration{{
    .suite = {.name = "embedding",
              .summary = "word2vec on a real text: a training step, and whether it learns",
              .axes = axes(),
              .describe = describe,
              .tables = {reports::step_tables}},
    .host_placements = host_placements,
    .gpu_placements = gpu_placements,
    .cells = cells,
    .check_case = check_case,
    .needs = needs,
    .fixture = fixture_of<EmbeddingFixture>,
}};

}  // namespace
}  // namespace stbench::embedding_suite
