/// Optimizers for LibTorch's training loops: the ten of Python torch that have an update body here
/// (speedtorch/kernels/steps/updates.h), five of which LibTorch lacks (SparseAdam, Adadelta, Adamax, ASGD,
/// Rprop).
///
///   speedtorch::optim::Adamax optimizer(model->parameters(), {.lr = 0.01});
///
/// They are `torch::optim::Optimizer`s: parameter groups, closures, learning-rate schedulers, torch::save and
/// torch::load. A step is one pass over parameter, gradient and states of each parameter, on LibTorch's
/// threads. docs/updates.md says what is equal to Python torch bit for bit.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/optim/state.h"

namespace speedtorch::optim {

/// What an optimizer keeps for one parameter. In an archive the states stand under torch's names, beside
/// `step` and, where there is one, `row_steps`.
struct ParamState final : torch::optim::OptimizerCloneableParamState<ParamState> {
  std::int64_t step = 0;      ///< how many were done
  std::vector<State> states;  ///< as state_names() has them, each of the parameter's shape
  /// Where it is defined, each row's own count of steps, int64: a step is then each row's next, and `step` is
  /// of no influence. OptimizerFactory sets it.
  at::Tensor row_steps;

  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// The options of one parameter group.
template <class Options>
struct GroupOptions final : torch::optim::OptimizerCloneableOptions<GroupOptions<Options>> {
  GroupOptions(Options given = {}) : values(given) {}
  explicit GroupOptions(double lr) { values.lr = lr; }

  Options values;

  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// What the optimizers have in common.
///
/// Parameters are float32 or float64 tensors on the CPU or a GPU (not yet run on a GPU; there, bad indices of
/// sparse gradients are told by check_index_errors()), of any shape and strides. Gradients are dense; those
/// of SparseAdam may be sparse in the first dimension, which makes the step one of the rows they name: copies
/// of a row are summed first, in the order in which they stand.
class UpdateOptimizer : public torch::optim::Optimizer {
 public:
  ~UpdateOptimizer() override;
  UpdateOptimizer(UpdateOptimizer&&) noexcept;

  /// The closure, where there is one, is called once, with gradients enabled, and its loss returned.
  /// @throws before anything is written: OptionError for numbers that the optimizer cannot have, of each
  /// group; ShapeError for a dtype or a gradient that does not fit; PlacementError for a parameter elsewhere.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// "Adamax".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Of a group of this optimizer.
  [[nodiscard]] virtual UpdateOptions options_of(const torch::optim::OptimizerParamGroup& group) const = 0;

 protected:
  UpdateOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                  std::unique_ptr<torch::optim::OptimizerOptions> defaults);

 private:
  class Work;
  /// What is kept for a parameter, with what is missing made.
  ParamState& state_of(const at::Tensor& parameter, const UpdateOptions& options);
  void step_parameter(const at::Tensor& parameter, const UpdateOptions& options);

  std::unique_ptr<Work> work_;
};

template <class Options>
class OptimizerOf final : public UpdateOptimizer {
 public:
  /// @throws OptionError for numbers that the optimizer cannot have
  explicit OptimizerOf(std::vector<at::Tensor> parameters, Options defaults = {})
      : OptimizerOf(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}
  /// A group without options has the defaults.
  explicit OptimizerOf(std::vector<torch::optim::OptimizerParamGroup> groups, Options defaults = {});

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] UpdateOptions options_of(const torch::optim::OptimizerParamGroup& group) const override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

using Adam = OptimizerOf<AdamOptions>;
using AdamW = OptimizerOf<AdamWOptions>;
using SparseAdam = OptimizerOf<SparseAdamOptions>;
using Adagrad = OptimizerOf<AdagradOptions>;
using RMSprop = OptimizerOf<RMSpropOptions>;
using SGD = OptimizerOf<SGDOptions>;
using Adadelta = OptimizerOf<AdadeltaOptions>;
using Adamax = OptimizerOf<AdamaxOptions>;
using ASGD = OptimizerOf<ASGDOptions>;
using Rprop = OptimizerOf<RpropOptions>;

}  // namespace speedtorch::optim
