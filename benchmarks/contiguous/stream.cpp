#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "benchmarks/contiguous/fixture.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// The ceiling: copies as many bytes as a step reads and writes; on a GPU by cudaMemcpy.
class StreamPass final : public Stepper {
 public:
  StreamPass(const reports::Identity& /*id*/, ContiguousFixture& fixture) : bytes_(fixture.step_bytes()) {
    constexpr std::int64_t most = 256 << 20;  // far above every cache
    const auto kind = at::TensorOptions(fixture.device).dtype(at::kByte);
    from_ = at::empty({std::min(most, bytes_ / 2)}, kind).fill_(1);
    to_ = at::empty_like(from_);
  }
  void step(int /*set*/) override {
    for (std::int64_t done = 0; done < bytes_ / 2; done += from_.numel()) {
      const auto count = std::min(from_.numel(), bytes_ / 2 - done);
      auto to = to_.narrow(0, 0, count);
      const auto from = from_.narrow(0, 0, count);
      to.is_cpu() ? speedtorch::stream_copy(from, to) : void(to.copy_(from));
    }
  }
  void remember(int /*set*/) override { to_.zero_(); }
  harness::Check check(int /*set*/) override {
    const bool same = at::equal(from_, to_);
    return {1, same ? 0 : 1, same ? "" : "the copy differs"};
  }
  [[nodiscard]] std::int64_t payload_bytes() const override { return bytes_; }

 private:
  std::int64_t bytes_;
  at::Tensor from_, to_;
};

const RegisterStepMethod registration("contiguous",
                                      {
                                          .name = "stream",
                                          .summary = "the ceiling: a streaming copy of as many bytes",
                                          .role = harness::Role::ceiling,
                                          .open = step_in<ContiguousFixture, StreamPass>,
                                      });

}  // namespace
}  // namespace stbench
