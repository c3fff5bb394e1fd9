/// Losses added up without waiting for the device each time.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace speedtorch::infinity {

/// Numbers of one element with factors; they are only looked at when their sum is asked for.
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

}  // namespace speedtorch::infinity
