#include "speedtorch/optim/sparse_rows.h"
#include "benchmarks/optimizer/fixture.h"

namespace stbench {
namespace {

/// This library's fused step: sums duplicates of a row first, then updates parameter and states in place.
class SparseRowsStep final : public RowStepper {
 public:
  SparseRowsStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture), rows_(fixture.param, fixture.options, fixture.states) {
    rows_.set_steps(steps_);
  }
  void step(int set) override { rows_.step(index(set), fixture_.grad), ++steps_; }

 private:
  speedtorch::SparseRows rows_;
};

const RegisterStepMethod registration("optimizer",
                                      {
                                          .name = "sparse_rows",
                                          .summary = "this library: SparseRows, fused and in place",
                                          .role = harness::Role::ours,
                                          .open = step_in<OptimizerFixture, SparseRowsStep>,
                                      });

}  // namespace
}  // namespace stbench
