#include "benchmarks/transfer/bidirectional.h"

namespace stbench {

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
