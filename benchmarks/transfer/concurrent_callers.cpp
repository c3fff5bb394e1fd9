#include "benchmarks/transfer/concurrent_callers.h"

#include "harness/sampler.h"

namespace stbench {

ConcurrentCallers::ConcurrentCallers(TransferFixture& fixture, std::shared_ptr<CallerThreads> threads)
    : fixture_(fixture), threads_(std::move(threads)) {
  for (std::size_t k = 0; k < fixture.slices.size(); ++k)
    streams_.emplace_back(fixture.operands.model().device());
}

double ConcurrentCallers::run(int first, int rounds, const Operation& operation) {
  return threads_->run(rounds, [&](int caller, int round) {
    const auto k = static_cast<std::size_t>(caller);
    auto& slice = *fixture_.slices[k];
    streams_[k].run([&] { operation(slice, (first + round) % harness::index_sets); });
    slice.finish();
  });
}

}  // namespace stbench
