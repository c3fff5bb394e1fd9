#include "benchmarks/transfer/concurrent.h"

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

Bidirectional::Bidirectional(TransferFixture& fixture, const Method& method)
    : fixture_(fixture),
      method_(method),
      there_(*fixture.slices.front()),
      back_(*fixture.slices.back()),
      beside_(fixture.operands.model().device()) {}

void Bidirectional::run(int set) {
  beside_.run([&] { method_.from(back_, set); });
  method_.to(there_, set);
  beside_.join();
}

void Bidirectional::poison(int set) {
  there_.forget_result();
  stbench::poison(there_.model());
  fixture_.verifier.poison_rows(back_, method_.pattern, set);
}

harness::Check Bidirectional::verify(int set) {
  auto& verifier = fixture_.verifier;
  auto check = verifier.check_model(there_, method_.pattern, set, 0, method_.equality);
  merge(check, verifier.check_named(method_.pattern, set, 0));
  return check;
}

}  // namespace stbench
