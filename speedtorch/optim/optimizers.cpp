// The class template provides types and archives. The step is implemented once, on the variant of options.

#include "speedtorch/optim/optimizers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <optional>

#include "speedtorch/error.h"
#include "speedtorch/kernels/steps/sparse_step.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/optim/device_step.h"
#include "speedtorch/optim/option_fields.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch::optim {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kRowSteps = "row_steps";

/// Returns the tensor in the strides of `like`: itself if they are equal, else a copy.
at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& tensor) {
  if (tensor.strides() == like.strides()) return tensor;
  auto out = at::empty_like(like);
  out.copy_(tensor);
  return out;
}

/// The kernel's tables of a parameter and its states, which share one layout.
template <class T>
kernels::StepTables<T> tables_of(const at::Tensor& parameter, const ParamState& state, std::size_t states,
                                 bool by_rows) {
  const auto rows = by_rows ? parameter.size(0) : 1;
  kernels::StepTables<T> tables{
      parameter.data_ptr<T>(), {}, rows, parameter.numel() / std::max<std::int64_t>(rows, 1)};
  for (std::size_t k = 0; k < states; ++k) tables.states[k] = state.states[k].table.data_ptr<T>();
  return tables;
}

/// The rows of a step and one gradient per row.
struct Rows {
  at::Tensor index;  ///< int64
  at::Tensor grad;
};

Rows rows_of(const at::Tensor& grad) {
  if (grad.is_sparse()) {
    return {resolved(grad._indices().select(0, 0)).contiguous(), resolved(grad._values()).contiguous()};
  }
  return {at::arange(grad.size(0), at::kLong), grad.contiguous()};
}

void check_parameter(const at::Tensor& parameter, const std::string& name) {
  if (!parameter.is_cpu() && !parameter.is_cuda()) {
    throw PlacementError("a parameter is on " + parameter.device().str() + "; " + name +
                         " works on cpu tensors and on cuda tensors");
  }
  check_in_memory(parameter, "a parameter");
  check_writable(parameter, "a parameter");
  const bool floating = parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kDouble;
  if (!floating || parameter.layout() != at::kStrided)
    throw ShapeError("a parameter is " + shape_of(parameter) + "; " + name + " works on float32 and float64");
}

void check_grad(const at::Tensor& parameter, const std::string& name) {
  const auto& grad = parameter.grad();
  if (grad.sizes() != parameter.sizes() || grad.scalar_type() != parameter.scalar_type()) {
    throw ShapeError("a gradient is " + shape_of(grad) + ", its parameter " + shape_of(parameter) +
                     "; both must be the same");
  }
  if (grad.layout() == at::kStrided) return;
  if (name != optimizer_name<SparseAdamOptions>())
    throw ShapeError(name + " takes dense gradients; SparseAdam and SparseRows take sparse ones");
  if (grad.layout() != at::kSparse || grad.sparse_dim() != 1)
    throw ShapeError("a sparse gradient needs to be sparse in its first dimension and in no other");
}

void check_state(const ParamState& state, const at::Tensor& parameter) {
  for (const auto& [name, table] : state.states) {
    if (is_lazy(table)) refuse_lazy(table, "the state " + name);
    if (table.sizes() == parameter.sizes() && table.scalar_type() == parameter.scalar_type() &&
        table.device() == parameter.device())
      continue;
    throw ShapeError("the state " + name + " is " + shape_of(table) + " on " + table.device().str() +
                     ", its parameter " + shape_of(parameter) + "; both must be the same");
  }
  const auto& counts = state.row_steps;
  if (!counts.defined()) return;
  check_in_memory(counts, "row_steps");
  const bool fits = counts.scalar_type() == at::kLong && counts.dim() == 1 && parameter.dim() > 0 &&
                    counts.size(0) == parameter.size(0) && counts.is_contiguous() && counts.is_cpu() &&
                    parameter.is_cpu();
  if (!fits) {
    throw ShapeError("row_steps is " + shape_of(counts) + ", the parameter " + shape_of(parameter) +
                     "; a contiguous int64 number for each row is needed, and both on cpu");
  }
}

}  // namespace

void ParamState::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write(kStep, c10::IValue(step));
  for (const auto& [name, table] : states) archive.write(name, c10::IValue(table));
  if (row_steps.defined()) archive.write(kRowSteps, c10::IValue(row_steps));
}

void ParamState::serialize(torch::serialize::InputArchive& archive) {
  states.clear();
  for (const auto& key : archive.keys()) {
    c10::IValue value;
    archive.read(key, value);
    if (key == kStep)
      step = value.toInt();
    else if (key == kRowSteps)
      row_steps = value.toTensor();
    else
      states.push_back({key, value.toTensor()});
  }
}

template <class Options>
void GroupOptions<Options>::serialize(torch::serialize::OutputArchive& archive) const {
  for_each_option(values,
                  [&](const char* name, const auto& value) { archive.write(name, c10::IValue(value)); });
}

template <class Options>
void GroupOptions<Options>::serialize(torch::serialize::InputArchive& archive) {
  for_each_option(values, [&]<class T>(const char* name, T& value) {
    c10::IValue found;
    archive.read(name, found);
    value = found.to<T>();
  });
}

/// The fused steps of both dtypes. Their scratch memory is reused by later steps.
class UpdateOptimizer::Work {
 public:
  /// Steps a parameter in its memory layout; states and gradient have the same layout.
  template <class T>
  void step(const at::Tensor& parameter, const at::Tensor& grad, const ParamState& state,
            const UpdateOptions& options, std::size_t states) {
    const auto update = kernels::make_update<T>(options);
    const bool by_rows = grad.is_sparse() || state.row_steps.defined();
    const auto tables = tables_of<T>(parameter, state, states, by_rows);
    if (!by_rows) return step_all(update, tables, grad, state.step + 1);
    const auto rows = rows_of(grad);
    if (grad.is_cuda())
      return std::get<DeviceStep<T>>(on_gpu_).rows(update, tables, rows.index, rows.grad, state.step + 1);
    auto& fused = of<T>(update, tables);
    const auto* const index = rows.index.template const_data_ptr<std::int64_t>();
    const auto* const gradients = rows.grad.template const_data_ptr<T>();
    const auto& counts = state.row_steps;
    const auto steps = counts.defined() ? kernels::RowSteps(nullptr, counts.data_ptr<std::int64_t>())
                                        : kernels::RowSteps(state.step + 1);
    fused.run(index, rows.index.numel(), gradients, steps, parallel_for);
  }

 private:
  template <class T>
  static void step_all(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
                       const at::Tensor& grad, std::int64_t step) {
    if (grad.is_cuda()) return DeviceStep<T>::all(update, tables, grad, step);
    kernels::update_all(update, tables, grad.const_data_ptr<T>(), step, parallel_for);
  }

  template <class T>
  kernels::SparseStep<T>& of(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables) {
    auto& fused = std::get<std::optional<kernels::SparseStep<T>>>(steps_);
    if (!fused) return fused.emplace(update, tables);
    fused->set_update(update);
    fused->set_tables(tables);
    return *fused;
  }

  std::tuple<std::optional<kernels::SparseStep<float>>, std::optional<kernels::SparseStep<double>>> steps_;
  std::tuple<DeviceStep<float>, DeviceStep<double>> on_gpu_;
};

UpdateOptimizer::UpdateOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                                 std::unique_ptr<torch::optim::OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)), work_(std::make_unique<Work>()) {}

UpdateOptimizer::~UpdateOptimizer() = default;
UpdateOptimizer::UpdateOptimizer(UpdateOptimizer&&) noexcept = default;

ParamState& UpdateOptimizer::state_of(const at::Tensor& parameter, const UpdateOptions& options) {
  auto& kept = state_[parameter.unsafeGetTensorImpl()];
  if (!kept) kept = std::make_unique<ParamState>();
  auto& state = static_cast<ParamState&>(*kept);
  // The update needs its own order; archives and factories may have another.
  const auto begins = state_begins(options);
  for (std::size_t k = 0; k < begins.size(); ++k) {
    const auto from = state.states.begin() + static_cast<std::ptrdiff_t>(k);
    const auto found =
        std::find_if(from, state.states.end(), [&](const State& s) { return s.name == begins[k].name; });
    if (found == state.states.end())
      state.states.insert(from, {begins[k].name, at::full_like(parameter.detach(), begins[k].value)});
    else
      std::rotate(from, found, found + 1);
  }
  return state;
}

at::Tensor UpdateOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const c10::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const c10::AutoGradMode without_gradients(false);
  const auto each = [this](auto action) {
    for (const auto& group : param_groups_) {
      const auto options = options_of(group);
      for (const auto& parameter : group.params())
        if (parameter.grad().defined()) action(parameter, options);
    }
  };
  each([this](const at::Tensor& parameter, const UpdateOptions& options) {
    check_options(options);
    check_parameter(parameter, name());
    check_grad(parameter, name());
    const auto found = state_.find(parameter.unsafeGetTensorImpl());
    if (found != state_.end()) check_state(static_cast<const ParamState&>(*found->second), parameter);
  });
  each([this](const at::Tensor& parameter, const UpdateOptions& options) {
    step_parameter(parameter, options);
  });
  return loss;
}

void UpdateOptimizer::step_parameter(const at::Tensor& parameter, const UpdateOptions& options) {
  auto& state = state_of(parameter, options);
  const auto states = state_names(options).size();
  auto grad = parameter.grad();
  const bool by_rows = grad.is_sparse() || state.row_steps.defined();
  // A step of all elements accepts any dense layout; a step of rows needs contiguous rows.
  const bool in_place = by_rows ? parameter.is_contiguous() : parameter.is_non_overlapping_and_dense();
  const auto work = in_place ? parameter.detach() : parameter.detach().contiguous();
  for (std::size_t k = 0; k < states; ++k) state.states[k].table = laid_out_as(work, state.states[k].table);
  if (!grad.is_sparse()) grad = laid_out_as(work, resolved(grad));
  if (work.scalar_type() == at::kFloat)
    work_->step<float>(work, grad, state, options, states);
  else
    work_->step<double>(work, grad, state, options, states);
  ++state.step;
  for (std::size_t k = 0; k < states; ++k) bump_version(state.states[k].table);
  if (in_place)
    bump_version(parameter);
  else
    parameter.detach().copy_(work);
}

template <class Options>
OptimizerOf<Options>::OptimizerOf(std::vector<torch::optim::OptimizerParamGroup> groups, Options defaults)
    : UpdateOptimizer(std::move(groups), std::make_unique<GroupOptions<Options>>(defaults)) {
  check_options(defaults);
  for (const auto& group : param_groups()) check_options(options_of(group));
}

template <class Options>
std::string OptimizerOf<Options>::name() const {
  return optimizer_name<Options>();
}

template <class Options>
UpdateOptions OptimizerOf<Options>::options_of(const torch::optim::OptimizerParamGroup& group) const {
  const auto* const options = dynamic_cast<const GroupOptions<Options>*>(&group.options());
  if (options == nullptr)
    throw OptimizerError("a parameter group of " + name() + " has the options of another optimizer");
  return options->values;
}

template <class Options>
void OptimizerOf<Options>::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<ParamState, GroupOptions<Options>>(archive, *this);
}

template <class Options>
void OptimizerOf<Options>::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<ParamState, GroupOptions<Options>>(archive, *this);
}

template class OptimizerOf<AdamOptions>;
template class OptimizerOf<AdamWOptions>;
template class OptimizerOf<SparseAdamOptions>;
template class OptimizerOf<AdagradOptions>;
template class OptimizerOf<RMSpropOptions>;
template class OptimizerOf<SGDOptions>;
template class OptimizerOf<AdadeltaOptions>;
template class OptimizerOf<AdamaxOptions>;
template class OptimizerOf<ASGDOptions>;
template class OptimizerOf<RpropOptions>;

}  // namespace speedtorch::optim
