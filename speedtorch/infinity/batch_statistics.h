/// Batch normalisation by the statistics of the whole batch, although a micro-batch at a time goes through
/// the model.
///
/// Forward: one pass over the micro-batches for each batch normalisation, in the order of the forward pass.
/// In the pass of the l-th the ones before it are normalised by the statistics that are known by then, so
/// that what it sees is what it sees in the plain batch: its mean and variance are those of the plain batch.
///
/// Backward: the loss depends on a parameter also through every mean m and variance v. With these as
/// variables of their own, each micro-batch's gradient is its own again, and what is missing is the loss's
/// derivatives by m and v, the adjoints. That of the last normalisation is a sum over micro-batches of their
/// derivatives; one pass for each normalisation, from the last to the first, gives all of them, because a
/// statistic influences only later ones. In the last pass each normalisation adds to its input's gradient
/// what follows from m = sum(x) / n and v = sum((x - m)^2) / n: (adjoint of m + 2 (x - m) adjoint of v) / n.
///
/// So statistics, running statistics and gradients are those of the plain batch up to rounding; with L
/// normalisations it takes 2 L + 2 forward passes (L of them without a graph as far as the l-th only) and L +
/// 1 backward ones.
///
/// How the model's calls are met: at::batch_norm, which modules call too, is dispatched to this file while a
/// Scope lives, by a dispatch key of LibTorch's for extensions (AutocastPrivateUse1), on this thread only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

/// Of one batch. Used by one thread at a time.
class BatchStatistics {
 public:
  /// What the pass at work wants.
  enum class Pass {
    first,    ///< measures the first normalisation; the others take the micro-batch's own, for the pass must
              ///< end
    measure,  ///< measures the next one and goes no further
    use,      ///< all are known
  };

  /// While it lives, batch normalisations of this thread that take statistics of their samples go here.
  class Scope {
   public:
    explicit Scope(BatchStatistics& statistics);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BatchStatistics* outer_;
    bool was_excluded_;
    bool was_included_;
  };

  /// Runs the model on a micro-batch. Empty after Pass::measure, which ends where it has measured.
  /// @throws InfinityBatchError where it normalises more or less often than in the first micro-batch
  Tensors run(const Model& model, const Tensors& inputs, Pass pass);

  /// What the last run() measured belongs to the statistics.
  void add_measured();
  /// The pass is over: the next normalisation's statistics are known.
  void end_measuring();
  [[nodiscard]] std::size_t calls() const { return calls_.size(); }  ///< normalisations
  [[nodiscard]] std::size_t known() const { return known_; }

  /// Running statistics move once, as in the plain batch. What counts batches (num_batches_tracked: a buffer
  /// of one number that each of the `micro_batches` counted up alike) goes from what `before` noted as far as
  /// in one of them; it is no int64 any more where a module was cast. The new values are made first, so that
  /// where memory runs out nothing has changed.
  void move_running(const Model& model, const Undo& before, std::int64_t micro_batches) const;

  /// The variables (mean, variance) of a normalisation, by which the next pass differentiates.
  Tensors begin_adjoint(std::size_t call);
  /// The sums over the micro-batches; undefined ones where the loss does not depend on it.
  void set_adjoint(std::size_t call, Tensors adjoint);
  void forget_adjoints();

  /// Instead of at::batch_norm in training mode.
  at::Tensor normalise(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum,
                       double eps);

 private:
  struct Moments {
    std::int64_t count = 0;  ///< values of each channel
    at::Tensor mean;         ///< float64
    at::Tensor squares;      ///< sums of squared distances from it, float64
  };
  struct Call {
    at::Tensor running_mean;
    at::Tensor running_variance;
    double momentum = 0;
    at::ScalarType dtype = at::kFloat;  ///< of its statistics
    Moments moments;
    at::Tensor mean;
    at::Tensor variance;  ///< biased: divided by the count
    at::Tensor adjoint_of_mean;
    at::Tensor adjoint_of_variance;
  };
  static Moments moments_of(const at::Tensor& input);
  static Moments combined(const Moments& a, const Moments& b);

  std::vector<Call> calls_;
  bool complete_ = false;  ///< a whole micro-batch went through: there are no more calls than these
  std::size_t known_ = 0;  ///< calls whose statistics are
  Pass pass_ = Pass::first;
  std::size_t next_call_ = 0;  ///< the next call of this run
  Moments measured_;
};

}  // namespace speedtorch::infinity
