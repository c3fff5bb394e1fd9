#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/peers/peers.h"
#include "benchmarks/transfer/shared_tensor.h"

namespace stbench {
namespace {

using Json = nlohmann::ordered_json;

std::string next_flat_cell() {
  static int last = 0;
  return fmt::format("flat{}", ++last);
}

/// DeepSpeedCPUAdam in its own process, on flat tensors in memory that it shares with us.
class DeepSpeedStep final : public ContiguousStepper {
 public:
  DeepSpeedStep(const reports::Identity& id, ContiguousFixture& fixture)
      : ContiguousStepper(id, fixture),
        process_(Peers::of_this_run().running("deepspeed")),
        cell_(next_flat_cell()),
        param_({fixture.elements}, at::kFloat),
        grad_(fixture.gradient) {
    fixture.fill_param(param_.tensor, 0);
    for (std::size_t s = 0; s < fixture.state_names.size(); ++s) {
      states_.emplace_back(at::IntArrayRef{fixture.elements}, at::kFloat);
      fixture.fill_state(states_.back().tensor, 0, s);
    }
    process_->ask(fmt::format("prepare {} {}", cell_, request(id).dump()), "ready");
  }
  ~DeepSpeedStep() override {
    try {
      process_->ask("release " + cell_, "released");
    } catch (const PeerError&) {
      // It ended, and its mappings with it.
    }
  }

  void step(int set) override { timed_step(set); }
  [[nodiscard]] bool self_timed() const override { return true; }
  double timed_step(int set) override {
    ++steps_;
    return process_->ask_seconds(fmt::format("sample {} {} 1", cell_, set));
  }

 private:
  [[nodiscard]] std::vector<ParameterPlace> now() override {
    std::vector<ParameterPlace> places;
    for (std::size_t k = 0; k < fixture_.shapes.size(); ++k) {
      const auto part = [&](const at::Tensor& whole) {
        return whole.narrow(0, fixture_.firsts[k], c10::multiply_integers(fixture_.shapes[k]));
      };
      ParameterPlace place{part(param_.tensor), part(grad_.tensor), {}};
      for (const auto& state : states_) place.states.push_back(part(state.tensor));
      places.push_back(std::move(place));
    }
    return places;
  }
  [[nodiscard]] at::Tensor first() override { return param_.tensor; }

  [[nodiscard]] Json request(const reports::Identity& id) const {
    auto states = Json::array();
    for (const auto& one : states_) states.push_back(one.described());
    return {{"pid", ::getpid()},
            {"direction", "step"},
            {"threads", id.cores},
            {"cpus", Peers::of_this_run().cpus(id.cores)},
            {"optimizer", axis<std::string>(id, "optimizer")},
            {"states", fixture_.state_names},
            {"steps", steps_},
            {"param", param_.described()},
            {"grad", grad_.described()},
            {"state", states}};
  }

  std::shared_ptr<PeerProcess> process_;
  std::string cell_;
  SharedTensor param_, grad_;
  std::vector<SharedTensor> states_;
};

std::string deepspeed_refusal(const reports::Identity& id) {
  const auto& name = axis<std::string>(id, "optimizer");
  if (name != "Adam" && name != "AdamW") return fmt::format("DeepSpeed has no {} for a CPU's memory", name);
  if (axis<double>(id, "clip") > 0) return "DeepSpeedCPUAdam does not clip; DeepSpeed's engine does";
  return Peers::of_this_run().refusal("deepspeed");
}

const RegisterStepMethod registration("contiguous",
                                      {
                                          .name = "deepspeed",
                                          .summary = "DeepSpeedCPUAdam on one flat tensor",
                                          .role = harness::Role::peer,
                                          .asked_only = true,
                                          .supports = [](const auto& id) { return id.device == "cpu"; },
                                          .skip_reason = deepspeed_refusal,
                                          .open = step_in<ContiguousFixture, DeepSpeedStep>,
                                      });

}  // namespace
}  // namespace stbench
