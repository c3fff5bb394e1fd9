/// The fixture of a cell of the optimizer suite: one set of tables, and the check of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/steps/row_step_check.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/transfer/cold.h"
#include "benchmarks/transfer/fixture.h"
#include "harness/sampler.h"
#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/system/unfinished.h"
#include "speedtorch/tables/table.h"

namespace stbench {

/// The value of the axis `optimizer`.
const std::string& optimizer_of(const reports::Identity& id);

/// The value of the axis `cache_bytes`: memory of a method that keeps rows of a file; 0: of none.
std::int64_t cache_bytes_of(const reports::Identity& id);

/// The parameter table, its state tables, eight index sets and a gradient for each position of a batch. All
/// methods step the same tables, one after the other, as if training had begun `steps_before` steps ago.
struct OptimizerFixture final : StepFixture {
  OptimizerFixture(const reports::Identity& id, const StepTerms& terms);
  [[nodiscard]] reports::Columns columns() const override { return {{"pages_got", pages}}; }
  void before_step() override;
  /// The file of a table in a cell whose method keeps rows: the parameter's (0), or that of a state.
  [[nodiscard]] std::string file_of(std::size_t table) const;
  /// Bytes of the distinct rows of a set in all tables. A step reads and writes as many.
  [[nodiscard]] std::int64_t moved_bytes(int set) const;
  /// Bytes that a step must read and write, the gradient included.
  [[nodiscard]] std::int64_t step_bytes() const;

  static constexpr std::int64_t steps_before = 10;
  std::uint64_t seed;

  std::unique_ptr<speedtorch::UnfinishedFolder>
      folder;  ///< of the files of tables; null if they have no names
  speedtorch::UpdateOptions options;
  std::vector<std::string> state_names;
  speedtorch::Table param_table;                ///< [rows, dim]
  std::vector<speedtorch::Table> state_tables;  ///< likewise; above zero, so that no step is degenerate
  at::Tensor param;                             ///< the same memory as the case's device sees it
  std::vector<at::Tensor> states;
  at::Tensor grad;       ///< [batch, dim]; one sign in each column, so that no sum cancels
  at::Tensor host_grad;  ///< the same numbers on the host
  std::array<at::Tensor, harness::index_sets> index;
  std::shared_ptr<const IndexSets> sets;
  reports::Value pages;
  std::vector<std::unique_ptr<Cold>> colds;  ///< of a cold cell, for each file; of memory one

 private:
  void add_colds(const reports::Identity& id);
};

/// A method that steps the fixture's tables, or its own if it overrides reader().
class RowStepper : public Stepper {
 public:
  RowStepper(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture, fixture.options) {}
  /// @param reference the optimizer that it must equal, if that is not the fixture's
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
  /// True for dense optimizers, which also change rows without a gradient.
  [[nodiscard]] virtual bool moves_all() const { return false; }
  [[nodiscard]] virtual ReadRows reader();
  [[nodiscard]] virtual const std::vector<std::int64_t>& named(int set) const {
    return (*fixture_.sets)[static_cast<std::size_t>(set)];
  }
  [[nodiscard]] const at::Tensor& index(int set) const {
    return fixture_.index[static_cast<std::size_t>(set)];
  }

  OptimizerFixture& fixture_;
  std::int64_t steps_ = OptimizerFixture::steps_before;  ///< steps so far, steps_before included

 private:
  RowStepCheck check_;
  std::int64_t payload_;
};

/// The state tables of an optimizer whose rows are moved. Each is a table of the transfer suite.
struct StateFixture final : StepFixture {
  StateFixture(const reports::Identity& id, const StepTerms& terms);
  harness::Check last_check() override;
  [[nodiscard]] reports::Columns columns() const override { return {{"pages_got", pages}}; }

  std::vector<std::unique_ptr<TransferFixture>> tables;
  reports::Value pages;
};

}  // namespace stbench
