#include <ATen/ops/_embedding_bag_forward_only.h>
#include <ATen/ops/arange.h>

#include "benchmarks/method.h"

namespace stbench {
namespace {

/// Where each bag begins, when each has one row; the same for all sets, so made in the untimed first run.
const at::Tensor& bags_of_one(const at::Tensor& index) {
  static at::Tensor begins;
  if (!begins.defined() || begins.numel() != index.numel() ||
      begins.options().type_equal(index.options()) == false)
    begins = at::arange(index.numel(), index.options());
  return begins;
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
    .applies =
        [](const reports::Identity& id) {
          const auto dtype = shape_of(id).dtype;
          return id.direction == "to" && at::isFloatingType(dtype) && rows_move_on_the_model_device(id);
        },
    .to =
        [](Arena& arena, int set) {
          constexpr std::int64_t sum = 0;
          const auto& index = arena.index(set);
          arena.deliver(std::get<0>(
              at::_embedding_bag_forward_only(arena.table(), index, bags_of_one(index), false, sum)));
        },
}};

}  // namespace
}  // namespace stbench
