#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/transfer/shared_tensor.h"

namespace stbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view peer = "torch_sparse";

/// Python torch's optimizer on a sparse gradient, in its own process and on its own tables, which it
/// allocates as its users do. The gradient is not coalesced yet, as autograd returns it. The time is that of
/// step().
class TorchSparseStep final : public RowStepper {
 public:
  TorchSparseStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture),
        process_(Peers::of_this_run().running(std::string(peer))),
        cell_(fmt::format("step{}", ++last_cell)),
        grad_(fixture.grad),
        probe_({RowStepCheck::most_rows}, at::kLong),
        seen_({1 + std::ssize(fixture.states), RowStepCheck::most_rows, id.dim}, at::kFloat) {
    for (const auto& one : fixture.index) index_.emplace_back(one);
    process_->ask(fmt::format("prepare {} {}", cell_, request(id).dump()), "ready");
  }
  ~TorchSparseStep() override {
    try {
      process_->ask("release " + cell_, "released");
    } catch (const PeerError&) {
      // It ended, and its memory with it.
    }
  }

  void step(int set) override { timed_step(set); }
  [[nodiscard]] bool self_timed() const override { return true; }
  double timed_step(int set) override {
    ++steps_;
    return process_->ask_seconds(fmt::format("sample {} {} 1", cell_, set));
  }

 private:
  [[nodiscard]] ReadRows reader() override {
    return [this](const std::vector<std::int64_t>& rows) {
      std::ranges::copy(rows, probe_.tensor.data_ptr<std::int64_t>());
      process_->ask(fmt::format("read {} {}", cell_, rows.size()), "read");
      const auto few = seen_.tensor.slice(1, 0, std::ssize(rows)).contiguous();
      const auto* first = few.const_data_ptr<float>();
      return std::vector<float>(first, first + few.numel());
    };
  }

  [[nodiscard]] Json request(const reports::Identity& id) const {
    auto index = Json::array();
    for (const auto& one : index_) index.push_back(one.described());
    return {{"pid", ::getpid()},
            {"direction", "step"},
            {"threads", id.cores},
            {"cpus", Peers::of_this_run().cpus(id.cores)},
            {"optimizer", optimizer_of(id)},
            {"states", fixture_.state_names},
            {"steps", steps_},
            {"rows", id.rows},
            {"dim", id.dim},
            {"index", index},
            {"grad", grad_.described()},
            {"probe", probe_.described()},
            {"seen", seen_.described()}};
  }

  inline static int last_cell = 0;
  std::shared_ptr<PeerProcess> process_;
  std::string cell_;
  SharedTensor grad_, probe_, seen_;
  std::vector<SharedTensor> index_;
};

std::string peer_refusal(const reports::Identity& id) {
  constexpr std::array known{"SparseAdam", "Adagrad", "SGD"};
  if (std::ranges::find(known, optimizer_of(id)) == known.end())
    return fmt::format("Python torch's {} takes no sparse gradients", optimizer_of(id));
  return Peers::of_this_run().refusal(std::string(peer));
}

const RegisterStepMethod registration("optimizer",
                                      {
                                          .name = std::string(peer),
                                          .summary = "Python torch's optimizer on a sparse gradient",
                                          .role = harness::Role::peer,
                                          .asked_only = true,
                                          .supports =
                                              [](const auto& id) {
                                                return placement_of(id.placement) ==
                                                       speedtorch::Placement::libtorch;
                                              },
                                          .skip_reason = peer_refusal,
                                          .open = step_in<OptimizerFixture, TorchSparseStep>,
                                      });

}  // namespace
}  // namespace stbench
