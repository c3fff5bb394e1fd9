#include "benchmarks/contiguous/fixture.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "benchmarks/steps/reference_step.h"
#include "benchmarks/steps/shape_files.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/tables/fills.h"

namespace stbench {
namespace {

using Shape = std::vector<std::int64_t>;

}  // namespace

std::int64_t ModelShape::elements() const {
  std::int64_t all = 0;
  for (const auto& shape : parameters) all += c10::multiply_integers(shape);
  return all;
}

const std::vector<ModelShape>& model_shapes() {
  static const auto all = [] {
    std::vector<ModelShape> shapes;
    for (const auto& [name, text] : shape_files()) {
      const auto json = nlohmann::json::parse(text);
      shapes.push_back({json.at("name"), json.at("source"), json.at("parameters")});
    }
    return shapes;
  }();
  return all;
}

std::vector<Shape> parameter_shapes(const reports::Identity& id) {
  const auto& name = axis<std::string>(id, "shape");
  const auto model = std::ranges::find(model_shapes(), name, &ModelShape::name);
  if (model != model_shapes().end()) return model->parameters;
  return std::vector<Shape>(static_cast<std::size_t>(id.rows), Shape{id.dim});
}

ContiguousFixture::ContiguousFixture(const reports::Identity& cell, const StepTerms& terms)
    : id(cell),
      device(cell.device),
      seed(terms.seed),
      options(optimizer_named(axis<std::string>(id, "optimizer"))),
      state_names(speedtorch::state_names(options)),
      clip(axis<double>(id, "clip")),
      shapes(parameter_shapes(id)) {
  for (const auto& shape : shapes)
    firsts.push_back(std::exchange(elements, elements + c10::multiply_integers(shape)));
  gradient = at::empty({elements});
  speedtorch::fill(gradient, speedtorch::Uniform{-1.0, 1.0, seed + 100});
  const auto there = gradient.to(device);
  for (std::size_t k = 0; k < shapes.size(); ++k)
    gradients.push_back(there.narrow(0, firsts[k], c10::multiply_integers(shapes[k])).view(shapes[k]));
  if (clip == 0) return;
  const double norm =
      at::linalg_vector_norm(gradient, 2, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
  scale = std::min(1.0, clip / (norm + 1e-6));
}

at::Tensor ContiguousFixture::empty(at::IntArrayRef sizes) const {
  return at::empty(sizes, at::TensorOptions(device).dtype(at::kFloat));
}

void ContiguousFixture::fill_param(at::Tensor tensor, std::int64_t first) const {
  speedtorch::fill(tensor, speedtorch::Uniform{-0.1, 0.1, seed}, first);
}

void ContiguousFixture::fill_state(at::Tensor tensor, std::int64_t first, std::uint64_t state) const {
  speedtorch::fill(tensor, speedtorch::Uniform{0.5, 1.0, seed + 1 + state}, first);
}

std::vector<ParameterPlace> ContiguousFixture::places(bool flat) const {
  const auto memory = [&](std::size_t k, const at::Tensor& whole) {
    return flat ? whole.narrow(0, firsts[k], c10::multiply_integers(shapes[k])).view(shapes[k])
                : empty(shapes[k]);
  };
  const auto buffer = [&] { return flat ? empty({elements}) : at::Tensor(); };
  const auto params = buffer(), grads = buffer();
  std::vector<at::Tensor> states;
  for (std::size_t s = 0; s < state_names.size(); ++s) states.push_back(buffer());
  std::vector<ParameterPlace> places;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    ParameterPlace place{memory(k, params), memory(k, grads).copy_(gradients[k]), {}};
    fill_param(place.param, firsts[k]);
    for (std::size_t s = 0; s < states.size(); ++s) {
      place.states.push_back(memory(k, states[s]));
      fill_state(place.states.back(), firsts[k], s);
    }
    places.push_back(std::move(place));
  }
  return places;
}

/// The first and the last element of each parameter and some evenly between; all elements of a small model.
std::vector<std::int64_t> ContiguousStepper::looked_at(std::size_t parameter) const {
  constexpr std::int64_t most = 200'000;
  const auto count = c10::multiply_integers(fixture_.shapes[parameter]);
  const auto stride = std::max<std::int64_t>(1, fixture_.elements / most);
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < count; i += stride) elements.push_back(i);
  if (count > 0 && elements.back() != count - 1) elements.push_back(count - 1);
  return elements;
}

std::vector<double> ContiguousStepper::look(const std::vector<ParameterPlace>& places) const {
  std::vector<double> values;
  for (std::size_t k = 0; k < places.size(); ++k) {
    std::vector<at::Tensor> tensors{places[k].param.detach().to(at::kCPU)};
    for (const auto& state : places[k].states) tensors.push_back(state.to(at::kCPU));
    for (const auto i : looked_at(k)) {
      for (const auto& tensor : tensors) values.push_back(tensor.const_data_ptr<float>()[i]);
    }
  }
  return values;
}

/// A step reads parameters, gradients and states and writes parameters and states. A norm reads the gradients
/// once more, and zeroing writes them.
std::int64_t ContiguousFixture::step_bytes() const {
  const auto states = static_cast<std::int64_t>(state_names.size());
  return elements * static_cast<std::int64_t>(sizeof(float)) * (3 + 2 * states + (clip > 0 ? 2 : 0));
}

void ContiguousStepper::remember(int /*set*/) { before_ = look(now()); }

harness::Check ContiguousStepper::check(int /*set*/) {
  constexpr double of_value = 1e-6, of_change = 1e-4;
  const auto after = look(now());
  const std::size_t width = 1 + fixture_.state_names.size();
  const auto* gradient = fixture_.gradient.const_data_ptr<float>();
  harness::Check check;
  std::size_t at = 0;
  for (std::size_t k = 0; k < fixture_.shapes.size(); ++k) {
    for (const auto i : looked_at(k)) {
      std::vector<double> right(before_.begin() + static_cast<std::ptrdiff_t>(at),
                                before_.begin() + static_cast<std::ptrdiff_t>(at + width));
      const double grad = gradient[fixture_.firsts[k] + i] * fixture_.scale;
      reference_step(fixture_.options, steps_, right[0], grad, std::span(right).subspan(1));
      ++check.rows;
      for (std::size_t t = 0; t < width; ++t, ++at) {
        const double was = before_[at], is = after[at];
        const double slack =
            of_value * std::max(std::abs(right[t]), std::abs(was)) + of_change * std::abs(right[t] - was);
        if (std::abs(is - right[t]) <= slack) continue;
        if (check.mismatches++ == 0)
          check.first =
              fmt::format("element {} of {} of parameter {}: {} instead of {}, {} before", i,
                          t == 0 ? "the values" : fixture_.state_names[t - 1], k, is, right[t], was);
      }
    }
  }
  if (fixture_.clip > 0) check_zeroed(check);
  check.mismatches = std::min(check.mismatches, check.rows);
  return check;
}

void ContiguousStepper::check_zeroed(harness::Check& check) const {
  for (const auto& gradient : zeroed()) {
    const auto left = gradient.count_nonzero().item<std::int64_t>();
    if (left == 0) continue;
    if (check.mismatches == 0) check.first = fmt::format("{} elements of the gradients are not zeroed", left);
    check.mismatches += left;
  }
}

std::string ContiguousStepper::fingerprint(int /*set*/) {
  constexpr std::int64_t enough = 64;  // elements
  const auto values = first().detach().flatten();
  const auto seen = values.narrow(0, 0, std::min(enough, values.numel())).to(at::kCPU);
  return {static_cast<const char*>(seen.const_data_ptr()), seen.nbytes()};
}

ListStepper::ListStepper(const reports::Identity& id, ContiguousFixture& fixture, bool flat)
    : ContiguousStepper(id, fixture), places_(fixture.places(flat)), states_(fixture.state_names.size()) {
  for (const auto& place : places_) {
    params_.push_back(place.param), grads_.push_back(place.grad);
    for (std::size_t s = 0; s < states_.size(); ++s) states_[s].push_back(place.states[s]);
  }
}

void ListStepper::prepare(int /*set*/) {
  if (fixture_.clip > 0) at::_foreach_copy_(grads_, fixture_.gradients);
}

void foreach_clip(at::TensorList grads, double max_norm) {
  const auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads)));
  at::_foreach_mul_(grads, norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0));
}

}  // namespace stbench
