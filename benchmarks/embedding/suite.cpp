/// The embedding suite: word2vec (skip-gram with negative sampling) on a real text, a whole training step at
/// a time: forward pass, gradients, and the update of two tables. Contestants are files in
/// benchmarks/embedding/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/embedding/world.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/columns.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::embedding_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

const Names host_placements{"libtorch", "pageable", "hugepage", "mapped"};
/// A GPU trains tables that it reads and writes by itself.
const Names gpu_placements{"pinned", "device"};
/// The standard text has 12,762 different words, of which the rarest stand there once.
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

void require(const std::string& text, const std::string& option, const Names& known) {
  if (!contains(known, text)) throw UsageError(harness::unknown_name(text, option, known));
}

/// @throws UsageError where a value of the cell cannot be
void require_cell(const Identity& id) {
  require(std::get<std::string>(*reports::find(id.axes, "optimizer")), "--suite embedding: --optimizer",
          training_optimizers());
  const auto negatives = std::get<std::int64_t>(*reports::find(id.axes, "negatives"));
  const std::pair<const char*, std::int64_t> least[] = {
      {"--rows", id.rows}, {"--dim", id.dim}, {"--batch", id.batch}, {"--negatives", negatives}};
  for (const auto& [name, value] : least) {
    const std::int64_t low = std::string_view(name) == "--rows" ? 2 : 1;
    if (value < low) throw UsageError(fmt::format("{} {}: at least {} is needed", name, value, low));
  }
}

std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  const auto& text = text_of_run(options.text);
  const auto standard = preset(options.preset);
  std::vector<StepCell> all;
  int group = 0;
  const auto add = [&](Identity id) {
    const bool on_host = id.device == "cpu";
    const auto& placements = on_host ? host_placements : gpu_placements;
    for (const auto& placement : given_or(options.placements, on_host ? standard.placed : gpu_placements)) {
      if (!contains(placements, placement)) continue;
      id.placement = placement;
      require_cell(id);
      all.push_back({id, group, standard.seconds});
    }
    ++group;
  };
  if (!options.directions.empty() && !contains(options.directions, "step")) return all;
  for (const auto& device : step_devices(options)) {
    for (const auto cores : cores_of(options, machine)) {
      for (const auto rows : given_or(options.rows, standard.rows)) {
        for (const auto dim : given_or(options.dims, standard.dims)) {
          for (const auto batch : given_or(options.batches, Counts{4096})) {
            for (const auto negatives : given_or(options.negatives, Counts{5})) {
              for (const auto& optimizer : given_or(options.optimizers, standard.optimizers)) {
                add({.suite = "embedding",
                     .direction = "step",
                     .device = device,
                     .dtype = "float32",
                     .index_dtype = "int64",
                     .distribution = text.name,
                     .rows = rows,
                     .dim = dim,
                     .batch = batch,
                     .cores = cores,
                     .axes = {{"negatives", negatives}, {"optimizer", optimizer}}});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

StepCell cell_of_case(const Identity& id, const Options& options) {
  require_cell(id);
  const auto& text = text_of_run(options.text);
  if (text.refusal.empty() && id.distribution != text.name)
    throw UsageError(fmt::format("--case: the text is {}, not {}; name another with --text FILE", text.name,
                                 id.distribution));
  return {id, 0, 60};
}

/// Of both tables and their states, and of a dense gradient of each on the case's device, those in the memory
/// of the GPU or of the host.
std::int64_t needed_in(bool gpu, const Identity& id) {
  const auto states = std::ssize(speedtorch::state_names(
      training_options(std::get<std::string>(*reports::find(id.axes, "optimizer")), id.batch)));
  const auto tables = (id.placement == "device") == gpu ? 1 + states : 0;
  return bytes_or_most(id, 2 * 4 * (tables + ((id.device != "cpu") == gpu ? 1 : 0)));
}

std::vector<AxisInfo> describe() {
  return {{"text", "any file", "the King James Bible, of Debian's package bible-kjv"},
          {"optimizer", fmt::format("{}", fmt::join(training_optimizers(), " ")), "all"},
          {"placement",
           fmt::format("{}; with a GPU {}", fmt::join(host_placements, " "), fmt::join(gpu_placements, " ")),
           "libtorch hugepage; pinned device"},
          {"rows", "any number: the most frequent words are kept", "10k 200k"},
          {"dim", "any number", "128"},
          {"batch", "pairs a step", "4096"},
          {"negatives", "words drawn for each pair", "5"},
          {"device", "cpu cuda:N", "cpu"},
          {"cores", "1 to what the process may use", "all"}};
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
    .name = "embedding",
    .summary = "word2vec on a real text: a training step, and whether it learns",
    .axes = {{"negatives", std::int64_t{5}}, {"optimizer", "Adam"}},
    .presets = {"quick", "standard", "full"},
    .host_placements = host_placements,
    .gpu_placements = gpu_placements,
    .describe = describe,
    .cells = cells,
    .cell_of_case = cell_of_case,
    .needs = [](const Identity& id) { return needed_in(false, id); },
    .gpu_needs = [](const Identity& id) { return needed_in(true, id); },
    .world = [](const Identity& id, const StepTerms& terms) -> std::unique_ptr<StepWorld> {
      return std::make_unique<EmbeddingWorld>(id, terms);
    },
}};

}  // namespace
}  // namespace stbench::embedding_suite
