/// The states that an optimizer keeps for one parameter, whichever optimizer it is: LibTorch's Adam, AdamW,
/// Adagrad, RMSprop and SGD, and ours.
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

/// Finds the parameter by what it is (its TensorImpl), never by its place or name.
class LiveStates {
 public:
  class Access;

  /// @throws OptimizerError where the optimizer does not have the parameter, or is of another kind
  LiveStates(torch::optim::Optimizer& optimizer, const at::Tensor& parameter);
  ~LiveStates();
  LiveStates(LiveStates&&) noexcept;
  LiveStates& operator=(LiveStates&&) noexcept;

  /// Of the parameter's group, now: of which states there are (state_begins()).
  [[nodiscard]] UpdateOptions options() const;
  /// "torch::optim::Adam", "speedtorch::optim::Adamax".
  [[nodiscard]] std::string optimizer_name() const;
  /// Whether the optimizer can count the steps of each row.
  [[nodiscard]] bool counts_rows() const;

  /// The parameter's state tables now, in the order of state_begins(); empty where there are none, as before
  /// the first step or where one is missing.
  [[nodiscard]] std::vector<at::Tensor> tables() const;
  /// How many steps were done, where the optimizer counts them (LibTorch's SGD does not) and has a state.
  [[nodiscard]] std::optional<std::int64_t> steps() const;
  /// Each row's steps; undefined where they are not counted.
  [[nodiscard]] at::Tensor row_steps() const;

  /// Makes these, in the order of state_begins(), the parameter's states, as if `steps` steps had been done
  /// with them; `row_steps` is defined where rows are counted. LibTorch's SGD has no states before its first
  /// step, in which the momentum becomes the gradient, not dampened.
  void set(const std::vector<at::Tensor>& tables, std::int64_t steps, const at::Tensor& row_steps);

 private:
  [[nodiscard]] const torch::optim::OptimizerParamGroup& group() const;
  [[nodiscard]] torch::optim::OptimizerParamState* kept() const;

  torch::optim::Optimizer* optimizer_;
  at::Tensor parameter_;
  std::unique_ptr<Access> access_;
};

}  // namespace speedtorch::optim
