#include <algorithm>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

const Method& method_named(const std::string& name) {
  return *std::ranges::find(methods(), name, &Method::name);
}

/// The rows of all state tables into small tensors and back, by a method of the transfer suite.
class StateStep final : public Stepper {
 public:
  StateStep(const reports::Identity& id, StateFixture& fixture)
      : fixture_(fixture), method_(method_named(id.method)), to_(id.direction == "to") {}

  void prepare(int set) override {
    for (const auto& arena : fixture_.arenas) {
      if (to_)
        arena->forget_result();
      else
        arena->prepare_values(method_.pattern, set, 0);
    }
  }
  void step(int set) override {
    for (const auto& arena : fixture_.arenas) (to_ ? method_.to : method_.from)(*arena, set);
  }
  void remember(int set) override {
    for (const auto& arena : fixture_.arenas) {
      if (to_)
        arena->poison_model();
      else
        arena->poison_rows(method_.pattern, set);
    }
  }
  harness::Check check(int set) override {
    harness::Check all;
    for (const auto& arena : fixture_.arenas) {
      merge(all, to_ ? arena->check_model(method_.pattern, set, 0, method_.equality)
                     : arena->check_named(method_.pattern, set, 0));
      if (!to_) merge(all, arena->check_others(method_.pattern, set));
    }
    return all;
  }
  [[nodiscard]] std::int64_t payload_bytes() const override {
    return std::ssize(fixture_.arenas) * fixture_.arenas.front()->payload_bytes();
  }
  [[nodiscard]] std::int64_t index_bytes() const override { return fixture_.arenas.front()->index_bytes(); }

 private:
  StateFixture& fixture_;
  const Method& method_;
  bool to_;
};

StepMethod moved_by(const std::string& name, harness::Role role) {
  return {.name = name,
          .summary = "states by this method of the transfer suite",
          .role = role,
          .directions = {"to", "from"},
          .skip_reason = [name](const auto& id) { return method_named(name).skip_reason(id); },
          .open = step_in<StateFixture, StateStep>};
}

const RegisterStepMethod ours("optimizer", moved_by("speedtorch", harness::Role::ours));
const RegisterStepMethod index_select("optimizer", moved_by("index_select", harness::Role::libtorch));
const RegisterStepMethod advanced("optimizer", moved_by("advanced", harness::Role::libtorch));

}  // namespace
}  // namespace stbench
