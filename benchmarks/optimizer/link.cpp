#include <ATen/ops/equal.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/suite/devices.h"
#include "speedtorch/cuda.h"
#include "speedtorch/memory/memory.h"

namespace stbench {
namespace {

/// The ceiling for tables in pinned memory: the link carries the batch's distinct rows of all tables to the
/// GPU and back. The copy engine copies one block each way, timed alone, and the slower way counts, because a
/// step can overlap its reads and writes.
class LinkBidirectional final : public Stepper {
 public:
  LinkBidirectional(const reports::Identity& id, OptimizerFixture& fixture)
      : fixture_(fixture), device_(id.device) {
    const auto bytes = id.batch * id.dim * static_cast<std::int64_t>(fixture.param.element_size()) *
                       (1 + std::ssize(fixture.states));
    const auto on_host = [&] {
      return speedtorch::allocate(speedtorch::Placement::pinned, bytes, device_)
          ->host_tensor({bytes}, at::kByte);
    };
    read_ = on_host().fill_(1), written_ = on_host();
    here_ = read_.to(device_);
    for (int set = 0; set < harness::index_sets; ++set)
      bytes_[static_cast<std::size_t>(set)] = fixture.moved_bytes(set);
  }

  void step(int set) override { timed_step(set); }
  [[nodiscard]] bool self_timed() const override { return true; }
  double timed_step(int set) override {
    const double there = seconds_of(part(here_, set), part(read_, set));
    return std::max(there, seconds_of(part(written_, set), part(here_, set)));
  }

  void remember(int /*set*/) override {
    written_.zero_();
    here_.zero_();
  }
  harness::Check check(int set) override {
    const bool same = at::equal(part(written_, set), part(read_, set));
    return {1, same ? 0 : 1, same ? "" : "the copy differs"};
  }
  /// The bytes of a step, so that rates compare as times do.
  [[nodiscard]] std::int64_t payload_bytes() const override { return fixture_.step_bytes(); }

 private:
  [[nodiscard]] at::Tensor part(const at::Tensor& of, int set) const {
    return of.narrow(0, 0, bytes_[static_cast<std::size_t>(set)]);
  }
  [[nodiscard]] double seconds_of(const at::Tensor& to, const at::Tensor& from) const {
    speedtorch::synchronize_cuda(device_);
    const auto began = std::chrono::steady_clock::now();
    to.copy_(from, /*non_blocking=*/true);
    speedtorch::synchronize_cuda(device_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  OptimizerFixture& fixture_;
  at::Device device_;
  std::array<std::int64_t, harness::index_sets> bytes_{};
  at::Tensor read_, written_, here_;
};

const RegisterStepMethod registration(
    "optimizer",
    {
        .name = "link",
        .summary = "the ceiling: the rows over the link, the slower of the two ways",
        .role = harness::Role::ceiling,
        .supports =
            [](const auto& id) { return placement_of(id.placement) == speedtorch::Placement::pinned; },
        .open = step_in<OptimizerFixture, LinkBidirectional>,
    });

}  // namespace
}  // namespace stbench
