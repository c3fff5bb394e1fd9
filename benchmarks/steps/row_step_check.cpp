#include "benchmarks/steps/row_step_check.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "benchmarks/steps/reference_step.h"

namespace stbench {

using harness::Check;

at::Tensor rows_on_host(const at::Tensor& table, const at::Tensor& rows) {
  return at::index_select(table, 0, rows.flatten().to(table.device())).to(at::kCPU);
}

ReadRows reader_of(std::vector<at::Tensor> tables) {
  return [tables = std::move(tables)](const std::vector<std::int64_t>& rows) {
    const auto index = at::tensor(rows, at::kLong);
    std::vector<float> values;
    for (const auto& table : tables) {
      const auto found = rows_on_host(table, index);
      const auto* first = found.const_data_ptr<float>();
      values.insert(values.end(), first, first + found.numel());
    }
    return values;
  };
}

void RowStepCheck::choose(const std::vector<std::int64_t>& index) {
  constexpr std::int64_t most_named = 2048, most_others = 256;
  chosen_.clear();
  std::unordered_set<std::int64_t> taken;
  const auto take = [&](std::int64_t row) {
    if (taken.insert(row).second) chosen_.push_back(row);
  };
  const auto count = std::ssize(index);
  const auto stride = std::max<std::int64_t>(1, count / (most_named - 1));
  for (std::int64_t i = 0; i < count && std::ssize(chosen_) < most_named - 1; i += stride)
    take(index[static_cast<std::size_t>(i)]);
  take(index.back());
  named_ = chosen_.size();
  taken.insert(index.begin(), index.end());
  const auto others_stride = std::max<std::int64_t>(1, rows_ / (most_others / 2));
  for (std::int64_t row = 0; row < rows_ && std::ssize(chosen_) < most_rows; row += others_stride) take(row);
  for (std::size_t i = 0; i < named_ && std::ssize(chosen_) < most_rows; ++i)
    if (chosen_[i] + 1 < rows_) take(chosen_[i] + 1);  // the neighbours
}

void RowStepCheck::remember(const ReadRows& read, const std::vector<std::int64_t>& index,
                            const at::Tensor& grad, const at::Tensor& sizes) {
  choose(index);
  std::unordered_map<std::int64_t, std::size_t> place;
  for (std::size_t i = 0; i < named_; ++i) place.emplace(chosen_[i], i);
  grads_.assign(named_ * static_cast<std::size_t>(dim_), 0);
  sizes_ = grads_;
  const auto* values = grad.const_data_ptr<float>();
  const auto* amounts = (sizes.defined() ? sizes : grad).const_data_ptr<float>();
  const auto dim = static_cast<std::size_t>(dim_);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto found = place.find(index[i]);
    if (found == place.end()) continue;
    for (std::size_t c = 0; c < dim; ++c) {
      grads_[found->second * dim + c] += values[i * dim + c];
      sizes_[found->second * dim + c] += std::abs(amounts[i * dim + c]);
    }
  }
  before_ = read(chosen_);
}

namespace {

/// The range of a parameter or state of an element after a step.
struct Range {
  std::vector<double> low, high;

  /// For gradients that are at most `off` from `grad`.
  void set(const speedtorch::UpdateOptions& options, std::int64_t step, const std::vector<double>& was,
           double grad, double off) {
    const auto stepped = [&](double one) {
      auto element = was;
      reference_step(options, step, element[0], one, std::span(element).subspan(1));
      return element;
    };
    std::vector<double> others{grad - off, grad + off};
    if (std::abs(grad) < off) others.push_back(0);  // squares and sizes are least there, and not at an end
    low = high = stepped(grad);
    for (const double one : others) {
      const auto element = stepped(one);
      for (std::size_t t = 0; t < element.size(); ++t)
        low[t] = std::min(low[t], element[t]), high[t] = std::max(high[t], element[t]);
    }
  }
};

}  // namespace

/// Empty if the row is right. A float32 step may differ by a few roundings of the values, by more of the
/// change, and by the rounding of the gradient, which sums thousands of float32 numbers of either sign.
std::string RowStepCheck::wrong_in(std::size_t row, const std::vector<float>& after, std::int64_t step,
                                   bool moves_all) const {
  constexpr double of_value = 1e-6, of_change = 1e-4, of_gradients = 1e-5;
  const auto dim = static_cast<std::size_t>(dim_), table = chosen_.size() * dim;
  const std::size_t tables = before_.size() / table;
  const bool named = row < named_;
  std::vector<double> was(tables);
  Range range;
  for (std::size_t c = 0; c < dim; ++c) {
    const std::size_t at = row * dim + c;
    for (std::size_t t = 0; t < tables; ++t) was[t] = before_[t * table + at];
    if (named)
      range.set(options_, step, was, grads_[at], of_gradients * sizes_[at]);
    else if (moves_all)
      range.set(options_, step, was, 0, 0);
    else
      range.low = range.high = was;
    const auto& [low, high] = range;
    for (std::size_t t = 0; t < tables; ++t) {
      const double is = after[t * table + at];
      const double size = std::max(std::abs(low[t]), std::abs(was[t]));
      const double slack = named || moves_all ? of_value * size + of_change * std::abs(low[t] - was[t]) : 0;
      if (is >= low[t] - slack && is <= high[t] + slack) continue;
      return fmt::format("row {} of {}, column {}: {} instead of {}, {} before", chosen_[row],
                         t == 0 ? "the parameter" : fmt::format("state {}", t), c, is, low[t], was[t]);
    }
  }
  return {};
}

Check RowStepCheck::check(const ReadRows& read, std::int64_t step, bool moves_all) const {
  const auto after = read(chosen_);
  Check check;
  check.rows = std::ssize(chosen_);
  for (std::size_t row = 0; row < chosen_.size(); ++row) {
    auto wrong = wrong_in(row, after, step, moves_all);
    if (wrong.empty()) continue;
    if (check.mismatches++ == 0) check.first = std::move(wrong);
  }
  return check;
}

}  // namespace stbench
