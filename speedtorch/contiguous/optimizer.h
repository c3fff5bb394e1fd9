/// The optimizer step on contiguous parameters: one pass over parameters, gradients and states.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/contiguous/options.h"
#include "speedtorch/contiguous/parameters.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

class OptimizerState;

/// SGD, Adam, AdamW, Adamax, Adagrad, RMSprop, Adadelta, ASGD or Rprop in the arithmetic of Python torch 2.11
/// (docs/contiguous.md says what is equal bit for bit), on float32 and float64 parameters, and on float16 and
/// bfloat16 ones by way of float32 masters, from which the parameters are rounded in the same pass. States
/// are float32 then.
///
/// Turns an existing training loop over:
///
///     speedtorch::ContiguousOptimizer optimizer(model->parameters(), speedtorch::AdamOptions{.lr = 1e-3});
///
/// A step does not depend on the number of threads. On a CPU it allocates nothing, but where gradients
/// strayed, in the first one that clips by a norm, and where the padding must be zeroed (an `eps` of 0, a
/// step by what is not finite). On a GPU a norm is waited for, and the first takes 8 bytes for each 16384
/// elements (not yet run on one).
class ContiguousOptimizer {
 public:
  /// @throws OptionError for numbers that the optimizer cannot have; for SparseAdam, which is SparseRows';
  /// for groups whose options are of another optimizer than the first's; what ContiguousParameters throws.
  ContiguousOptimizer(std::vector<at::Tensor> parameters, const UpdateOptions& options,
                      OptimizerOptions more = {});
  ContiguousOptimizer(std::vector<ParameterGroup> groups, const UpdateOptions& defaults,
                      OptimizerOptions more = {});
  ~ContiguousOptimizer();
  ContiguousOptimizer(ContiguousOptimizer&&) noexcept;
  ContiguousOptimizer& operator=(ContiguousOptimizer&&) noexcept;

  /// False where the step was skipped for gradients that are not finite.
  /// @throws BufferError where a parameter moved (rebuild()), OptionError for a limit that is negative,
  /// ShapeError for a found_inf of more than one number; no parameter was written then.
  bool step(const StepOptions& options = {});
  /// Of the last step that was asked for a norm or to skip: the 2-norm of all gradients, unscaled, before
  /// clipping it. NaN before.
  [[nodiscard]] double gradient_norm() const;

  void zero_grad();
  /// ContiguousParameters::rebuild() and the states with it: after module->to(), torch::load() and the like.
  void rebuild();

  [[nodiscard]] ContiguousParameters& parameters();
  [[nodiscard]] const ContiguousParameters& parameters() const;

  [[nodiscard]] const UpdateOptions& options(std::size_t group = 0) const;
  /// For schedulers. @throws OptionError where the states would be others, or there is no such group
  void set_options(std::size_t group, const UpdateOptions& options);
  /// Of all groups.
  void set_lr(double lr);

  /// Copies of the states of each parameter of parameters().original(); no tensors for frozen ones.
  [[nodiscard]] std::vector<ParameterState> state() const;
  /// A master counts only where its parameter is its rounding: load the parameters first.
  /// @throws ShapeError naming the parameter, the state and both shapes.
  void set_state(const std::vector<ParameterState>& state);

  /// Writes what Python's `torch.load()` reads and the load_state_dict() of torch's optimizer of the same
  /// name takes; atomically. @throws FileError
  void save(const std::string& file) const;
  /// Reads it again, or what Python's `torch.save(optimizer.state_dict(), file)` wrote. Options too. Masters
  /// as set_state().
  /// @throws FileError, ShapeError, OptionError; nothing was changed then.
  void load(const std::string& file);

 private:
  std::unique_ptr<OptimizerState> state_;
};

}  // namespace speedtorch
