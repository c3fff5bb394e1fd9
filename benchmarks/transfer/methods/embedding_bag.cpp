#include <ATen/ops/_embedding_bag_forward_only.h>
#include <ATen/ops/arange.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The first row of each bag, if each has one row; the same for all sets.
struct BagsOfOne {
  at::Tensor begins;
};

const at::Tensor& bags_of_one(Operands& operands) {
  const auto& index = operands.index(0);
  return operands.kept<BagsOfOne>([&] { return BagsOfOne{at::arange(index.numel(), index.options())}; })
      .begins;
}

/// The operation of recommenders (FBGEMM's kernel on CPUs that it supports), given bags of one row. Each row
/// is added to zero, so results are equal as numbers, not in every bit.
const RegisterMethod registration{{
    .name = "embedding_bag",
    .summary = "peer: LibTorch's embedding_bag (FBGEMM) of bags of one row, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .equality = Equality::numbers,
    .where = "direction to of floating dtypes",
    .supports =
        [](const TransferCase& one) {
          return one.direction == Direction::to && at::isFloatingType(one.shape().dtype) &&
                 rows_move_on_the_model_device(one);
        },
    .to =
        [](Operands& operands, int set) {
          constexpr std::int64_t sum = 0;
          operands.deliver(std::get<0>(at::_embedding_bag_forward_only(operands.table(), operands.index(set),
                                                                       bags_of_one(operands), false, sum)));
        },
}};

}  // namespace
}  // namespace stbench
