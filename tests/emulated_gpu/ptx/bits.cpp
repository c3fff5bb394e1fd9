// Instructions on bits: logic (predicates too), shifts, counts, fields.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

constexpr auto kAnd = []<class T>(T a, T b) -> T { return static_cast<T>(a & b); };
constexpr auto kOr = []<class T>(T a, T b) -> T { return static_cast<T>(a | b); };
constexpr auto kXor = []<class T>(T a, T b) -> T { return static_cast<T>(a ^ b); };
constexpr auto kNot = []<class T>(T a) -> T { return static_cast<T>(~a); };
/// Shifts by the width or more leave nothing, or the sign.
constexpr auto kShiftLeft = []<class T>(T a, std::uint32_t by) -> T {
  return by < sizeof(T) * 8 ? static_cast<T>(static_cast<std::uint64_t>(a) << by) : T{0};
};
constexpr auto kShiftRight = []<class T>(T a, std::uint32_t by) -> T {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(by, kBits - 1));
  return by < kBits ? static_cast<T>(a >> by) : T{0};
};
constexpr auto kCountOnes = []<class T>(T a) -> std::uint32_t {
  return static_cast<std::uint32_t>(std::popcount(a));
};
constexpr auto kLeadingZeros = []<class T>(T a) -> std::uint32_t {
  return static_cast<std::uint32_t>(std::countl_zero(a));
};
constexpr auto kReverse = []<class T>(T a) -> T {
  T reversed = 0;
  for (unsigned i = 0; i < sizeof(T) * 8; ++i)
    reversed = static_cast<T>(reversed | (((a >> i) & 1) << (sizeof(T) * 8 - 1 - i)));
  return reversed;
};

/// The highest bit that differs from the sign, counted from bit 0, or as the amount to shift it to the top.
template <bool kAsShift>
constexpr auto kFindHighest = []<class T>(T a) -> std::uint32_t {
  using U = std::make_unsigned_t<T>;
  const auto bits = static_cast<U>(a < 0 ? ~a : a);
  if (bits == 0) return ~0u;
  const auto shift = static_cast<std::uint32_t>(std::countl_zero(bits));
  return kAsShift ? shift : static_cast<std::uint32_t>(sizeof(T) * 8 - 1) - shift;
};

constexpr auto kExtractField = []<class T>(T a, std::uint32_t position, std::uint32_t length) -> T {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  position &= 0xff;
  length &= 0xff;
  if (length == 0) return 0;
  const auto sign_at = std::min(position + length - 1, kBits - 1);
  const auto unsigned_a = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(a));
  const bool negative = std::is_signed_v<T> && ((unsigned_a >> sign_at) & 1);
  auto field = position < kBits ? unsigned_a >> position : 0;
  const auto there = position < kBits ? std::min(length, kBits - position) : 0;
  const auto mask = there >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << there) - 1;
  field &= mask;
  return static_cast<T>(negative ? field | ~mask : field);
};

template <class T>
T mask_of(std::uint32_t position, std::uint32_t length) {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  if (position >= kBits || length == 0) return 0;
  const auto ones = length >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
  return static_cast<T>(ones << position);
}

template <class T>
void insert_field(Warp& warp, const Instruction& in, Mask mask) {
  T* const d = warp.row<T>(in.d);
  const T* const field = warp.row<T>(in.a);
  const T* const base = warp.row<T>(in.b);
  const auto* const position = warp.row<std::uint32_t>(in.c);
  const auto* const length = warp.row<std::uint32_t>(in.e);
  for_each_lane(mask, [&](unsigned lane) {
    const auto at = position[lane] & 0xff;
    const auto where = mask_of<T>(at, length[lane] & 0xff);
    const auto moved = at < sizeof(T) * 8 ? static_cast<T>(field[lane] << at) : T{0};
    d[lane] = static_cast<T>((base[lane] & ~where) | (moved & where));
  });
}

constexpr auto kMakeMaskClamped = [](std::uint32_t position, std::uint32_t length) -> std::uint32_t {
  return mask_of<std::uint32_t>(position, length);
};
constexpr auto kMakeMaskWrapped = [](std::uint32_t position, std::uint32_t length) -> std::uint32_t {
  return mask_of<std::uint32_t>(position & 31, length & 31);
};

// Predicates: a bit per lane.

template <auto kF>
void predicates2(Warp& warp, const Instruction& in, Mask mask) {
  set_predicate(warp.predicate(in.d), kF(warp.predicate(in.a), warp.predicate(in.b) ^ in.flip), mask);
}

void predicate_not(Warp& warp, const Instruction& in, Mask mask) {
  set_predicate(warp.predicate(in.d), ~warp.predicate(in.a), mask);
}

template <auto kF>
Execute of_bits(Type type) {
  return with_integer(type, [](auto t) -> Execute {
    using U = std::make_unsigned_t<decltype(t)>;
    return &apply2<kF, U, U>;
  });
}

template <auto kF>
void decode_logic(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_same(type, 2, type == Type::pred ? &predicates2<kF> : of_bits<kF>(type));
}

void decode_not(Decoding& decoding) {
  const auto type = decoding.take_type();
  const auto of_integer = [](auto t) -> Execute {
    using U = std::make_unsigned_t<decltype(t)>;
    return &apply1<kNot, U, U>;
  };
  decoding.finish_same(type, 1, type == Type::pred ? &predicate_not : with_integer(type, of_integer));
}

template <auto kF>
void decode_shift(Decoding& decoding) {
  const auto type = decoding.take_type();
  const auto execute = with_integer(
      type, [](auto t) -> Execute { return &apply2<kF, decltype(t), decltype(t), std::uint32_t>; });
  decoding.finish_typed(type, {type, Type::u32}, execute);
}

/// One source of 32 or 64 bits, a 32-bit result.
template <auto kF>
void decode_count(Decoding& decoding) {
  const auto type = decoding.take_type();
  using U = std::uint32_t;
  decoding.finish_typed(Type::u32, {type},
                        bytes_of(type) == 8 ? &apply1<kF, U, std::uint64_t> : &apply1<kF, U, U>);
}

void decode_reverse(Decoding& decoding) {
  const auto type = decoding.take_type();
  using U = std::uint32_t;
  using Wide = std::uint64_t;
  decoding.finish_same(type, 1,
                       bytes_of(type) == 8 ? &apply1<kReverse, Wide, Wide> : &apply1<kReverse, U, U>);
}

void decode_find(Decoding& decoding) {
  const bool as_shift = decoding.take("shiftamt");
  const auto type = decoding.take_type();
  const auto execute = with_integer(type, [as_shift](auto t) -> Execute {
    using T = decltype(t);
    return as_shift ? &apply1<kFindHighest<true>, std::uint32_t, T>
                    : &apply1<kFindHighest<false>, std::uint32_t, T>;
  });
  decoding.finish_typed(Type::u32, {type}, execute);
}

void decode_extract(Decoding& decoding) {
  const auto type = decoding.take_type();
  const auto execute = with_integer(type, [](auto t) -> Execute {
    using T = decltype(t);
    return &apply3<kExtractField, T, T, std::uint32_t, std::uint32_t>;
  });
  decoding.finish_typed(type, {type, Type::u32, Type::u32}, execute);
}

void decode_insert(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_typed(type, {type, type, Type::u32, Type::u32},
                        bytes_of(type) == 8 ? &insert_field<std::uint64_t> : &insert_field<std::uint32_t>);
}

void decode_mask(Decoding& decoding) {
  const bool wraps = decoding.take_one_of({"wrap", "clamp"}) == 0;
  using U = std::uint32_t;
  decoding.finish_same(decoding.take_type(), 2,
                       wraps ? &apply2<kMakeMaskWrapped, U, U> : &apply2<kMakeMaskClamped, U, U>);
}

}  // namespace

void add_bit_instructions(Decoders& decoders) {
  decoders.add({"and"}, decode_logic<kAnd>);
  decoders.add({"or"}, decode_logic<kOr>);
  decoders.add({"xor"}, decode_logic<kXor>);
  decoders.add({"not"}, decode_not);
  decoders.add({"shl"}, decode_shift<kShiftLeft>);
  decoders.add({"shr"}, decode_shift<kShiftRight>);
  decoders.add({"popc"}, decode_count<kCountOnes>);
  decoders.add({"clz"}, decode_count<kLeadingZeros>);
  decoders.add({"brev"}, decode_reverse);
  decoders.add({"bfind"}, decode_find);
  decoders.add({"bfe"}, decode_extract);
  decoders.add({"bfi"}, decode_insert);
  decoders.add({"bmsk"}, decode_mask);
}

}  // namespace emulated_gpu
