/// Reads and replaces the states that an optimizer keeps for one parameter. Supports LibTorch's Adam, AdamW,
/// Adagrad, RMSprop and SGD, and the optimizers of speedtorch/optim/optimizers.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
class OptimizerParamState;
}  // namespace torch::optim

namespace speedtorch::optim {

/// Finds the parameter by identity (its TensorImpl), not by position or name.
class LiveStates {
 public:
  class Access;

  /// @throws OptimizerError if the optimizer does not have the parameter or is not supported
  LiveStates(torch::optim::Optimizer& optimizer, const at::Tensor& parameter);
  ~LiveStates();
  LiveStates(LiveStates&&) noexcept;
  LiveStates& operator=(LiveStates&&) noexcept;

  /// Current options of the parameter's group. They decide which states exist (state_begins()).
  [[nodiscard]] UpdateOptions options() const;
  /// "torch::optim::Adam", "speedtorch::optim::Adamax".
  [[nodiscard]] std::string optimizer_name() const;
  /// True if the optimizer can count the steps of each row.
  [[nodiscard]] bool counts_rows() const;

  /// Current states of the parameter, in the order of state_begins(). Empty before the first step or if one
  /// is missing.
  [[nodiscard]] std::vector<at::Tensor> tables() const;
  /// Number of steps done. Empty if the optimizer has no state or does not count (LibTorch's SGD).
  [[nodiscard]] std::optional<std::int64_t> steps() const;
  /// Steps of each row; undefined if rows are not counted.
  [[nodiscard]] at::Tensor row_steps() const;

  /// Sets the parameter's states, in the order of state_begins(), as if `steps` steps had been done. Define
  /// `row_steps` if rows are counted. LibTorch's SGD has no state before its first step, which sets the
  /// momentum to the gradient without dampening.
  void set(const std::vector<at::Tensor>& tables, std::int64_t steps, const at::Tensor& row_steps);

 private:
  [[nodiscard]] const torch::optim::OptimizerParamGroup& group() const;
  [[nodiscard]] torch::optim::OptimizerParamState* kept() const;

  torch::optim::Optimizer* optimizer_;
  at::Tensor parameter_;
  std::unique_ptr<Access> access_;
};

}  // namespace speedtorch::optim
