#include <ATen/core/grad_mode.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "python/native/bindings.h"
#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/contiguous/parameters.h"
#include "speedtorch/tensors.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Released = py::call_guard<py::gil_scoped_release>;
/// The parameters of a group and the values of its options.
using Group = std::pair<std::vector<at::Tensor>, std::vector<double>>;

ContiguousOptimizer new_optimizer(const std::string& name, const std::vector<Group>& given) {
  std::vector<ParameterGroup> groups;
  for (const auto& [parameters, values] : given)
    groups.push_back({.parameters = parameters, .options = options_of(name, values)});
  return {groups, *groups.at(0).options};
}

/// One value per parameter: true if it has a gradient that the next step takes. A gradient that is not zero
/// although nothing counted as a write was written without one (through `.data`, numpy or a raw pointer), and
/// is taken. Attaches detached gradients. @throws BufferError if a parameter was moved
std::vector<bool> used(ContiguousOptimizer& optimizer) {
  const at::NoGradGuard unrecorded;
  auto& parameters = optimizer.parameters();
  parameters.prepare_step();
  std::vector<bool> all(parameters.size());
  for (std::size_t k = 0; k < parameters.places().size(); ++k) {
    const auto number = parameters.places()[k].parameter;
    const auto& gradient = parameters.original()[number].grad();
    if (!parameters.used(k) && gradient.any().item<bool>()) bump_version(gradient);
    all[number] = parameters.used(k);
  }
  return all;
}

bool step(ContiguousOptimizer& optimizer, std::optional<double> max_norm, bool zero_grad) {
  used(optimizer);
  return optimizer.step({.max_norm = max_norm, .zero_grad = zero_grad});
}

using StateOfOne = std::pair<std::int64_t, std::vector<std::pair<std::string, at::Tensor>>>;

std::vector<StateOfOne> state(const ContiguousOptimizer& optimizer) {
  std::vector<StateOfOne> all;
  for (auto& one : optimizer.state()) all.emplace_back(one.steps, std::move(one.tensors));
  return all;
}

void set_state(ContiguousOptimizer& optimizer, const std::vector<StateOfOne>& given) {
  std::vector<ParameterState> all;
  for (const auto& [steps, tensors] : given) all.push_back({steps, tensors});
  optimizer.set_state(all);
}

void bind_parameters(py::module_& module) {
  using Parameters = ContiguousParameters;
  py::class_<Parameters>(module, "ContiguousParameters")
      .def(py::init([](std::vector<at::Tensor> parameters) { return Parameters(std::move(parameters)); }))
      .def("contiguous", &Parameters::contiguous)
      .def("original", &Parameters::original)
      .def("buffer_is_valid", &Parameters::buffer_is_valid)
      .def("assert_buffer_is_valid", &Parameters::assert_buffer_is_valid)
      .def("prepare_step", &Parameters::prepare_step, Released())
      .def("zero_grad", &Parameters::zero_grad, Released())
      .def("rebuild", &Parameters::rebuild, Released())
      .def("clip_grad_norm", &Parameters::clip_grad_norm, Released())
      .def("split", &Parameters::split)
      .def("join", &Parameters::join);
}

}  // namespace

void bind_contiguous(py::module_& module) {
  bind_parameters(module);
  py::class_<ContiguousOptimizer>(module, "ContiguousOptimizer")
      .def(py::init(&new_optimizer))
      .def("step", &step, Released())
      .def("used", &used, Released())
      .def("zero_grad", &ContiguousOptimizer::zero_grad, Released())
      .def("rebuild", &ContiguousOptimizer::rebuild, Released())
      .def("set_options",
           [](ContiguousOptimizer& optimizer, std::size_t group, const std::string& name,
              const std::vector<double>& values) { optimizer.set_options(group, options_of(name, values)); })
      .def("gradient_norm", &ContiguousOptimizer::gradient_norm)
      .def("state", &state, Released())
      .def("set_state", &set_state, Released())
      .def("buffer_is_valid",
           [](const ContiguousOptimizer& optimizer) { return optimizer.parameters().buffer_is_valid(); });
}

}  // namespace speedtorch::python
