/// Optimizers for LibTorch's training loops: ten of Python torch's, five of which LibTorch lacks (SparseAdam,
/// Adadelta, Adamax, ASGD, Rprop). Their updates are those of speedtorch/kernels/steps/updates.h.
///
///   speedtorch::optim::Adamax optimizer(model->parameters(), {.lr = 0.01});
///
/// They are `torch::optim::Optimizer`s and support parameter groups, closures, learning-rate schedulers,
/// torch::save and torch::load. A step makes one pass over parameter, gradient and states of each parameter,
/// on LibTorch's threads. docs/updates.md says what is equal to Python torch bit for bit.
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

/// The state of one parameter. An archive contains the states under torch's names, `step` and, if defined,
/// `row_steps`.
struct ParamState final : torch::optim::OptimizerCloneableParamState<ParamState> {
  std::int64_t step = 0;      ///< steps done
  std::vector<State> states;  ///< in the order of state_names(), each of the parameter's shape
  /// The count of each row, int64; undefined unless rows are counted. If defined, a step uses these counts
  /// instead of `step`. OptimizerFactory sets it.
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

/// The base class of all ten optimizers.
///
/// Parameters are float32 or float64 tensors of any shape and strides, on the CPU or a GPU (not yet run on a
/// GPU; check_index_errors() reports bad indices of sparse gradients there). Gradients are dense. SparseAdam
/// also takes gradients that are sparse in the first dimension and steps only the rows that they name; it
/// first sums the gradients of equal rows in their order.
class UpdateOptimizer : public torch::optim::Optimizer {
 public:
  ~UpdateOptimizer() override;
  UpdateOptimizer(UpdateOptimizer&&) noexcept;

  /// Calls the closure once, if given, with gradients enabled, and returns its loss. If it throws, nothing
  /// was written. @throws OptionError for invalid options of a group; ShapeError for a dtype or gradient that
  /// does not fit; PlacementError for a parameter on another kind of device
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Returns the name: "Adamax".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the options of a group of this optimizer.
  [[nodiscard]] virtual UpdateOptions options_of(const torch::optim::OptimizerParamGroup& group) const = 0;

 protected:
  UpdateOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                  std::unique_ptr<torch::optim::OptimizerOptions> defaults);

 private:
  class Work;
  /// Returns the state of a parameter and creates what is missing.
  ParamState& state_of(const at::Tensor& parameter, const UpdateOptions& options);
  void step_parameter(const at::Tensor& parameter, const UpdateOptions& options);

  std::unique_ptr<Work> work_;
};

template <class Options>
class OptimizerOf final : public UpdateOptimizer {
 public:
  /// @throws OptionError for invalid options
  explicit OptimizerOf(std::vector<at::Tensor> parameters, Options defaults = {})
      : OptimizerOf(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}
  /// A group without options takes the defaults.
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
