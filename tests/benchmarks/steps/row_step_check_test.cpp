#include "benchmarks/steps/row_step_check.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "benchmarks/steps/reference_step.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench::row_step_check_test {
namespace {

constexpr std::int64_t rows = 8, dim = 3;

/// What the check says of a first step by `given` on rows 2 and 5 where it was told of `grad`, which was
/// summed of numbers of `size` in all.
harness::Check check_of(const std::string& optimizer, float grad, float size, double given) {
  const auto& options = optimizer_named(optimizer);
  std::vector<at::Tensor> tables{at::full({rows, dim}, 0.25F)};
  for (std::size_t k = 0; k < speedtorch::state_names(options).size(); ++k)
    tables.push_back(at::zeros({rows, dim}));
  RowStepCheck check(options, rows, dim);
  check.remember(reader_of(tables), {2, 5}, at::full({2, dim}, grad), at::full({2, dim}, size));
  for (const std::int64_t row : {2, 5}) {
    for (std::int64_t c = 0; c < dim; ++c) {
      std::vector<double> element;
      for (const auto& table : tables) element.push_back(table[row][c].item<float>());
      reference_step(options, 1, element[0], given, std::span(element).subspan(1));
      for (std::size_t t = 0; t < tables.size(); ++t) tables[t][row][c] = element[t];
    }
  }
  return check.check(reader_of(tables), 1, false);
}

const std::vector<std::string> optimizers{"SGD", "Adagrad", "SparseAdam", "Adamax", "RMSprop"};

TEST(RowStepCheck, CheckToleratesRoundingError) {
  for (const auto& optimizer : optimizers) {
    EXPECT_EQ(check_of(optimizer, 0.5F, 0.5F, 0.5).mismatches, 0) << optimizer;
    EXPECT_EQ(check_of(optimizer, 0.5F, 0.5F, 0.500001).mismatches, 0) << optimizer;
  }
}

/// Summed of numbers that nearly cancel, a gradient may be on either side of zero and nearer to it: the
/// squares that the states keep of it are then below those of all that it was thought to be.
TEST(RowStepCheck, CheckToleratesCancellation) {
  for (const auto& optimizer : optimizers) {
    for (const double given : {1.8e-7, 1.7e-7, 1e-9, -1e-7}) {
      const auto check = check_of(optimizer, 1.8e-7F, 0.06F, given);
      EXPECT_EQ(check.mismatches, 0) << optimizer << ' ' << given << ": " << check.first;
    }
  }
}

TEST(RowStepCheck, CheckDetectsAnotherGradient) {
  for (const auto& optimizer : optimizers) {
    if (optimizer == "Adamax" || optimizer == "SparseAdam")
      continue;  // whose first step is of any size the same
    EXPECT_EQ(check_of(optimizer, 0.5F, 0.5F, 0.501).mismatches, 2) << optimizer;
  }
  for (const auto& optimizer : optimizers)
    EXPECT_EQ(check_of(optimizer, 1.8e-7F, 0.06F, 2e-3).mismatches, 2) << optimizer;
  EXPECT_EQ(check_of("SparseAdam", 0.5F, 0.5F, 0).mismatches, 2);
}

}  // namespace
}  // namespace stbench::row_step_check_test
