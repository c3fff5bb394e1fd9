/// The losses of micro-batches made up to that of their batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "speedtorch/infinity/batch.h"
#include "speedtorch/infinity/criterion.h"

namespace speedtorch::infinity {

/// Numbers of one element with factors; they are only looked at when their sum is asked for, so that nothing
/// waits for the device in between.
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

/// The loss of a batch and those of the criterion's parts, of micro-batches that weigh what their samples do.
class LossOfBatch {
 public:
  LossOfBatch(const Criterion& criterion, std::int64_t samples)
      : criterion_(criterion),
        is_mean_(criterion.reduction() == Reduction::mean),
        known_divisor_(is_mean_ && !criterion.weighs_targets() ? static_cast<double>(samples) : 1),
        of_parts_(criterion.parts().size()) {}

  /// Of a micro-batch: 0 where none of its samples counts.
  [[nodiscard]] double weight(const Tensors& targets, std::int64_t samples) const {
    return is_mean_ ? criterion_.weight(targets, samples) : 1;
  }
  /// By which a loss of this weight counts, before the division by divisor().
  [[nodiscard]] double factor(double weight) const { return weight / known_divisor_; }

  void add(const at::Tensor& loss, const Tensors& parts, double weight) {
    total_weight_ += weight;
    if (weight != 0) whole_.add(loss.detach(), factor(weight));
    for (std::size_t i = 0; i < parts.size(); ++i) of_parts_[i].add(parts[i], factor(weight));
  }

  /// What a mean is still to be divided by: where targets weigh, that is known at the end only. 1: nothing.
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
