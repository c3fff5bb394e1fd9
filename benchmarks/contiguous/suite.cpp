/// The contiguous suite: an optimizer's step on all parameters of a model. Its methods are files in
/// benchmarks/contiguous/, the parameters of real models files in benchmarks/steps/shapes/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/steps/reference_step.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/columns.h"
#include "reports/number.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::contiguous_suite {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

/// The norm that SpeedTorch's program clipped to.
constexpr double speedtorch_clip = 0.1;

/// All optimizers but SparseAdam, which works on rows.
Names optimizers() {
  auto names = optimizer_names();
  std::erase(names, "SparseAdam");
  return names;
}

Names shape_names() {
  Names names{"even"};
  for (const auto& model : model_shapes()) names.push_back(model.name);
  return names;
}

/// The parameters of one cell: `rows` even ones of `dim` elements each, or a model's.
struct Size {
  std::string shape = "even";
  std::int64_t rows = 0, dim = 0;
};

struct ContiguousPreset {
  Names optimizers;
  std::vector<Size> sizes;
  std::vector<double> clips;
  double seconds = 0;  ///< for one group
};

ContiguousPreset preset(const std::string& name, bool on_gpu) {
  const Size small{"even", 160, 256}, many{"even", 1000, 1000}, large{"even", 160, 162'500};
  const Size ten{"even", 10, 1024 * 1024};
  if (name == "quick") return {{"Adam", "SGD"}, {many, {"linears"}}, {0, speedtorch_clip}, 4};
  if (name == "steps" && on_gpu)
    return {{"Adam"}, {ten, large, {"resnet-50"}, {"bert-base"}, {"gpt2-small"}}, {0}, 6};
  if (name == "steps")
    return {optimizers(), {small, many, large, {"resnet-50"}, {"bert-base"}, {"gpt2-small"}}, {0}, 6};
  if (name == "full")
    return {optimizers(), {small, many, {"linears"}, {"resnet-50"}}, {0, speedtorch_clip}, 10};
  return {{"Adam", "AdamW", "SGD", "Momentum", "Adagrad", "RMSprop"},
          {small, many, {"linears"}, {"resnet-50"}},
          {0, speedtorch_clip},
          5};
}

harness::AxisDefaults axes() { return {{"clip", 0.0}, {"optimizer", "Adam"}, {"shape", "even"}}; }

/// Sets the case's rows and dim by its model: the number of parameters, and their average number of elements.
void fill_size(Identity& id) {
  const auto model = std::ranges::find(model_shapes(), axis<std::string>(id, "shape"), &ModelShape::name);
  if (model == model_shapes().end()) return;
  id.rows = std::ssize(model->parameters);
  id.dim = model->elements() / id.rows;
}

/// @throws UsageError for a value that is impossible
void require_cell(const Identity& id) {
  require_known(axis<std::string>(id, "optimizer"), "--suite contiguous: --optimizer", optimizers());
  if (!(axis<double>(id, "clip") >= 0) || !std::isfinite(axis<double>(id, "clip")))
    throw UsageError(
        fmt::format("clip={}: a norm, or 0 for no clipping, is needed", axis<double>(id, "clip")));
  require_positive({{"--rows", id.rows}, {"--dim", id.dim}});
}

std::vector<Size> sizes_of(const Options& options, const ContiguousPreset& standard) {
  const bool even = !options.rows.empty() || !options.dims.empty();
  if (options.shapes.empty() && !even) return standard.sizes;
  if (even && !options.shapes.empty() && !contains(options.shapes, "even"))
    throw UsageError("--rows and --dim are of --shape even; a model has its own shape");
  std::vector<Size> sizes;
  for (const auto& name : given_or(options.shapes, {"even"})) {
    if (name != "even") {
      sizes.push_back({name});
      continue;
    }
    for (const auto rows : given_or(options.rows, Counts{1000})) {
      for (const auto dim : given_or(options.dims, Counts{1000})) sizes.push_back({"even", rows, dim});
    }
  }
  return sizes;
}

std::vector<StepCell> cells(const Options& options, const harness::Machine& machine) {
  if (!options.directions.empty() && !contains(options.directions, "step")) return {};
  if (!options.placements.empty() && !contains(options.placements, "libtorch")) return {};
  const auto standard = [&](const Identity& id) { return preset(options.preset, on_gpu(id)); };
  std::vector<Identity> all{{.suite = "contiguous",
                             .direction = "step",
                             .placement = "libtorch",
                             .dtype = "float32",
                             .axes = axes()}};
  cross(all, step_devices(options), &Identity::device);
  cross(all, cores_of(options, machine), &Identity::cores);
  cross(
      all, [&](const Identity& id) { return sizes_of(options, standard(id)); },
      [](Identity& id, const Size& size) {
        id.rows = size.rows, id.dim = size.dim;
        reports::set(id.axes, "shape", size.shape);
      });
  cross(
      all, [&](const Identity& id) { return given_or(options.optimizers, standard(id).optimizers); },
      further_axis("optimizer"));
  cross(
      all, [&](const Identity& id) { return given_or(options.clips, standard(id).clips); },
      further_axis("clip"));
  for (auto& id : all) fill_size(id), require_cell(id);
  auto cells = cells_of(all, 0);
  for (auto& cell : cells) cell.seconds = standard(cell.id).seconds;
  return cells;
}

void check_case(const Identity& id, const Options& /*options*/) {
  require_cell(id);
  auto full = id;
  fill_size(full);
  if (full != id)
    throw UsageError(
        fmt::format("--case: {} has {}×{}", axis<std::string>(id, "shape"), full.rows, full.dim));
}

/// Bytes of five copies of parameters, gradients and states (three lists, a flat one, ours) and of the
/// initial gradients, on the case's device. The host has the gradients and what the check reads of a
/// parameter.
std::int64_t needs(const Identity& id, bool gpu) {
  if (!gpu && on_gpu(id)) return bytes_or_most(id, 4 * 2);
  const auto states =
      std::ssize(speedtorch::state_names(optimizer_named(axis<std::string>(id, "optimizer"))));
  return bytes_or_most(id, 4 * (1 + 5 * (2 + states)));
}

std::vector<AxisInfo> describe() {
  return {{"optimizer", optimizers(), "Adam AdamW SGD Momentum Adagrad RMSprop"},
          {"shape", shape_names(), "even linears resnet-50"},
          {"rows", "tensors, any number", "160 1000"},
          {"dim", "elements of each", "256 1000"},
          {"clip", "a norm, 0 for none; with one, zeroing the gradients is in the step", "0 0.1"}};
}

std::string model_lines() {
  std::string lines = "  shapes:\n";
  for (const auto& model : model_shapes())
    lines += fmt::format("    {:<12} {} tensors, {} elements\n                 {}\n", model.name,
                         model.parameters.size(), model.elements(), model.source);
  return lines;
}

/// Norms, and 0 for no clipping. @throws UsageError
void read_norms(Options& options, const std::string& text, const OptionSpec& spec) {
  options.clips.clear();
  for (const auto item : harness::split_list(text, spec.name)) {
    const auto norm = reports::real_from(item);
    if (!norm || !(*norm >= 0) || *norm > 1e30)
      throw UsageError(fmt::format("{} {}: a norm is needed, or 0 for no clipping", spec.name, item));
    options.clips.push_back(*norm);
  }
}

const RegisterOption clip_option{
    "--clip LIST", "norms that --suite contiguous clips to; 0: not at all (0, 0.1)", read_norms};

const RegisterOption shape_option{"--shape LIST",
                                  "models of --suite contiguous: resnet-50, ...; even: --rows × --dim",
                                  option_reader::names(&Options::shapes), shape_names};

const RegisterStepSuite registration{{
    .suite = {.name = "contiguous",
              .summary = "an optimizer's step on all parameters of a model",
              .kind = harness::CaseKind::works,
              .axes = axes(),
              .describe = describe,
              .presets = {"quick",
                          "standard",
                          "full",
                          {"steps", "Judged by scripts/goals, with --suite optimizer."}},
              .tables = {reports::step_tables},
              .more = model_lines},
    .cells = cells,
    .check_case = check_case,
    .needs = needs,
    .fixture = fixture_of<ContiguousFixture>,
}};

}  // namespace
}  // namespace stbench::contiguous_suite
