#include "benchmarks/transfer/bidirectional.h"

namespace stbench {

Bidirectional::Bidirectional(Arena& arena, const Method& method)
    : arena_(arena), method_(method), beside_(arena.model().device()) {}

void Bidirectional::run(int set) {
  beside_.run([&] { method_.from(*arena_.parts().back(), set); });
  method_.to(*arena_.parts().front(), set);
  beside_.join();
}

void Bidirectional::poison(int set) {
  arena_.parts().front()->poison_model();
  arena_.parts().back()->poison_rows(method_.pattern, set);
}

harness::Check Bidirectional::verify(int set) {
  auto check = arena_.parts().front()->check_model(method_.pattern, set, 0, method_.equality);
  merge(check, arena_.check_named(method_.pattern, set, 0));
  return check;
}

}  // namespace stbench
