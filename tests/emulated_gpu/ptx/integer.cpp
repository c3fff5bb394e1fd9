// Integer arithmetic: add, sub, mul, mad, div, rem, abs, neg, min, max.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

/// Arithmetic that wraps: 16-bit values would be promoted to int, whose overflow is undefined.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
using Wider = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T>
T wrap(Wrapping<T> value) {
  return static_cast<T>(value);
}

template <class T>
Wrapping<T> unwrap(T value) {
  return static_cast<Wrapping<T>>(value);
}

constexpr auto kAdd = []<class T>(T a, T b) -> T { return wrap<T>(unwrap(a) + unwrap(b)); };
constexpr auto kSubtract = []<class T>(T a, T b) -> T { return wrap<T>(unwrap(a) - unwrap(b)); };
template <class T>
T clamp_wide(Wider<T> value) {
  using Limits = std::numeric_limits<T>;
  return static_cast<T>(std::clamp<Wider<T>>(value, Limits::min(), Limits::max()));
}
constexpr auto kAddSaturated = []<class T>(T a, T b) -> T { return clamp_wide<T>(Wider<T>{a} + b); };
constexpr auto kSubtractSaturated = []<class T>(T a, T b) -> T { return clamp_wide<T>(Wider<T>{a} - b); };
constexpr auto kMultiplyLow = []<class T>(T a, T b) -> T { return wrap<T>(unwrap(a) * unwrap(b)); };
constexpr auto kMultiplyHigh = []<class T>(T a, T b) -> T {
  return static_cast<T>((Wider<T>{a} * Wider<T>{b}) >> (sizeof(T) * 8));
};
constexpr auto kMultiplyWide = []<class T>(T a, T b) -> Wider<T> { return Wider<T>{a} * Wider<T>{b}; };
constexpr auto kMadLow = []<class T>(T a, T b, T c) -> T {
  return wrap<T>(unwrap(a) * unwrap(b) + unwrap(c));
};
constexpr auto kMadHigh = []<class T>(T a, T b, T c) -> T { return kAdd(kMultiplyHigh(a, b), c); };
constexpr auto kMadHighSaturated = []<class T>(T a, T b, T c) -> T {
  return kAddSaturated(kMultiplyHigh(a, b), c);
};
constexpr auto kMadWide = []<class T>(T a, T b, Wider<T> c) -> Wider<T> {
  return kAdd(kMultiplyWide(a, b), c);
};
/// Division by zero has no defined result; devices give all ones. The least value by -1 wraps.
constexpr auto kDivide = []<class T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return kSubtract(T{0}, a);
  return static_cast<T>(a / b);
};
constexpr auto kRemainder = []<class T>(T a, T b) -> T {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
};
constexpr auto kLeast = []<class T>(T a, T b) -> T { return std::min(a, b); };
constexpr auto kGreatest = []<class T>(T a, T b) -> T { return std::max(a, b); };
constexpr auto kLeastNotNegative = []<class T>(T a, T b) -> T { return std::max(T{0}, std::min(a, b)); };
constexpr auto kGreatestNotNegative = []<class T>(T a, T b) -> T { return std::max(T{0}, std::max(a, b)); };
constexpr auto kNegate = []<class T>(T a) -> T { return kSubtract(T{0}, a); };
constexpr auto kMagnitude = []<class T>(T a) -> T { return a < 0 ? kNegate(a) : a; };

template <auto kF>
Execute unary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply1<kF, decltype(t), decltype(t)>; });
}
template <auto kF>
Execute binary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply2<kF, decltype(t), decltype(t)>; });
}
template <auto kF>
Execute ternary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply3<kF, decltype(t), decltype(t)>; });
}

/// Of an integer of 16 or 32 bits.
Type wider(Type type) { return static_cast<Type>(static_cast<int>(type) + 1); }

template <class Use>
Execute with_narrow(Type type, Use use) {
  return with_integer(type, [&](auto value) -> Execute {
    if constexpr (sizeof(value) < 8)
      return use(value);
    else
      throw std::invalid_argument("no wider type");
  });
}

void decode_add(Decoding& decoding) {
  if (decoding.has("cc")) return decode_carrying(decoding);
  const bool adds = decoding.name() == "add";
  const bool saturated = decoding.take("sat");
  const auto type = decoding.take_type();
  if (saturated && type != Type::s32) decoding.refuse(".sat is for s32");
  if (saturated) {
    return decoding.finish_same(type, 2,
                                adds ? &apply2<kAddSaturated, std::int32_t, std::int32_t>
                                     : &apply2<kSubtractSaturated, std::int32_t, std::int32_t>);
  }
  decoding.finish_same(type, 2, adds ? binary<kAdd>(type) : binary<kSubtract>(type));
}

void decode_multiply(Decoding& decoding) {
  const int part = decoding.take_one_of({"lo", "hi", "wide"});
  const auto type = decoding.take_type();
  if (part < 0) decoding.refuse(".lo, .hi or .wide is missing");
  if (part < 2)
    return decoding.finish_same(type, 2,
                                part == 0 ? binary<kMultiplyLow>(type) : binary<kMultiplyHigh>(type));
  const auto execute = with_narrow(type, [](auto t) -> Execute {
    using T = decltype(t);
    return &apply2<kMultiplyWide, Wider<T>, T>;
  });
  decoding.finish_typed(wider(type), {type, type}, execute);
}

void decode_mad(Decoding& decoding) {
  if (decoding.has("cc")) return decode_carrying(decoding);
  const int part = decoding.take_one_of({"lo", "hi", "wide"});
  const bool saturated = decoding.take("sat");
  const auto type = decoding.take_type();
  if (part < 0) decoding.refuse(".lo, .hi or .wide is missing");
  if (saturated && (part != 1 || type != Type::s32)) decoding.refuse(".sat is for mad.hi.s32");
  if (part == 2) {
    const auto execute = with_narrow(type, [](auto t) -> Execute {
      using T = decltype(t);
      return &apply3<kMadWide, Wider<T>, T, T, Wider<T>>;
    });
    return decoding.finish_typed(wider(type), {type, type, wider(type)}, execute);
  }
  if (saturated) {
    return decoding.finish_same(type, 3, &apply3<kMadHighSaturated, std::int32_t, std::int32_t>);
  }
  decoding.finish_same(type, 3, part == 0 ? ternary<kMadLow>(type) : ternary<kMadHigh>(type));
}

void decode_extreme(Decoding& decoding) {
  const bool least = decoding.name() == "min";
  const bool relu = decoding.take("relu");
  const auto type = decoding.take_type();
  if (relu && type != Type::s32) decoding.refuse(".relu is for s32");
  if (relu) {
    return decoding.finish_same(type, 2,
                                least ? &apply2<kLeastNotNegative, std::int32_t, std::int32_t>
                                      : &apply2<kGreatestNotNegative, std::int32_t, std::int32_t>);
  }
  decoding.finish_same(type, 2, least ? binary<kLeast>(type) : binary<kGreatest>(type));
}

template <auto kF>
void decode_unary(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_same(type, 1, unary<kF>(type));
}

template <auto kF>
void decode_binary(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_same(type, 2, binary<kF>(type));
}

}  // namespace

void add_integer_instructions(Decoders& decoders) {
  constexpr auto kInteger = TypeClass::integer;
  decoders.add({"add", "sub"}, kInteger, decode_add);
  decoders.add({"mul"}, kInteger, decode_multiply);
  decoders.add({"mad"}, kInteger, decode_mad);
  decoders.add({"div"}, kInteger, decode_binary<kDivide>);
  decoders.add({"rem"}, kInteger, decode_binary<kRemainder>);
  decoders.add({"min", "max"}, kInteger, decode_extreme);
  decoders.add({"abs"}, kInteger, decode_unary<kMagnitude>);
  decoders.add({"neg"}, kInteger, decode_unary<kNegate>);
}

}  // namespace emulated_gpu
