#include "benchmarks/optimizer/peer_row_step.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/devices.h"

namespace stbench {
namespace {

std::string next_cell() {
  static int last = 0;
  return fmt::format("step{}", ++last);
}

}  // namespace

PeerRowStep::PeerRowStep(const reports::Identity& id, OptimizerFixture& fixture, std::string_view peer)
    : RowStepper(id, fixture),
      process_(Peers::of_this_run().running(std::string(peer))),
      cell_(next_cell()),
      grad_(fixture.grad),
      probe_({RowStepCheck::most_rows}, at::kLong),
      seen_({1 + std::ssize(fixture.states), RowStepCheck::most_rows, id.dim}, at::kFloat) {
  for (const auto& one : fixture.index) index_.emplace_back(one);
  process_->ask(fmt::format("prepare {} {}", cell_, request(id).dump()), "ready");
}

PeerRowStep::~PeerRowStep() {
  try {
    process_->ask("release " + cell_, "released");
  } catch (const PeerError&) {
    // It ended, and its memory with it.
  }
}

double PeerRowStep::timed_step(int set) {
  ++steps_;
  return process_->ask_seconds(fmt::format("sample {} {} 1", cell_, set));
}

ReadRows PeerRowStep::reader() {
  return [this](const std::vector<std::int64_t>& rows) {
    std::ranges::copy(rows, probe_.tensor.data_ptr<std::int64_t>());
    process_->ask(fmt::format("read {} {}", cell_, rows.size()), "read");
    const auto few = seen_.tensor.slice(1, 0, std::ssize(rows)).contiguous();
    const auto* first = few.const_data_ptr<float>();
    return std::vector<float>(first, first + few.numel());
  };
}

nlohmann::ordered_json PeerRowStep::request(const reports::Identity& id) const {
  auto index = nlohmann::ordered_json::array();
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

bool on_libtorch_tables(const reports::Identity& id) {
  return placement_of(id.placement) == speedtorch::Placement::libtorch;
}

}  // namespace stbench
