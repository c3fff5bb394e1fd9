#include "speedtorch/optim/sparse_rows.h"
#include "benchmarks/optimizer/world.h"

namespace stbench {
namespace {

/// This library's fused step: parameter and states updated in place where they lie, copies of a row summed
/// first.
class SparseRowsStep final : public RowStepper {
 public:
  SparseRowsStep(const reports::Identity& id, OptimizerWorld& world)
      : RowStepper(id, world), rows_(world.param, world.options, world.states) {
    rows_.set_steps(steps_);
  }
  void step(int set) override { rows_.step(index(set), world_.grad), ++steps_; }

 private:
  speedtorch::SparseRows rows_;
};

const RegisterStepMethod registration("optimizer",
                                      {
                                          .name = "sparse_rows",
                                          .summary = "this library: SparseRows, fused and in place",
                                          .role = harness::Role::ours,
                                          .open = step_in<OptimizerWorld, SparseRowsStep>,
                                      });

}  // namespace
}  // namespace stbench
