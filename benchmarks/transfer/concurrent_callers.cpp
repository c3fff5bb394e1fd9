#include "benchmarks/transfer/concurrent_callers.h"

#include "harness/sampler.h"

namespace stbench {

ConcurrentCallers::ConcurrentCallers(Arena& arena, std::shared_ptr<CallerThreads> callers)
    : arena_(arena), callers_(std::move(callers)) {
  for (std::size_t k = 0; k < arena.parts().size(); ++k) streams_.emplace_back(arena.model().device());
}

double ConcurrentCallers::run(int first, int rounds, const Operation& operation) {
  return callers_->run(rounds, [&](int caller, int round) {
    const auto k = static_cast<std::size_t>(caller);
    auto& part = *arena_.parts()[k];
    streams_[k].run([&] { operation(part, (first + round) % harness::index_sets); });
    part.finish();
  });
}

}  // namespace stbench
