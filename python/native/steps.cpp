// Optimizer steps in place on tensors of Python: of whole parameters, and of the rows of a sparse gradient.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logical_or.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <variant>

#include "python/native/bindings.h"
#include "speedtorch/error.h"
#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/steps/sparse_step.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/optim/device_step.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Values = std::vector<double>;

/// The tensor in the strides of `like`: itself if it has them, else a copy.
at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& tensor) {
  if (tensor.strides() == like.strides() && !is_lazy(tensor)) return tensor;
  auto out = at::empty_like(like);
  out.copy_(tensor);
  return out;
}

/// torch's SGD keeps a sparse momentum for sparse gradients. @throws ShapeError
void check_state_layout(const at::Tensor& state, const std::string& name) {
  if (state.layout() == at::kStrided) return;
  throw ShapeError("the state " + name +
                   " is a sparse tensor, which torch's SGD makes of sparse gradients; " +
                   "a dense one is needed: replace it by its to_dense() in the state dict");
}

void check_operand(const at::Tensor& parameter, const at::Tensor& other, const std::string& name) {
  if (other.sizes() == parameter.sizes() && other.scalar_type() == parameter.scalar_type() &&
      other.device() == parameter.device() && other.layout() == at::kStrided)
    return;
  throw ShapeError(name + " is " + shape_of(other) + " on " + other.device().str() + ", its parameter " +
                   shape_of(parameter) + " on " + parameter.device().str() + "; both must be the same");
}

void check_parameter(const at::Tensor& parameter) {
  const bool floating = parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kDouble;
  if (!floating || parameter.layout() != at::kStrided) {
    throw ShapeError(
        "a parameter is " + shape_of(parameter) +
        "; a step takes strided float32 and float64 parameters (contiguous=True also takes float16 and "
        "bfloat16, with float32 masters)");
  }
  if (!parameter.is_cpu() && !parameter.is_cuda())
    throw PlacementError("a parameter is on " + parameter.device().str() +
                         "; a step works on cpu and on cuda");
  check_in_memory(parameter, "a parameter");
  check_writable(parameter, "a parameter");
}

template <class T>
void step_elements(const UpdateOptions& options, const at::Tensor& parameter, const at::Tensor& grad,
                   const std::vector<at::Tensor>& states, std::int64_t step) {
  kernels::StepTables<T> tables{parameter.data_ptr<T>(), {}, 1, parameter.numel()};
  for (std::size_t k = 0; k < states.size(); ++k) tables.states[k] = states[k].data_ptr<T>();
  const auto update = kernels::make_update<T>(options);
  if (grad.is_cuda()) return DeviceStep<T>::all(update, tables, grad, step);
  kernels::update_all(update, tables, grad.const_data_ptr<T>(), step, parallel_for);
}

/// Step `step` (from 1) of one parameter with a dense gradient.
void step_parameter(const UpdateOptions& options, const at::Tensor& parameter, const at::Tensor& grad,
                    const std::vector<at::Tensor>& states, std::int64_t step) {
  // One pass over memory needs one layout without gaps for all operands.
  const auto work = parameter.is_non_overlapping_and_dense() ? parameter : parameter.contiguous();
  std::vector<at::Tensor> work_states;
  for (const auto& state : states) work_states.push_back(laid_out_as(work, state));
  const auto work_grad = laid_out_as(work, grad);
  if (work.scalar_type() == at::kFloat)
    step_elements<float>(options, work, work_grad, work_states, step);
  else
    step_elements<double>(options, work, work_grad, work_states, step);
  if (!work.is_same(parameter))
    parameter.copy_(work);
  else
    bump_version(parameter);
  for (std::size_t k = 0; k < states.size(); ++k) {
    if (!work_states[k].is_same(states[k]))
      states[k].copy_(work_states[k]);
    else
      bump_version(states[k]);
  }
}

void check_dense(const UpdateOptions& options, const at::Tensor& parameter, const at::Tensor& grad,
                 const std::vector<at::Tensor>& states) {
  check_parameter(parameter);
  check_operand(parameter, grad, "a gradient");
  const auto names = state_names(options);
  if (names.size() != states.size()) {
    throw OptimizerError("the optimizer has " + std::to_string(names.size()) + " states of a parameter; " +
                         std::to_string(states.size()) + " were given");
  }
  for (std::size_t k = 0; k < states.size(); ++k) {
    check_state_layout(states[k], names[k]);
    check_operand(parameter, states[k], "the state " + names[k]);
    if (is_read_only(states[k])) refuse_read_only("the state " + names[k]);
  }
}

/// Parameters with the same step: the optimizer's name and the values of its options; then of each parameter
/// itself, its gradient, its states and the number of this step (from 1).
using Alike = std::tuple<std::string, Values, std::vector<at::Tensor>, std::vector<at::Tensor>,
                         std::vector<std::vector<at::Tensor>>, std::vector<std::int64_t>>;

/// @throws ShapeError, PlacementError, OptimizerError or OptionError for a step that cannot be done
void check_all(const std::vector<Alike>& all) {
  for (const auto& [name, values, parameters, grads, states, steps] : all) {
    const auto options = options_of(name, values);
    for (std::size_t k = 0; k < parameters.size(); ++k)
      check_dense(options, parameters[k], grads[k], states[k]);
  }
}

/// Steps the parameters of all groups. Checks all before it writes any.
void step_dense(const std::vector<Alike>& all) {
  const at::NoGradGuard unrecorded;
  check_all(all);
  for (const auto& [name, values, parameters, grads, states, steps] : all) {
    const auto options = options_of(name, values);
    for (std::size_t k = 0; k < parameters.size(); ++k)
      step_parameter(options, parameters[k], grads[k], states[k], steps[k]);
  }
}

/// The states, if all are dense. @throws ShapeError
std::vector<at::Tensor> dense_states(const UpdateOptions& options, std::vector<at::Tensor> states) {
  const auto names = state_names(options);
  for (std::size_t k = 0; k < std::min(names.size(), states.size()); ++k)
    check_state_layout(states[k], names[k]);
  return states;
}

/// The fused step of one table's rows; it keeps its buffers between steps.
class RowSteps {
 public:
  RowSteps(const at::Tensor& table, const std::string& name, const Values& values,
           std::vector<at::Tensor> states)
      : name_(name),
        rows_(table.detach(), options_of(name, values),
              dense_states(options_of(name, values), std::move(states))) {}

  /// True if it steps these tensors, so that another one is not needed.
  [[nodiscard]] bool steps(const at::Tensor& table, const std::string& name,
                           const std::vector<at::Tensor>& states) const {
    const auto same = [](const at::Tensor& a, const at::Tensor& b) {
      return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() &&
             a.scalar_type() == b.scalar_type();
    };
    const auto own = rows_.states();
    if (name != name_ || !same(rows_.table(), table) || own.size() != states.size()) return false;
    for (std::size_t k = 0; k < own.size(); ++k)
      if (!same(own[k].table, states[k])) return false;
    return true;
  }

  /// step() checks this too, but then other parameters of the optimizer may have stepped.
  /// @throws IndexError for an index that names no row
  void check(const at::Tensor& index) const {
    const auto rows = rows_.table().size(0);
    const auto wrong = at::logical_or(index.lt(0), index.ge(rows)).nonzero();
    if (wrong.size(0) == 0) return;
    const auto position = wrong[0].item<std::int64_t>();
    throw IndexError(position, index[position].item<std::int64_t>(), rows);
  }

  void step(const at::Tensor& index, const at::Tensor& grad, const Values& values, std::int64_t step) {
    const at::NoGradGuard unrecorded;
    rows_.set_options(options_of(name_, values));
    rows_.set_steps(step - 1);
    rows_.step(index.contiguous(), grad.detach().contiguous());
  }

 private:
  std::string name_;
  SparseRows rows_;
};

std::vector<std::pair<std::string, double>> states_of(const std::string& name, const Values& values) {
  std::vector<std::pair<std::string, double>> begins;
  for (auto& begin : state_begins(options_of(name, values))) begins.emplace_back(begin.name, begin.value);
  return begins;
}

}  // namespace

void bind_steps(py::module_& module) {
  using Released = py::call_guard<py::gil_scoped_release>;
  module.def("optimizer_names", &optimizer_names);
  module.def("option_names", &option_names);
  module.def("state_begins", &states_of);
  module.def("check_dense", &check_all, Released());
  module.def("step_dense", &step_dense, Released());
  py::class_<RowSteps>(module, "RowSteps")
      .def(py::init<const at::Tensor&, const std::string&, const Values&, std::vector<at::Tensor>>())
      .def("steps", &RowSteps::steps)
      .def("check", &RowSteps::check, Released())
      .def("step", &RowSteps::step, Released());
}

}  // namespace speedtorch::python
