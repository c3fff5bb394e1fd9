// atom and red: what reads, changes and writes in one step. Lanes take turns.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/grid.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/memory.h"
#include "tests/emulated_gpu/ptx/places.h"

namespace emulated_gpu {
namespace {

enum class Operation : std::uint8_t {
  add,
  min,
  max,
  increment,
  decrement,
  conjunction,
  disjunction,
  exclusive,
  exchange,
  compare
};
constexpr std::size_t kOperations = 10;

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return narrow<T>(add_to_odd(widen(a), widen(b)));
  }
}

template <class Short>
std::uint32_t sum_of_pair(std::uint32_t a, std::uint32_t b) {
  const auto half = [&](unsigned shift) {
    const Short first{static_cast<std::uint16_t>(a >> shift)}, second{static_cast<std::uint16_t>(b >> shift)};
    return static_cast<std::uint32_t>(sum(first, second).bits) << shift;
  };
  return half(0) | half(16);
}

template <Operation kOperation, class T>
T changed(T old, T b, T c) {
  if constexpr (kOperation == Operation::add) return sum(old, b);
  if constexpr (kOperation == Operation::exchange) return b;
  if constexpr (kOperation == Operation::compare) return old == b ? c : old;
  if constexpr (kOperation == Operation::min) return std::min(old, b);
  if constexpr (kOperation == Operation::max) return std::max(old, b);
  if constexpr (kOperation == Operation::increment) return old >= b ? T{0} : static_cast<T>(old + 1);
  if constexpr (kOperation == Operation::decrement) return old == 0 || old > b ? b : static_cast<T>(old - 1);
  if constexpr (kOperation == Operation::conjunction) return static_cast<T>(old & b);
  if constexpr (kOperation == Operation::disjunction) return static_cast<T>(old | b);
  if constexpr (kOperation == Operation::exclusive) return static_cast<T>(old ^ b);
}

/// `d` gets what was there (atom), or there is none (red). `b` and `c` are the operands.
template <Operation kOperation, class T>
void update(Warp& warp, const Instruction& in, Mask mask) {
  const auto& access = warp.access_of(in);
  std::byte* places[kLanes];
  find_places(warp, in, access, mask, places);
  const T* const b = warp.row<T>(in.b);
  const T* const c = in.c == kNoSlot ? b : warp.row<T>(in.c);
  T* const d = in.d == kNoSlot ? nullptr : warp.row<T>(in.d);
  bool any_changed = false;
  for_each_lane(mask, [&](unsigned lane) {
    T old;
    std::memcpy(&old, places[lane], sizeof(T));
    const T value = changed<kOperation>(old, b[lane], c[lane]);
    any_changed |= std::memcmp(&value, &old, sizeof(T)) != 0;
    std::memcpy(places[lane], &value, sizeof(T));
    if (d != nullptr) d[lane] = old;
  });
  if (any_changed) {
    warp.grid().note_change();
  } else {
    warp.note_poll();
  }
}

template <class Short>
void add_pairs(Warp& warp, const Instruction& in, Mask mask) {
  std::byte* places[kLanes];
  find_places(warp, in, warp.access_of(in), mask, places);
  const auto* const b = warp.row<std::uint32_t>(in.b);
  warp.grid().note_change();
  for_each_lane(mask, [&](unsigned lane) {
    std::uint32_t old;
    std::memcpy(&old, places[lane], sizeof old);
    const auto value = sum_of_pair<Short>(old, b[lane]);
    std::memcpy(places[lane], &value, sizeof value);
    if (in.d != kNoSlot) warp.row<std::uint32_t>(in.d)[lane] = old;
  });
}

template <Operation kOperation>
Execute of_integers(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &update<kOperation, decltype(t)>; });
}

Execute of_add(Type type) {
  switch (type) {
    case Type::f16:
      return &update<Operation::add, Half>;
    case Type::bf16:
      return &update<Operation::add, Bfloat>;
    case Type::f16x2:
      return &add_pairs<Half>;
    case Type::bf16x2:
      return &add_pairs<Bfloat>;
    case Type::f32:
      return &update<Operation::add, float>;
    case Type::f64:
      return &update<Operation::add, double>;
    default:
      return of_integers<Operation::add>(type);
  }
}

Execute of_operation(Operation operation, Type type) {
  if (operation == Operation::add) return of_add(type);
  return with_number<kOperations>(static_cast<std::size_t>(operation),
                                  [&](auto k) { return of_integers<static_cast<Operation>(k.value)>(type); });
}

void decode_atomic(Decoding& decoding) {
  auto& in = decoding.in;
  const bool returns = decoding.name() == "atom";
  Access access;
  access.loads = access.stores = access.atomic = true;
  const int order = decoding.take_one_of({"relaxed", "acquire", "release", "acq_rel"});
  const Order orders[] = {Order::relaxed, Order::acquire, Order::release, Order::acquire_release};
  access.order = orders[std::max(order, 0)];
  access.scope = take_scope(decoding);
  access.space = take_space(decoding);
  const int operation =
      decoding.take_one_of({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  if (operation < 0) decoding.refuse("an operation is missing");
  decoding.take("noftz");
  const auto type = decoding.take_type();
  in.execute = of_operation(static_cast<Operation>(operation), type);
  access.bytes = static_cast<std::uint8_t>(bytes_of(type));
  const std::size_t address = returns ? 1 : 0;
  if (returns) in.d = decoding.out(0, type);
  set_address(decoding, access, decoding.operand(address));
  in.b = decoding.in_row(address + 1, type);
  const bool compares = static_cast<Operation>(operation) == Operation::compare;
  if (compares) in.c = decoding.in_row(address + 2, type);
  decoding.set_access(access);
  decoding.finish(address + (compares ? 3 : 2));
}

}  // namespace

void add_atomic_instructions(Decoders& decoders) { decoders.add({"atom", "red"}, decode_atomic); }

}  // namespace emulated_gpu
