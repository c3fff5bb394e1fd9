/// The fixture of a cell of the contiguous suite: the parameters of a model. Each method has its own copies
/// with the same values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/steps/step_suite.h"
#include "harness/span.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace stbench {

/// The parameters of a real model, a file in benchmarks/steps/shapes/.
struct ModelShape {
  std::string name;
  std::string source;
  std::vector<std::vector<std::int64_t>> parameters;
  [[nodiscard]] std::int64_t elements() const;
};
const std::vector<ModelShape>& model_shapes();

/// The parameters of a case: `even` ones of `dim` elements each, or a model's.
std::vector<std::vector<std::int64_t>> parameter_shapes(const reports::Identity& id);

/// A parameter with its gradient and states.
struct ParameterPlace {
  at::Tensor param, grad;
  std::vector<at::Tensor> states;
};

struct ContiguousFixture final : StepFixture {
  ContiguousFixture(const reports::Identity& id, const StepTerms& terms);

  /// Allocates float32 numbers on the device.
  [[nodiscard]] at::Tensor empty(at::IntArrayRef sizes) const;
  /// Parameters, gradients and states in separate memory each, or as views of one flat tensor per kind.
  [[nodiscard]] std::vector<ParameterPlace> places(bool flat) const;
  /// Fills values by their position among all elements.
  void fill_param(at::Tensor tensor, std::int64_t first) const;
  void fill_state(at::Tensor tensor, std::int64_t first, std::uint64_t state) const;

  /// Bytes that a step must read and write.
  [[nodiscard]] std::int64_t step_bytes() const;

  static constexpr std::int64_t steps_before = 10;

  reports::Identity id;
  at::Device device;  ///< of parameters, gradients and states
  std::uint64_t seed;
  speedtorch::UpdateOptions options;
  std::vector<std::string> state_names;
  double clip;  ///< the largest norm of all gradients; 0: no clipping
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::int64_t> firsts;  ///< the position of each parameter's first element
  std::int64_t elements = 0;
  at::Tensor gradient;                ///< all elements, in order, on the host
  std::vector<at::Tensor> gradients;  ///< the same on the device, one per parameter
  double scale = 1;                   ///< the factor by which clipping scales the gradients
};

/// A method. A step clips the gradients and zeroes them afterwards (if the case clips), and does the
/// optimizer's step.
class ContiguousStepper : public Stepper {
 public:
  ContiguousStepper(const reports::Identity& id, ContiguousFixture& fixture)
      : fixture_(fixture), method_(id.method) {}

  void remember(int set) override;
  harness::Check check(int set) override;
  std::string fingerprint(int set) override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return fixture_.step_bytes(); }

 protected:
  /// Does a part of a step, as a span in a trace.
  template <class Part>
  void part(std::string_view name, const Part& do_it) const {
    const harness::Span span(name, method_);
    do_it();
  }
  /// The gradients that a step with clipping must leave at zero.
  [[nodiscard]] virtual std::vector<at::Tensor> zeroed() const { return {}; }
  /// The parameters and their states as they are now.
  [[nodiscard]] virtual std::vector<ParameterPlace> now() = 0;
  /// The first parameter, not a copy.
  [[nodiscard]] virtual at::Tensor first() = 0;

  ContiguousFixture& fixture_;
  std::int64_t steps_ = ContiguousFixture::steps_before;

 private:
  void check_zeroed(harness::Check& check) const;
  /// The values of the checked elements: the parameter's, then its states'.
  [[nodiscard]] std::vector<double> look(const std::vector<ParameterPlace>& places) const;
  [[nodiscard]] std::vector<std::int64_t> looked_at(std::size_t parameter) const;

  std::string method_;
  std::vector<double> before_;
};

/// A method on the list of parameters as LibTorch allocates them.
class ListStepper : public ContiguousStepper {
 public:
  ListStepper(const reports::Identity& id, ContiguousFixture& fixture, bool flat = false);

  /// Restores the gradients after a step that scaled or zeroed them.
  void prepare(int set) override;

 protected:
  [[nodiscard]] std::vector<ParameterPlace> now() override { return places_; }
  [[nodiscard]] at::Tensor first() override { return places_.front().param; }

  std::vector<ParameterPlace> places_;
  std::vector<at::Tensor> params_, grads_;       ///< those of the places, as lists
  std::vector<std::vector<at::Tensor>> states_;  ///< one list per state
};

/// Clips a list by its norm as Python torch does, with foreach operations.
void foreach_clip(at::TensorList grads, double max_norm);

}  // namespace stbench
