/// Batch normalisation by the statistics of the whole batch, while the model runs one micro-batch at a time.
///
/// Forward: one pass over the micro-batches per batch normalisation, in the order of the forward pass. In
/// pass l, the normalisations before the l-th use their known statistics. The l-th therefore sees the same
/// values as in the plain batch, and its mean and variance are those of the plain batch.
///
/// Backward: the loss depends on a parameter also through every mean m and variance v. With m and v as
/// separate variables, the gradient of each micro-batch is independent again. What is missing are the
/// derivatives of the loss with respect to m and v, the adjoints. The adjoint of the last normalisation is a
/// sum over micro-batches. One pass per normalisation, from the last to the first, computes all of them,
/// because a statistic influences only later ones. In the final pass, each normalisation adds to its input's
/// gradient the contribution of m = sum(x) / n and v = sum((x - m)^2) / n: (adjoint of m + 2 (x - m) adjoint
/// of v) / n.
///
/// Statistics, running statistics and gradients equal those of the plain batch up to rounding. L
/// normalisations take 2 L + 2 forward passes (L of them without a graph and only up to the l-th
/// normalisation) and L + 1 backward passes.
///
/// While the model runs, at::batch_norm, which modules call too, is dispatched to normalise()
/// (speedtorch/infinity/normalisation_dispatch.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

/// The statistics of one batch. Not thread-safe.
class BatchStatistics {
 public:
  /// The purpose of the current pass.
  enum class Pass {
    first,    ///< measures the first normalisation; the others use the micro-batch's statistics
    measure,  ///< measures the next normalisation and stops there
    use,      ///< uses known statistics everywhere
  };

  /// Runs the model on a micro-batch and returns its outputs; none after Pass::measure, which stops once it
  /// has measured. @throws InfinityBatchError if the number of normalisations differs from the first
  /// micro-batch
  Tensors run(const Model& model, const Tensors& inputs, Pass pass);

  /// Adds what the last run() measured to the statistics.
  void add_measured();
  /// Ends a measuring pass: the next normalisation's statistics are known.
  void end_measuring();
  [[nodiscard]] std::size_t calls() const { return calls_.size(); }  ///< normalisations
  [[nodiscard]] std::size_t known() const { return known_; }

  /// Moves the running statistics once, as in the plain batch. `num_batches_tracked` was incremented once per
  /// micro-batch; sets it to its value in `before` plus one increment. It is found by its value, because its
  /// dtype is not int64 if the module was cast. Computes all new values first, so that nothing changes if
  /// memory runs out.
  void move_running(const Model& model, const Undo& before, std::int64_t micro_batches) const;

  /// Returns the variables (mean, variance) of a normalisation; the next pass differentiates with respect to
  /// them.
  Tensors begin_adjoint(std::size_t call);
  /// Sets the adjoints, summed over the micro-batches; undefined if the loss does not depend on them.
  void set_adjoint(std::size_t call, Tensors adjoint);
  void forget_adjoints();

 private:
  struct Moments {
    std::int64_t count = 0;  ///< values per channel
    at::Tensor mean;         ///< float64
    at::Tensor squares;      ///< sums of squared distances from the mean, float64
  };
  struct Call {
    at::Tensor running_mean;
    at::Tensor running_variance;
    double momentum = 0;
    at::ScalarType dtype = at::kFloat;  ///< of the statistics
    Moments moments;
    at::Tensor mean;
    at::Tensor variance;  ///< biased: divided by the count
    at::Tensor adjoint_of_mean;
    at::Tensor adjoint_of_variance;
  };
  class Dispatch;
  at::Tensor normalise(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum,
                       double eps);
  static Moments moments_of(const at::Tensor& input);
  static Moments combined(const Moments& a, const Moments& b);

  std::vector<Call> calls_;
  bool complete_ = false;  ///< a whole micro-batch has run, so there are no further calls
  std::size_t known_ = 0;  ///< the number of calls whose statistics are known
  Pass pass_ = Pass::first;
  std::size_t next_call_ = 0;  ///< of the current run
  Moments measured_;
};

}  // namespace speedtorch::infinity
