// ld and st, of all spaces and vectors; prefetches, which have no effect on results.

#include <cstdint>
#include <cstring>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/grid.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/memory.h"
#include "tests/emulated_gpu/ptx/places.h"

namespace emulated_gpu {
namespace {

/// Values of type T in memory, in rows of type R (as wide or wider).
template <class T, class R>
void load(Warp& warp, const Instruction& in, Mask mask) {
  const auto& access = warp.access_of(in);
  std::byte* places[kLanes];
  find_places(warp, in, access, mask, places);
  for (unsigned element = 0; element < access.elements; ++element) {
    R* const d = warp.row<R>(access.values[element]);
    const std::size_t at = element * sizeof(T);
    over_lanes(mask, [&](unsigned lane) {
      T value;
      std::memcpy(&value, places[lane] + at, sizeof(T));
      d[lane] = static_cast<R>(value);
    });
  }
  if (access.polls) warp.note_poll();
}

template <class T, class R>
void store(Warp& warp, const Instruction& in, Mask mask) {
  const auto& access = warp.access_of(in);
  std::byte* places[kLanes];
  find_places(warp, in, access, mask, places);
  warp.grid().note_change();
  for (unsigned element = 0; element < access.elements; ++element) {
    const R* const from = warp.row<R>(access.values[element]);
    const std::size_t at = element * sizeof(T);
    for_each_lane(mask, [&](unsigned lane) {
      const auto value = static_cast<T>(from[lane]);
      std::memcpy(places[lane] + at, &value, sizeof(T));
    });
  }
}

/// Numbers with a point are moved as bits.
Type as_bits(Type type) {
  if (class_of(type) == TypeClass::integer) return type;
  return bytes_of(type) == 2 ? Type::b16 : bytes_of(type) == 4 ? Type::b32 : Type::b64;
}

template <class Use>
Execute with_memory_type(Type type, Use use) {
  if (bytes_of(type) > 1) return with_integer(as_bits(type), use);
  return is_signed(type) ? use(std::int8_t{}) : use(std::uint8_t{});
}

/// Hints for caches change no result.
void skip_hints(Decoding& decoding) {
  while (decoding.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"}) >= 0) continue;
  while (auto hint = decoding.take_prefixed("L1::")) continue;
  while (auto hint = decoding.take_prefixed("L2::")) {
    if (*hint == "L2::cache_hint") decoding.refuse("a cache policy is not known");
  }
}

}  // namespace

Space take_space(Decoding& decoding) {
  constexpr Space kSpaces[] = {Space::generic, Space::global, Space::global,    Space::shared,
                               Space::shared,  Space::local,  Space::parameter, Space::parameter};
  return kSpaces[1 + decoding.take_one_of(
                         {"global", "const", "shared", "shared::cta", "local", "param", "param::entry"})];
}

Scope take_scope(Decoding& decoding) {
  constexpr Scope kScopes[] = {Scope::device, Scope::block, Scope::device, Scope::device, Scope::system};
  return kScopes[1 + decoding.take_one_of({"cta", "cluster", "gpu", "sys"})];
}

void set_address(Decoding& decoding, Access& access, const Operand& operand) {
  if (operand.form != Operand::Form::address) decoding.refuse("an address in [] is expected");
  access.offset = operand.offset;
  Operand base = operand;
  base.form = operand.token.kind == Token::Kind::number ? Operand::Form::number : Operand::Form::name;
  if (base.form == Operand::Form::name && decoding.function().find_register(base.token.text) == nullptr) {
    const auto* const symbol = decoding.function().find_symbol(base.token.text);
    if (symbol == nullptr) decoding.refuse("there is no variable " + std::string(base.token.text));
    if (access.space == Space::generic && symbol->space != Space::global) {
      decoding.refuse(std::string(base.token.text) + " is of another space");
    }
  }
  decoding.in.a = decoding.wide_in(base, Type::b32, access.address_bytes);
  if (base.form == Operand::Form::number || decoding.function().find_register(base.token.text) == nullptr) {
    decoding.in.a = decoding.in_row(base, Type::b64);
    access.address_bytes = 8;
  }
  if (access.address_bytes != 8 && access.address_bytes != 4) decoding.refuse("an address has 32 or 64 bits");
}

namespace {

unsigned take_elements(Decoding& decoding) {
  const int more = decoding.take_one_of({"v2", "v4", "v8"});
  return more < 0 ? 1 : 2u << more;
}

void decode_access(Decoding& decoding) {
  auto& in = decoding.in;
  const bool loads = decoding.name() != "st";
  Access access;
  access.loads = loads;
  access.stores = !loads;
  const bool uniform = decoding.name() == "ldu";
  const int order = decoding.take_one_of({"weak", "relaxed", "volatile", "acquire", "release"});
  constexpr Order kOrders[] = {Order::weak,    Order::weak,    Order::relaxed,
                               Order::relaxed, Order::acquire, Order::release};
  access.order = kOrders[1 + order];
  access.polls = access.order != Order::weak && loads;
  access.scope = order == 2 ? Scope::system : take_scope(decoding);
  access.space = take_space(decoding);
  if (uniform && access.space != Space::global) decoding.refuse("it is for global memory");
  skip_hints(decoding);
  access.elements = static_cast<std::uint8_t>(take_elements(decoding));
  const auto type = decoding.take_type();
  access.bytes = static_cast<std::uint8_t>(bytes_of(type) * access.elements);
  const auto& value = decoding.operand(loads ? 0 : 1);
  const bool vector = value.form == Operand::Form::vector;
  if ((vector ? value.parts.size() : 1) != access.elements) decoding.refuse("the vector has another length");
  std::uint8_t row_bytes = 0;
  for (unsigned i = 0; i < access.elements; ++i) {
    const auto& part = vector ? value.parts[i] : value;
    std::uint8_t bytes = 0;
    access.values[i] = loads ? decoding.wide_out(part, type, bytes) : decoding.wide_in(part, type, bytes);
    if (i > 0 && bytes != row_bytes)
      decoding.refuse("registers of several sizes in one vector are not known");
    row_bytes = bytes;
  }
  set_address(decoding, access, decoding.operand(loads ? 1 : 0));
  in.execute = with_memory_type(type, [&](auto memory) -> Execute {
    return with_row(row_bytes, [&](auto row) -> Execute {
      using T = decltype(memory);
      using R = decltype(row);
      if constexpr (sizeof(R) < sizeof(T)) {
        throw std::invalid_argument("too narrow");
      } else {
        return loads ? &load<T, R> : &store<T, R>;
      }
    });
  });
  decoding.set_access(access);
  decoding.finish(2);
}

void nothing(Warp&, const Instruction&, Mask) {}

void decode_prefetch(Decoding& decoding) {
  decoding.take_one_of({"L1", "L2"});
  skip_hints(decoding);
  take_space(decoding);
  decoding.in.execute = &nothing;
  decoding.finish(1);
}

}  // namespace

void add_memory_instructions(Decoders& decoders) {
  decoders.add({"ld", "st", "ldu"}, decode_access);
  decoders.add({"prefetch", "prefetchu"}, decode_prefetch);
}

}  // namespace emulated_gpu
