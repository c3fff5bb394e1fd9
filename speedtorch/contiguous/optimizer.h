/// The optimizer step on contiguous parameters: one pass over parameters, gradients and states.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/contiguous/options.h"
#include "speedtorch/contiguous/parameters.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace speedtorch {

class OptimizerState;

/// SGD, Adam, AdamW, Adamax, Adagrad, RMSprop, Adadelta, ASGD or Rprop in the arithmetic of Python torch 2.11
/// (docs/contiguous.md says what is equal bit for bit). Takes float32 and float64 parameters. Float16 and
/// bfloat16 parameters have float32 masters and states; the same pass rounds the parameters from their
/// masters.
///
/// To use it in an existing training loop:
///
///     speedtorch::ContiguousOptimizer optimizer(model->parameters(), speedtorch::AdamOptions{.lr = 1e-3});
///
/// The result of a step does not depend on the number of threads. A step on a CPU allocates nothing, except
/// if gradients were detached, in the first step that clips by a norm, and if the padding must be zeroed (an
/// `eps` of 0, or a step with non-finite values). A step on a GPU waits for the norm, and the first norm
/// takes 8 bytes per 16384 elements (not yet run on a GPU).
class ContiguousOptimizer {
 public:
  /// @throws OptionError for invalid options, for SparseAdam (use SparseRows), and for groups whose
  /// optimizers differ; also what ContiguousParameters throws.
  ContiguousOptimizer(std::vector<at::Tensor> parameters, const UpdateOptions& options,
                      OptimizerOptions more = {});
  ContiguousOptimizer(std::vector<ParameterGroup> groups, const UpdateOptions& defaults,
                      OptimizerOptions more = {});
  ~ContiguousOptimizer();
  ContiguousOptimizer(ContiguousOptimizer&&) noexcept;
  ContiguousOptimizer& operator=(ContiguousOptimizer&&) noexcept;

  /// Returns false if the step was skipped for non-finite gradients. If it throws, no parameter was written.
  /// @throws BufferError if a parameter was moved (call rebuild()); OptionError for a negative limit;
  /// ShapeError for a found_inf of more than one element
  bool step(const StepOptions& options = {});
  /// The 2-norm of all gradients in the last step that clipped by a norm or checked for non-finite values:
  /// unscaled, before clipping by the norm. NaN before such a step.
  [[nodiscard]] double gradient_norm() const;

  void zero_grad();
  /// Calls ContiguousParameters::rebuild() and keeps the states. Needed after module->to(), torch::load() and
  /// the like.
  void rebuild();

  [[nodiscard]] ContiguousParameters& parameters();
  [[nodiscard]] const ContiguousParameters& parameters() const;

  [[nodiscard]] const UpdateOptions& options(std::size_t group = 0) const;
  /// For schedulers. @throws OptionError if the states would differ, or if there is no such group
  void set_options(std::size_t group, const UpdateOptions& options);
  /// Sets the learning rate of all groups.
  void set_lr(double lr);

  /// Returns copies of the states, one entry per parameter of parameters().original(). Entries of frozen
  /// parameters have no tensors.
  [[nodiscard]] std::vector<ParameterState> state() const;
  /// A master is taken only if its parameter is its rounding, so load the parameters first. @throws
  /// ShapeError naming the parameter, the state and both shapes
  void set_state(const std::vector<ParameterState>& state);

  /// Writes the state_dict() of torch's optimizer of the same name, for Python's `torch.load()`. Atomic.
  /// @throws FileError
  void save(const std::string& file) const;
  /// Reads states and options that save() or Python's `torch.save(optimizer.state_dict(), file)` wrote.
  /// Masters as in set_state(). If it throws, nothing was changed. @throws FileError, ShapeError, OptionError
  void load(const std::string& file);

 private:
  std::unique_ptr<OptimizerState> state_;
};

}  // namespace speedtorch
