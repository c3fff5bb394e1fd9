#include "benchmarks/transfer/transfer_case.h"

#include <limits>
#include <tuple>

namespace stbench {

using speedtorch::Placement;

std::int64_t TransferCase::rows_moved() const {
  std::int64_t all = 0;
  return __builtin_mul_overflow(batch, callers, &all) ? std::numeric_limits<std::int64_t>::max() : all;
}

TransferCase TransferCase::cell() const {
  auto without = *this;
  without.method = nullptr;
  return without;
}

bool operator<(const TransferCase& a, const TransferCase& b) {
  const auto key = [](const TransferCase& one) {
    return std::tuple_cat(
        std::tuple(one.device.type(), one.device.index()),
        std::tie(one.direction, one.placement, one.method, one.dtype, one.index_dtype, one.distribution,
                 one.rows, one.dim, one.batch, one.cores, one.callers, one.cache_bytes, one.cache, one.isa));
  };
  return key(a) < key(b);
}

bool rows_move_on_the_model_device(const TransferCase& one) {
  return one.on_gpu() == speedtorch::needs_cuda(one.placement);
}

bool rows_move_on_a_gpu(const TransferCase& one) {
  return one.on_gpu() && rows_move_on_the_model_device(one);
}

bool rows_cross_the_link(const TransferCase& one) {
  return one.on_gpu() && one.placement == Placement::pinned;
}

bool direction_supported(const TransferCase& one) {
  if (one.consumes()) return !one.on_gpu();
  return !one.bidirectional() || rows_cross_the_link(one);
}

std::string direction_skip_reason(const TransferCase& one) {
  const bool both = one.bidirectional(), several = one.callers > 1;
  if (both && several) return "--direction both has one caller; use --callers 1";
  if (both && one.batch < 2) return "each half of a batch needs a row; use --batch 2 or more";
  if (one.consumes() && several) return "--direction consume has one caller; use --callers 1";
  const bool distinct =
      one.distribution == "unique" || (one.distribution == "sequential" && one.rows_moved() <= one.rows);
  if (both && !distinct)
    return "a row that is read and written at the same time has no defined value; use --distribution unique";
  if (several && one.writes() && !distinct)
    return "two callers must not write one row at once; use --distribution unique";
  return {};
}

}  // namespace stbench
