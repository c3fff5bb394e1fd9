#include "benchmarks/transfer/case_identity.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "benchmarks/suite/devices.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

constexpr std::array<std::pair<const char*, Direction>, 5> named_directions{
    {{"to", Direction::to},
     {"from", Direction::from},
     {"round_trip", Direction::round_trip},
     {"both", Direction::both},
     {"consume", Direction::consume}}};

const char* cache_name(Cache cache) { return cache == Cache::cold ? "cold" : "warm"; }

/// The value of a further axis, if the case has it.
template <class T>
const T* axis_of(const reports::Identity& id, const char* name) {
  const auto* value = reports::find(id.axes, name);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

}  // namespace

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
  reports::set(id.axes, "cache_bytes", one.cache_bytes);
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
  if (const auto* bytes = axis_of<std::int64_t>(id, "cache_bytes")) one.cache_bytes = *bytes;
  if (const auto* callers = axis_of<std::int64_t>(id, "callers")) one.callers = *callers;
  if (const auto* isa = axis_of<std::string>(id, "isa")) one.isa = *isa;
  return one;
}

}  // namespace stbench
