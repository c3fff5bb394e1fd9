/// The contiguous suite: an optimizer's step on all parameters of a model. Contestants are files in
/// benchmarks/contiguous/, the parameters of real models files in benchmarks/steps/shapes/.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "benchmarks/contiguous/world.h"
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

/// The seed clipped to this norm.
constexpr double seeds_clip = 0.1;

/// SparseAdam is of rows.
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

/// Parameters of one cell: as many even ones of so many elements, or a model's.
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
  if (name == "quick") return {{"Adam", "SGD"}, {many, {"linears"}}, {0, seeds_clip}, 4};
  if (name == "steps" && on_gpu)
    return {{"Adam"}, {ten, large, {"resnet-50"}, {"bert-base"}, {"gpt2-small"}}, {0}, 6};
  if (name == "steps")
    return {optimizers(), {small, many, large, {"resnet-50"}, {"bert-base"}, {"gpt2-small"}}, {0}, 6};
  if (name == "full") return {optimizers(), {small, many, {"linears"}, {"resnet-50"}}, {0, seeds_clip}, 10};
  return {{"Adam", "AdamW", "SGD", "Momentum", "Adagrad", "RMSprop"},
          {small, many, {"linears"}, {"resnet-50"}},
          {0, seeds_clip},
          5};
}

template <class T>
const T& axis(const Identity& id, const char* name) {
  return std::get<T>(*reports::find(id.axes, name));
}

/// The case's rows and dim are those of its model: the parameters, and the elements of each on average.
void fill_size(Identity& id) {
  const auto model = std::ranges::find(model_shapes(), axis<std::string>(id, "shape"), &ModelShape::name);
  if (model == model_shapes().end()) return;
  id.rows = std::ssize(model->parameters);
  id.dim = model->elements() / id.rows;
}

void require(const std::string& text, const std::string& option, const Names& known) {
  if (!contains(known, text)) throw UsageError(harness::unknown_name(text, option, known));
}

/// @throws UsageError where a value of the cell cannot be
void require_cell(const Identity& id) {
  require(axis<std::string>(id, "optimizer"), "--suite contiguous: --optimizer", optimizers());
  require(axis<std::string>(id, "shape"), "--shape", shape_names());
  if (!(axis<double>(id, "clip") >= 0) || !std::isfinite(axis<double>(id, "clip")))
    throw UsageError(
        fmt::format("clip={}: a norm, or 0 for no clipping, is needed", axis<double>(id, "clip")));
  for (const auto& [name, value] : {std::pair{"--rows", id.rows}, std::pair{"--dim", id.dim}}) {
    if (value < 1) throw UsageError(fmt::format("{} {}: at least 1 is needed", name, value));
  }
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
  std::vector<StepCell> all;
  if (!options.directions.empty() && !contains(options.directions, "step")) return all;
  if (!options.placements.empty() && !contains(options.placements, "libtorch")) return all;
  int group = 0;
  for (const auto& device : step_devices(options)) {
    const auto standard = preset(options.preset, device != "cpu");
    for (const auto cores : cores_of(options, machine)) {
      for (const auto& size : sizes_of(options, standard)) {
        for (const auto& optimizer : given_or(options.optimizers, standard.optimizers)) {
          for (const double clip : given_or(options.clips, standard.clips)) {
            Identity id{.suite = "contiguous",
                        .direction = "step",
                        .placement = "libtorch",
                        .device = device,
                        .dtype = "float32",
                        .rows = size.rows,
                        .dim = size.dim,
                        .cores = cores,
                        .axes = {{"clip", clip}, {"optimizer", optimizer}, {"shape", size.shape}}};
            require_cell(size.shape == "even" ? id : (fill_size(id), id));
            all.push_back({id, group++, standard.seconds});
          }
        }
      }
    }
  }
  return all;
}

StepCell cell_of_case(const Identity& given, const Options& /*options*/) {
  auto id = given;
  require_cell(id);
  fill_size(id);
  if (id != given)
    throw UsageError(fmt::format("--case: {} has {}×{}", axis<std::string>(id, "shape"), id.rows, id.dim));
  return {id, 0, 60};
}

/// Five copies of parameters, gradients and states: the three lists', the flat one's and ours; and gradients
/// to begin with. They lie on the case's device; the host has the gradients, and what is read of a parameter.
std::int64_t needs_of_device(const Identity& id) {
  const auto states =
      std::ssize(speedtorch::state_names(optimizer_named(axis<std::string>(id, "optimizer"))));
  return bytes_or_most(id, 4 * (1 + 5 * (2 + states)));
}

std::int64_t needs(const Identity& id) {
  return id.device == "cpu" ? needs_of_device(id) : bytes_or_most(id, 4 * 2);
}

std::vector<AxisInfo> describe() {
  return {{"optimizer", fmt::format("{}", fmt::join(optimizers(), " ")),
           "Adam AdamW SGD Momentum Adagrad RMSprop"},
          {"shape", fmt::format("{}", fmt::join(shape_names(), " ")), "even linears resnet-50"},
          {"rows", "tensors, any number", "160 1000"},
          {"dim", "elements of each", "256 1000"},
          {"clip", "a norm, 0 for none; with one, zeroing the gradients is in the step", "0 0.1"},
          {"device", "cpu cuda:N", "cpu"},
          {"cores", "1 to what the process may use", "all"}};
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
    .name = "contiguous",
    .summary = "an optimizer's step on all parameters of a model",
    .kind = harness::CaseKind::works,
    .axes = {{"clip", 0.0}, {"optimizer", "Adam"}, {"shape", "even"}},
    .presets = {"quick", "standard", "full", {"steps", "Judged by scripts/goals, with --suite optimizer."}},
    .describe = describe,
    .more = model_lines,
    .cells = cells,
    .cell_of_case = cell_of_case,
    .needs = needs,
    .gpu_needs = needs_of_device,
    .world = [](const Identity& id, const StepTerms& terms) -> std::unique_ptr<StepWorld> {
      return std::make_unique<ContiguousWorld>(id, terms);
    },
}};

}  // namespace
}  // namespace stbench::contiguous_suite
