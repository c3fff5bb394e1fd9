#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/transfer/case_identity.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// Moves the rows of all state tables into small tensors, or back, by a method of the transfer suite.
class StateStep final : public Stepper {
 public:
  StateStep(const reports::Identity& id, StateFixture& fixture)
      : tables_(fixture.tables),
        method_(method_named(id.method)),
        to_(direction_of(id.direction) == Direction::to) {}

  void prepare(int set) override {
    for (const auto& table : tables_) {
      to_ ? table->forget_results() : table->prepare_values(method_.pattern, set, 0);
    }
  }
  void step(int set) override {
    for (const auto& table : tables_) (to_ ? method_.to : method_.from)(table->operands, set);
  }
  void remember(int set) override {
    for (const auto& table : tables_) {
      to_ ? table->poison_model() : table->verifier.poison_rows(table->operands, method_.pattern, set);
    }
  }
  harness::Check check(int set) override {
    harness::Check all;
    for (const auto& table : tables_) {
      merge(all, to_ ? table->check_model(method_.pattern, set, 0, method_.equality)
                     : table->verifier.check_named(method_.pattern, set, 0));
      if (!to_) merge(all, table->verifier.check_others(method_.pattern, set));
    }
    return all;
  }
  [[nodiscard]] std::int64_t payload_bytes() const override {
    return std::ssize(tables_) * tables_.front()->operands.payload_bytes();
  }
  [[nodiscard]] std::int64_t index_bytes() const override { return tables_.front()->operands.index_bytes(); }

 private:
  std::vector<std::unique_ptr<TransferFixture>>& tables_;
  const Method& method_;
  bool to_;
};

StepMethod moved_by(const std::string& name, harness::Role role) {
  return {.name = name,
          .summary = "states by this method of the transfer suite",
          .role = role,
          .directions = {"to", "from"},
          .skip_reason = [name](const auto& id) { return method_named(name).skip_reason(transfer_case(id)); },
          .open = step_in<StateFixture, StateStep>};
}

const RegisterStepMethod ours("optimizer", moved_by("speedtorch", harness::Role::ours));
const RegisterStepMethod index_select("optimizer", moved_by("index_select", harness::Role::libtorch));
const RegisterStepMethod advanced("optimizer", moved_by("advanced", harness::Role::libtorch));

}  // namespace
}  // namespace stbench
