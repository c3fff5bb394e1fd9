/// Compares a step on some rows of a table with reference_step().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/benchmark_case.h"
#include "speedtorch/kernels/steps/update_options.h"

namespace stbench {

/// Reads some rows of a parameter table and of its state tables: 1 + states tables of n rows each, table
/// after table.
using ReadRows = std::function<std::vector<float>(const std::vector<std::int64_t>& rows)>;

/// Copies rows of a table on any device to the host, by LibTorch. `rows` may have any shape and device.
at::Tensor rows_on_host(const at::Tensor& table, const at::Tensor& rows);

/// Reads float32 tables on one device, the parameter's first.
ReadRows reader_of(std::vector<at::Tensor> tables);

/// Compares thousands of the rows that an index names, evenly spread over the batch, with the reference;
/// duplicates of a row count. Rows that were not named must not have changed, unless the optimizer changes
/// all.
class RowStepCheck {
 public:
  RowStepCheck(const speedtorch::UpdateOptions& options, std::int64_t rows, std::int64_t dim)
      : options_(options), rows_(rows), dim_(dim) {}

  /// @param grad [index, dim] float32, the gradients that the step gets
  /// @param sizes likewise, the sum of the absolute values that each gradient was summed of; undefined: those
  /// of the gradients
  void remember(const ReadRows& read, const std::vector<std::int64_t>& index, const at::Tensor& grad,
                const at::Tensor& sizes = {});
  /// @param step the number of the step since remember()
  [[nodiscard]] harness::Check check(const ReadRows& read, std::int64_t step, bool moves_all) const;

  static constexpr std::int64_t most_rows = 2048 + 256;  ///< that are read

 private:
  void choose(const std::vector<std::int64_t>& index);
  [[nodiscard]] std::string wrong_in(std::size_t row, const std::vector<float>& after, std::int64_t step,
                                     bool moves_all) const;

  speedtorch::UpdateOptions options_;
  std::int64_t rows_, dim_;
  std::vector<std::int64_t> chosen_;  ///< named ones first
  std::size_t named_ = 0;
  std::vector<double> grads_, sizes_;  ///< of the named ones, summed over duplicates; and their sizes
  std::vector<float> before_;
};

}  // namespace stbench
