// Comparison and selection: setp, set, selp.

#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/real.h"

namespace emulated_gpu {
namespace {

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T>
auto comparable(T value) {
  return value;
}
double comparable(Half value) { return widen(value); }
double comparable(Bfloat value) { return widen(value); }

/// The outcomes for which each comparison holds.
constexpr unsigned kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;
constexpr unsigned kHolds[] = {kEqual,
                               kLess | kGreater,
                               kLess,
                               kLess | kEqual,
                               kGreater,
                               kGreater | kEqual,
                               kUnordered | kEqual,
                               kUnordered | kLess | kGreater,
                               kUnordered | kLess,
                               kUnordered | kLess | kEqual,
                               kUnordered | kGreater,
                               kUnordered | kGreater | kEqual,
                               kLess | kEqual | kGreater,
                               kUnordered};
constexpr std::size_t kComparisons = std::size(kHolds), kOfIntegers = 6;

template <Comparison kComparison, class T>
bool holds(T a, T b) {
  constexpr auto kOf = kHolds[static_cast<std::size_t>(kComparison)];
  return ((kOf & kLess) && a < b) || ((kOf & kEqual) && a == b) || ((kOf & kGreater) && a > b) ||
         ((kOf & kUnordered) && (a != a || b != b));
}

constexpr std::uint8_t kNoCombination = 0, kAnd = 1, kOr = 2, kXor = 3;
constexpr std::uint8_t kFlushSources = 4;

template <class T>
T prepared(T value, std::uint8_t variant) {
  if constexpr (std::is_same_v<T, float>) {
    if ((variant & kFlushSources) && std::fpclassify(value) == FP_SUBNORMAL)
      return std::copysign(0.0f, value);
  }
  return value;
}

template <Comparison kComparison, class T>
Mask compared(Warp& warp, const Instruction& in, Mask mask) {
  const T* const a = warp.row<T>(in.a);
  const T* const b = warp.row<T>(in.b);
  if (in.variant & kFlushSources) {
    return lanes_where(mask, [&](unsigned lane) {
      return holds<kComparison>(comparable(prepared(a[lane], in.variant)),
                                comparable(prepared(b[lane], in.variant)));
    });
  }
  return lanes_where(
      mask, [=](unsigned lane) { return holds<kComparison>(comparable(a[lane]), comparable(b[lane])); });
}

Mask combined(Warp& warp, const Instruction& in, Mask bits) {
  if ((in.variant & 3) == kNoCombination) return bits;
  const Mask other = warp.predicate(in.c) ^ in.flip;
  switch (in.variant & 3) {
    case kAnd:
      return bits & other;
    case kOr:
      return bits | other;
    default:
      return bits ^ other;
  }
}

template <Comparison kComparison, class T>
void set_predicates(Warp& warp, const Instruction& in, Mask mask) {
  const Mask bits = compared<kComparison, T>(warp, in, mask);
  const Mask first = combined(warp, in, bits), second = combined(warp, in, ~bits);
  set_predicate(warp.predicate(in.d), first, mask);
  if (in.d2 != kNoSlot) set_predicate(warp.predicate(in.d2), second, mask);
}

/// set: all ones or 1.0 where it holds. `d_bytes` says the size, `a_bytes` whether it is a number with a
/// point.
template <Comparison kComparison, class T>
void set_values(Warp& warp, const Instruction& in, Mask mask) {
  const Mask bits = combined(warp, in, compared<kComparison, T>(warp, in, mask));
  for_each_lane(mask, [&](unsigned lane) {
    const bool on = (bits >> lane) & 1;
    if (in.d_bytes == 2) {
      warp.row<std::uint16_t>(in.d)[lane] = on ? 0x3c00 : 0;  // 1.0
    } else {
      warp.row<std::uint32_t>(in.d)[lane] = !on ? 0 : in.a_bytes != 0 ? 0x3f800000 : ~0u;
    }
  });
}

template <template <Comparison, class> class Wrapped, class T>
Execute of_comparison(Comparison comparison) {
  constexpr std::size_t kCount = std::is_integral_v<T> ? kOfIntegers : kComparisons;
  const auto number = static_cast<std::size_t>(comparison);
  if (number >= kCount) throw std::invalid_argument("no such comparison");
  return with_number<kCount>(
      number, [](auto k) -> Execute { return Wrapped<static_cast<Comparison>(k.value), T>::execute; });
}

template <Comparison kComparison, class T>
struct ToPredicate {
  static constexpr Execute execute = &set_predicates<kComparison, T>;
};
template <Comparison kComparison, class T>
struct ToValue {
  static constexpr Execute execute = &set_values<kComparison, T>;
};

Comparison take_comparison(Decoding& decoding) {
  const int index = decoding.take_one_of(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (index >= 0) return static_cast<Comparison>(index);
  // Of unsigned integers: lower, lower or same, higher, higher or same.
  const int of_unsigned = decoding.take_one_of({"lo", "ls", "hi", "hs"});
  if (of_unsigned < 0) decoding.refuse("a comparison is missing");
  return static_cast<Comparison>(of_unsigned + static_cast<int>(Comparison::lt));
}

std::uint8_t take_options(Decoding& decoding) {
  const auto combination = decoding.take_one_of({"and", "or", "xor"}) + 1;
  return static_cast<std::uint8_t>(combination | (decoding.take("ftz") ? kFlushSources : 0));
}

void finish_comparison(Decoding& decoding, Type type) {
  auto& in = decoding.in;
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  const bool combines = (in.variant & 3) != kNoCombination;
  if (combines) in.c = decoding.predicate(3);
  decoding.finish(combines ? 4 : 3);
}

void decode_setp(Decoding& decoding) {
  auto& in = decoding.in;
  const auto comparison = take_comparison(decoding);
  in.variant = take_options(decoding);
  const auto type = decoding.take_type();
  in.execute = with_type(type, [&](auto t) { return of_comparison<ToPredicate, decltype(t)>(comparison); });
  in.d = decoding.out(0, Type::pred);
  if (const auto second = decoding.second_out(0)) in.d2 = *second;
  finish_comparison(decoding, type);
}

void decode_set(Decoding& decoding) {
  auto& in = decoding.in;
  const auto comparison = take_comparison(decoding);
  in.variant = take_options(decoding);
  const auto to = decoding.take_type();
  const auto type = decoding.take_type();
  if (to != Type::f16 && bytes_of(to) != 4) decoding.refuse("the result is 32 bits or f16");
  in.execute = with_type(type, [&](auto t) { return of_comparison<ToValue, decltype(t)>(comparison); });
  in.d_bytes = static_cast<std::uint8_t>(bytes_of(to));
  in.a_bytes = to == Type::f32;
  in.d = decoding.out(0, to);
  finish_comparison(decoding, type);
}

template <class T>
void select(Warp& warp, const Instruction& in, Mask mask) {
  T* const d = warp.row<T>(in.d);
  const T* const a = warp.row<T>(in.a);
  const T* const b = warp.row<T>(in.b);
  const Mask first = warp.predicate(in.c) ^ in.flip;
  over_lanes(mask, [=](unsigned lane) { d[lane] = (first >> lane) & 1 ? a[lane] : b[lane]; });
}

void decode_selp(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  in.execute = with_row(bytes_of(type), [](auto t) -> Execute { return &select<decltype(t)>; });
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  in.c = decoding.predicate(3);
  decoding.finish(4);
}

}  // namespace

void add_compare_instructions(Decoders& decoders) {
  decoders.add({"setp"}, decode_setp);
  decoders.add({"set"}, decode_set);
  decoders.add({"selp"}, decode_selp);
}

}  // namespace emulated_gpu
