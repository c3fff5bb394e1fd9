/// What the contestants of a cell of the contiguous suite step: the parameters of a model, each of them with
/// copies of its own, all with the same values.
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

/// Those of a case: `even` ones of `dim` elements, or a model's.
std::vector<std::vector<std::int64_t>> parameter_shapes(const reports::Identity& id);

/// A parameter and what belongs to it.
struct ParameterPlace {
  at::Tensor param, grad;
  std::vector<at::Tensor> states;
};

struct ContiguousFixture final : StepFixture {
  ContiguousFixture(const reports::Identity& id, const StepTerms& terms);

  /// Memory for float32 numbers on the device.
  [[nodiscard]] at::Tensor empty(at::IntArrayRef sizes) const;
  /// Parameters, gradients and states in memory of their own, or as views of one tensor each.
  [[nodiscard]] std::vector<ParameterPlace> places(bool flat) const;
  /// Values by their position among all elements.
  void fill_param(at::Tensor tensor, std::int64_t first) const;
  void fill_state(at::Tensor tensor, std::int64_t first, std::uint64_t state) const;

  /// Bytes that a step reads and writes at the least.
  [[nodiscard]] std::int64_t step_bytes() const;

  static constexpr std::int64_t steps_before = 10;

  reports::Identity id;
  at::Device device;  ///< of parameters, gradients and states
  std::uint64_t seed;
  speedtorch::UpdateOptions options;
  std::vector<std::string> state_names;
  double clip;  ///< the largest norm of all gradients; 0: they are not clipped
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::int64_t> firsts;  ///< of each parameter, its first element's position
  std::int64_t elements = 0;
  at::Tensor gradient;                ///< of all elements, in order, on the host
  std::vector<at::Tensor> gradients;  ///< the same on the device, one a parameter
  double scale = 1;                   ///< that clipping multiplies the gradients by
};

/// A contestant. A step is clipping (where the case has it, and then also zeroing the gradients) and the
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
  /// Does a part of a step: a span in a trace.
  template <class Part>
  void part(std::string_view name, const Part& do_it) const {
    const harness::Span span(name, method_);
    do_it();
  }
  /// The gradients that a step with clipping must leave at zero; those of the others are set to none.
  [[nodiscard]] virtual std::vector<at::Tensor> zeroed() const { return {}; }
  /// Where the parameters and their states are now.
  [[nodiscard]] virtual std::vector<ParameterPlace> now() = 0;
  /// The first parameter, without making copies of anything.
  [[nodiscard]] virtual at::Tensor first() = 0;

  ContiguousFixture& fixture_;
  std::int64_t steps_ = ContiguousFixture::steps_before;

 private:
  void check_zeroed(harness::Check& check) const;
  /// Values of the elements that are looked at: the parameter's, then its states'.
  [[nodiscard]] std::vector<double> look(const std::vector<ParameterPlace>& places) const;
  [[nodiscard]] std::vector<std::int64_t> looked_at(std::size_t parameter) const;

  std::string method_;
  std::vector<double> before_;
};

/// One of those that work on the list of parameters as LibTorch allocates them.
class ListStepper : public ContiguousStepper {
 public:
  ListStepper(const reports::Identity& id, ContiguousFixture& fixture, bool flat = false)
      : ContiguousStepper(id, fixture), places_(fixture.places(flat)) {}

  /// The gradients as they were, after a step that scaled or zeroed them.
  void prepare(int set) override;

 protected:
  [[nodiscard]] std::vector<ParameterPlace> now() override { return places_; }
  [[nodiscard]] at::Tensor first() override { return places_.front().param; }
  [[nodiscard]] std::vector<at::Tensor> params() const;
  [[nodiscard]] std::vector<at::Tensor> grads() const;
  [[nodiscard]] std::vector<at::Tensor> states(std::size_t number) const;

  std::vector<ParameterPlace> places_;
};

/// Python torch's way to clip a list by its norm, in foreach operations.
void foreach_clip(at::TensorList grads, double max_norm);

}  // namespace stbench
