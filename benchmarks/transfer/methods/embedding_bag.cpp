#include <ATen/ops/_embedding_bag_forward_only.h>
#include <ATen/ops/arange.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// Where each bag begins, when each has one row; the same for all sets of an arena.
struct BagsOfOne {
  at::Tensor begins;
};

const at::Tensor& bags_of_one(Arena& arena) {
  const auto& index = arena.index(0);
  return arena.kept<BagsOfOne>([&] { return BagsOfOne{at::arange(index.numel(), index.options())}; }).begins;
}

/// The operation of recommenders (FBGEMM's kernel on a CPU that it has one for), given bags of one row: a sum
/// with zero, so equal as a number.
const RegisterMethod registration{{
    .name = "embedding_bag",
    .summary = "peer: LibTorch's embedding_bag (FBGEMM) of bags of one row, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .equality = Equality::numbers,
    .where = "direction to of floating dtypes",
    .supports =
        [](const reports::Identity& id) {
          const auto dtype = shape_of(id).dtype;
          return id.direction == "to" && at::isFloatingType(dtype) && rows_move_on_the_model_device(id);
        },
    .to =
        [](Arena& arena, int set) {
          constexpr std::int64_t sum = 0;
          arena.deliver(std::get<0>(at::_embedding_bag_forward_only(arena.table(), arena.index(set),
                                                                    bags_of_one(arena), false, sum)));
        },
}};

}  // namespace
}  // namespace stbench
