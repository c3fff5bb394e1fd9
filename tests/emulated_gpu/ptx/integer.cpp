// Integer arithmetic: add, sub, mul, mad, div, rem, abs, neg, min, max, sad, dp4a.

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

struct Add {
  template <class T>
  static T of(T a, T b) {
    return wrap<T>(unwrap(a) + unwrap(b));
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return wrap<T>(unwrap(a) - unwrap(b));
  }
};
template <class T>
T clamp_wide(Wider<T> value) {
  using Limits = std::numeric_limits<T>;
  return static_cast<T>(std::clamp<Wider<T>>(value, Limits::min(), Limits::max()));
}
struct AddSaturated {
  template <class T>
  static T of(T a, T b) {
    return clamp_wide<T>(Wider<T>{a} + b);
  }
};
struct SubtractSaturated {
  template <class T>
  static T of(T a, T b) {
    return clamp_wide<T>(Wider<T>{a} - b);
  }
};
struct MultiplyLow {
  template <class T>
  static T of(T a, T b) {
    return wrap<T>(unwrap(a) * unwrap(b));
  }
};
struct MultiplyHigh {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((Wider<T>{a} * Wider<T>{b}) >> (sizeof(T) * 8));
  }
};
struct MultiplyWide {
  template <class T>
  static Wider<T> of(T a, T b) {
    return Wider<T>{a} * Wider<T>{b};
  }
};
struct MadLow {
  template <class T>
  static T of(T a, T b, T c) {
    return wrap<T>(unwrap(a) * unwrap(b) + unwrap(c));
  }
};
struct MadHigh {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(MultiplyHigh::of(a, b), c);
  }
};
struct MadHighSaturated {
  template <class T>
  static T of(T a, T b, T c) {
    return AddSaturated::of(MultiplyHigh::of(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static Wider<T> of(T a, T b, Wider<T> c) {
    return Add::of(MultiplyWide::of(a, b), c);
  }
};
template <class T>
T low_24(T value) {  // sign-extended for signed types
  return static_cast<T>(static_cast<T>(static_cast<std::uint32_t>(value) << 8) >> 8);
}
struct Multiply24Low {
  template <class T>
  static T of(T a, T b) {
    return MultiplyLow::of(low_24(a), low_24(b));
  }
};
struct Multiply24High {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((Wider<T>{low_24(a)} * low_24(b)) >> 16);
  }
};
struct Mad24Low {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(Multiply24Low::of(a, b), c);
  }
};
struct Mad24High {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(Multiply24High::of(a, b), c);
  }
};
/// Division by zero has no defined result; devices give all ones. The least value by -1 wraps.
struct Divide {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract::of(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return std::min(a, b);
  }
};
struct Greatest {
  template <class T>
  static T of(T a, T b) {
    return std::max(a, b);
  }
};
struct LeastNotNegative {
  template <class T>
  static T of(T a, T b) {
    return std::max(T{0}, std::min(a, b));
  }
};
struct GreatestNotNegative {
  template <class T>
  static T of(T a, T b) {
    return std::max(T{0}, std::max(a, b));
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    return Subtract::of(T{0}, a);
  }
};
struct Magnitude {
  template <class T>
  static T of(T a) {
    return a < 0 ? Negate::of(a) : a;
  }
};
struct SumOfDifference {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(c, a < b ? Subtract::of(b, a) : Subtract::of(a, b));
  }
};

template <class F>
Execute unary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply1<F, decltype(t), decltype(t)>; });
}
template <class F>
Execute binary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply2<F, decltype(t), decltype(t)>; });
}
template <class F>
Execute ternary(Type type) {
  return with_integer(type, [](auto t) -> Execute { return &apply3<F, decltype(t), decltype(t)>; });
}

Type wider(Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      throw std::invalid_argument("no wider type");
  }
}

template <class Use>
Execute with_narrow(Type type, Use use) {
  switch (type) {
    case Type::u16:
      return use(std::uint16_t{});
    case Type::s16:
      return use(std::int16_t{});
    case Type::u32:
      return use(std::uint32_t{});
    case Type::s32:
      return use(std::int32_t{});
    default:
      throw std::invalid_argument("no wider type");
  }
}

void finish_ternary(Decoding& decoding, Type type, Type of_sum, Execute execute) {
  decoding.in.execute = execute;
  decoding.in.d = decoding.out(0, of_sum);
  decoding.in.a = decoding.in_row(1, type);
  decoding.in.b = decoding.in_row(2, type);
  decoding.in.c = decoding.in_row(3, of_sum);
  decoding.finish(4);
}

void decode_add(Decoding& decoding) {
  if (decoding.has("cc")) return decode_carrying(decoding);
  const bool adds = decoding.name() == "add";
  const bool saturated = decoding.take("sat");
  const auto type = decoding.take_type();
  if (saturated && type != Type::s32) decoding.refuse(".sat is for s32");
  if (saturated) {
    return decoding.finish_same(type, 2,
                                adds ? &apply2<AddSaturated, std::int32_t, std::int32_t>
                                     : &apply2<SubtractSaturated, std::int32_t, std::int32_t>);
  }
  decoding.finish_same(type, 2, adds ? binary<Add>(type) : binary<Subtract>(type));
}

void decode_multiply(Decoding& decoding) {
  const int part = decoding.take_one_of({"lo", "hi", "wide"});
  const auto type = decoding.take_type();
  if (part < 0) decoding.refuse(".lo, .hi or .wide is missing");
  if (part < 2)
    return decoding.finish_same(type, 2, part == 0 ? binary<MultiplyLow>(type) : binary<MultiplyHigh>(type));
  auto& in = decoding.in;
  in.execute = with_narrow(type, [](auto t) -> Execute {
    using T = decltype(t);
    return &apply2<MultiplyWide, Wider<T>, T>;
  });
  in.d = decoding.out(0, wider(type));
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  decoding.finish(3);
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
      return &apply3<MadWide, Wider<T>, T, T, Wider<T>>;
    });
    return finish_ternary(decoding, type, wider(type), execute);
  }
  if (saturated) {
    return finish_ternary(decoding, type, type, &apply3<MadHighSaturated, std::int32_t, std::int32_t>);
  }
  finish_ternary(decoding, type, type, part == 0 ? ternary<MadLow>(type) : ternary<MadHigh>(type));
}

void decode_24(Decoding& decoding) {
  const bool high = decoding.take_one_of({"hi", "lo"}) == 0;
  const auto type = decoding.take_type();
  const auto choose = [&]<class F>(F) -> Execute {
    return type == Type::s32 ? &apply2<F, std::int32_t, std::int32_t>
                             : &apply2<F, std::uint32_t, std::uint32_t>;
  };
  const auto choose3 = [&]<class F>(F) -> Execute {
    return type == Type::s32 ? &apply3<F, std::int32_t, std::int32_t>
                             : &apply3<F, std::uint32_t, std::uint32_t>;
  };
  if (bytes_of(type) != 4) decoding.refuse("it is for 32 bits");
  if (decoding.name() == "mul24") {
    return decoding.finish_same(type, 2, high ? choose(Multiply24High{}) : choose(Multiply24Low{}));
  }
  finish_ternary(decoding, type, type, high ? choose3(Mad24High{}) : choose3(Mad24Low{}));
}

void decode_extreme(Decoding& decoding) {
  const bool least = decoding.name() == "min";
  const bool relu = decoding.take("relu");
  const auto type = decoding.take_type();
  if (relu && type != Type::s32) decoding.refuse(".relu is for s32");
  if (relu) {
    return decoding.finish_same(type, 2,
                                least ? &apply2<LeastNotNegative, std::int32_t, std::int32_t>
                                      : &apply2<GreatestNotNegative, std::int32_t, std::int32_t>);
  }
  decoding.finish_same(type, 2, least ? binary<Least>(type) : binary<Greatest>(type));
}

/// Sum of the products of four signed or unsigned bytes each, and c.
template <bool kSignedA, bool kSignedB>
struct DotOfBytes {
  template <bool kSigned>
  static std::int32_t byte_of(std::uint32_t word, int i) {
    const auto byte = static_cast<std::uint8_t>(word >> (8 * i));
    return kSigned ? static_cast<std::int8_t>(byte) : byte;
  }
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    for (int i = 0; i < 4; ++i)
      c += static_cast<std::uint32_t>(byte_of<kSignedA>(a, i) * byte_of<kSignedB>(b, i));
    return c;
  }
};

void decode_dot(Decoding& decoding) {
  const auto first = decoding.take_type();
  const auto second = decoding.has_type() ? decoding.take_type() : first;
  const auto execute = [&]() -> Execute {
    if (is_signed(first)) {
      return is_signed(second) ? &apply3<DotOfBytes<true, true>, std::uint32_t, std::uint32_t>
                               : &apply3<DotOfBytes<true, false>, std::uint32_t, std::uint32_t>;
    }
    return is_signed(second) ? &apply3<DotOfBytes<false, true>, std::uint32_t, std::uint32_t>
                             : &apply3<DotOfBytes<false, false>, std::uint32_t, std::uint32_t>;
  }();
  finish_ternary(decoding, Type::b32, Type::b32, execute);
}

template <class F>
void decode_unary(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_same(type, 1, unary<F>(type));
}

template <class F>
void decode_binary(Decoding& decoding) {
  const auto type = decoding.take_type();
  decoding.finish_same(type, 2, binary<F>(type));
}

void decode_sad(Decoding& decoding) {
  const auto type = decoding.take_type();
  finish_ternary(decoding, type, type, ternary<SumOfDifference>(type));
}

}  // namespace

void add_integer_instructions(Decoders& decoders) {
  constexpr auto kInteger = TypeClass::integer;
  decoders.add({"add", "sub"}, kInteger, decode_add);
  decoders.add({"mul"}, kInteger, decode_multiply);
  decoders.add({"mad"}, kInteger, decode_mad);
  decoders.add({"mul24", "mad24"}, kInteger, decode_24);
  decoders.add({"div"}, kInteger, decode_binary<Divide>);
  decoders.add({"rem"}, kInteger, decode_binary<Remainder>);
  decoders.add({"min", "max"}, kInteger, decode_extreme);
  decoders.add({"abs"}, kInteger, decode_unary<Magnitude>);
  decoders.add({"neg"}, kInteger, decode_unary<Negate>);
  decoders.add({"sad"}, kInteger, decode_sad);
  decoders.add({"dp4a"}, kInteger, decode_dot);
}

}  // namespace emulated_gpu
