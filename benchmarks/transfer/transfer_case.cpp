#include "benchmarks/transfer/transfer_case.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "benchmarks/suite/devices.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

using speedtorch::Placement;

constexpr std::array<std::pair<const char*, Direction>, 4> named_directions{
    {{"to", Direction::to},
     {"from", Direction::from},
     {"round_trip", Direction::round_trip},
     {"both", Direction::both}}};

const char* cache_name(Cache cache) { return cache == Cache::cold ? "cold" : "warm"; }

/// The value of a further axis, if the case has it.
template <class T>
const T* axis_of(const reports::Identity& id, const char* name) {
  const auto* value = reports::find(id.axes, name);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

}  // namespace

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
                 one.rows, one.dim, one.batch, one.cores, one.callers, one.cache, one.isa));
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

Direction direction_of(const std::string& name) {
  for (const auto& [known, direction] : named_directions) {
    if (name == known) return direction;
  }
  throw std::out_of_range("no direction is called '" + name + "'");
}

reports::Identity identity_of(const TransferCase& one) {
  reports::Identity id{.suite = "transfer",
                       .direction = named_directions[static_cast<std::size_t>(one.direction)].first,
                       .placement = std::string(to_string(one.placement)),
                       .method = one.method == nullptr ? "" : one.method->name,
                       .device = one.device.str(),
                       .dtype = dtype_name(one.dtype),
                       .index_dtype = dtype_name(one.index_dtype),
                       .distribution = one.distribution,
                       .rows = one.rows,
                       .dim = one.dim,
                       .batch = one.batch,
                       .cores = one.cores,
                       .axes = transfer_axes::further()};
  reports::set(id.axes, "cache", std::string(cache_name(one.cache)));
  reports::set(id.axes, "callers", one.callers);
  reports::set(id.axes, "isa", one.isa);
  return id;
}

TransferCase transfer_case(const reports::Identity& id) {
  TransferCase one{.direction = direction_of(id.direction),
                   .placement = placement_of(id.placement),
                   .method = id.method.empty() ? nullptr : &method_named(id.method),
                   .device = c10::Device(id.device),
                   .dtype = dtype_named(id.dtype),
                   .index_dtype = dtype_named(id.index_dtype).value(),
                   .distribution = id.distribution,
                   .rows = id.rows,
                   .dim = id.dim,
                   .batch = id.batch,
                   .cores = id.cores};
  if (const auto* cache = axis_of<std::string>(id, "cache"))
    one.cache = *cache == "cold" ? Cache::cold : Cache::warm;
  if (const auto* callers = axis_of<std::int64_t>(id, "callers")) one.callers = *callers;
  if (const auto* isa = axis_of<std::string>(id, "isa")) one.isa = *isa;
  return one;
}

bool direction_supported(const TransferCase& one) { return !one.bidirectional() || rows_cross_the_link(one); }

std::string direction_skip_reason(const TransferCase& one) {
  const bool both = one.bidirectional(), several = one.callers > 1;
  if (both && several) return "--direction both has one caller; use --callers 1";
  if (both && one.batch < 2) return "each half of a batch needs a row; use --batch 2 or more";
  const bool distinct =
      one.distribution == "unique" || (one.distribution == "sequential" && one.rows_moved() <= one.rows);
  if (both && !distinct)
    return "a row that is read and written at the same time has no defined value; use --distribution unique";
  if (several && one.writes() && !distinct)
    return "two callers must not write one row at once; use --distribution unique";
  return {};
}

}  // namespace stbench
