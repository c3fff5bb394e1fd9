/// Sums the losses of micro-batches to the loss of their batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/criterion.h"

namespace speedtorch::infinity {

/// A weighted sum of losses. Reads their values only in value(), so that nothing waits for the device before.
class LossSum {
 public:
  void add(at::Tensor loss, double factor) { losses_.emplace_back(std::move(loss), factor); }
  [[nodiscard]] double value() const {
    double sum = 0;
    for (const auto& [loss, factor] : losses_) sum += factor * loss.item().toDouble();
    return sum;
  }

 private:
  std::vector<std::pair<at::Tensor, double>> losses_;
};

/// Accumulates the batch loss, and the loss of each part of the criterion, weighted by micro-batch size.
class LossOfBatch {
 public:
  LossOfBatch(const Criterion& criterion, std::int64_t samples)
      : criterion_(criterion),
        is_mean_(criterion.reduction() == Reduction::mean),
        known_divisor_(is_mean_ && !criterion.weighs_targets() ? static_cast<double>(samples) : 1),
        of_parts_(criterion.parts().size()) {}

  /// The weight of a micro-batch; 0 if none of its samples counts.
  [[nodiscard]] double weight(const Tensors& targets, std::int64_t samples) const {
    return is_mean_ ? criterion_.weight(targets, samples) : 1;
  }
  /// The factor of a loss of this weight, before the division by divisor().
  [[nodiscard]] double factor(double weight) const { return weight / known_divisor_; }

  void add(const at::Tensor& loss, const Tensors& parts, double weight) {
    total_weight_ += weight;
    if (weight != 0) whole_.add(loss.tensor_data(), factor(weight));
    for (std::size_t i = 0; i < parts.size(); ++i) of_parts_[i].add(parts[i], factor(weight));
  }

  /// The remaining divisor of a mean. It is not 1 if targets have weights, whose sum is known only at the
  /// end.
  [[nodiscard]] double divisor() const { return is_mean_ && criterion_.weighs_targets() ? total_weight_ : 1; }
  [[nodiscard]] double value() const { return whole_.value() / divisor(); }
  [[nodiscard]] std::vector<double> of_parts() const {
    std::vector<double> values;
    for (std::size_t i = 0; of_parts_.size() > 1 && i < of_parts_.size(); ++i)
      values.push_back(of_parts_[i].value() / divisor());
    return values;
  }

 private:
  const Criterion& criterion_;
  bool is_mean_;
  double known_divisor_;
  double total_weight_ = 0;
  LossSum whole_;
  std::vector<LossSum> of_parts_;
};

}  // namespace speedtorch::infinity
