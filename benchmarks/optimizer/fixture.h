/// What the contestants of a cell of the optimizer suite work on: one set of tables, and what is checked of a
/// step.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/steps/row_step_check.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/transfer/fixture.h"
#include "harness/sampler.h"
#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/tables/table.h"

namespace stbench {

/// The optimizer of a case, by its axis.
const std::string& optimizer_of(const reports::Identity& id);

/// The parameter table, its state tables, eight index sets and a gradient for each of a batch's positions.
/// All contestants step the same tables, one after the other, as if training had begun `steps_before` steps
/// ago.
struct OptimizerFixture final : StepFixture {
  OptimizerFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override { return {{"pages_got", pages}}; }
  /// Bytes of the distinct rows of a set, of all tables: a step reads as many and writes as many.
  [[nodiscard]] std::int64_t moved_bytes(int set) const;
  /// Bytes that a step reads and writes at the least, the gradient among them.
  [[nodiscard]] std::int64_t step_bytes() const;

  static constexpr std::int64_t steps_before = 10;

  speedtorch::UpdateOptions options;
  std::vector<std::string> state_names;
  speedtorch::Table param_table;                ///< [rows, dim]
  std::vector<speedtorch::Table> state_tables;  ///< likewise; above zero, so that no step is degenerate
  at::Tensor param;                             ///< the same memory, as the case's device sees it
  std::vector<at::Tensor> states;
  at::Tensor grad;       ///< [batch, dim]; of one sign in each column, so that no sum cancels out
  at::Tensor host_grad;  ///< the same numbers on the host
  std::array<at::Tensor, harness::index_sets> index;
  std::shared_ptr<const IndexSets> sets;
  reports::Value pages;
};

/// A contestant that steps the world's tables, or, where `read` is replaced, its own.
class RowStepper : public Stepper {
 public:
  RowStepper(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture, fixture.options) {}
  /// @param reference what it must equal, where that is not quite the world's optimizer
  RowStepper(const reports::Identity& id, OptimizerFixture& fixture,
             const speedtorch::UpdateOptions& reference);

  void remember(int set) override { check_.remember(reader(), named(set), fixture_.host_grad); }
  harness::Check check(int set) override;
  std::string fingerprint(int set) override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_; }
  [[nodiscard]] std::int64_t index_bytes() const override {
    return static_cast<std::int64_t>(fixture_.index[0].nbytes());
  }

 protected:
  /// Of the optimizer that it stands for: dense ones move rows that have no gradient, too.
  [[nodiscard]] virtual bool moves_all() const { return false; }
  [[nodiscard]] virtual ReadRows reader();
  [[nodiscard]] const std::vector<std::int64_t>& named(int set) const {
    return (*fixture_.sets)[static_cast<std::size_t>(set)];
  }
  [[nodiscard]] const at::Tensor& index(int set) const {
    return fixture_.index[static_cast<std::size_t>(set)];
  }

  OptimizerFixture& fixture_;
  std::int64_t steps_ = OptimizerFixture::steps_before;  ///< that were done, the world's included

 private:
  RowStepCheck check_;
  std::int64_t payload_;
};

/// The state tables of an optimizer, whose rows are moved: each is a table of the transfer suite.
struct StateFixture final : StepFixture {
  StateFixture(const reports::Identity& id, const StepTerms& terms);
  harness::Check last_check() override;
  [[nodiscard]] reports::Columns columns() const override { return {{"pages_got", pages}}; }

  std::vector<std::unique_ptr<TransferFixture>> tables;
  reports::Value pages;
};

}  // namespace stbench
