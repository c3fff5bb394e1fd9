// cvt between all numbers, with rounding and saturation; cvta and isspacep between spaces of addresses.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/memory.h"
#include "tests/emulated_gpu/ptx/real.h"

namespace emulated_gpu {
namespace {

constexpr std::uint8_t kToInteger = 64;  ///< a number with a point rounds to a whole one

template <class T>
constexpr bool kIsShort = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
template <class T>
constexpr bool kIsReal = kIsShort<T> || std::is_floating_point_v<T>;

template <class T>
double as_double(T value) {
  if constexpr (kIsShort<T>) {
    return widen(value);
  } else {
    return static_cast<double>(value);
  }
}

double whole(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return std::nearbyint(value);
    case Rounding::toward_zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
  }
  return value;
}

/// Real numbers clamp to the integer's range; NaN becomes 0, or the sign bit where one of the two has 64
/// bits.
template <class D>
D integer_from(double value, Rounding rounding, bool from_double) {
  using Limits = std::numeric_limits<D>;
  const bool wide = sizeof(D) == 8 || (from_double && sizeof(D) == 4);
  if (std::isnan(value)) return wide ? static_cast<D>(std::uint64_t{1} << (sizeof(D) * 8 - 1)) : D{0};
  value = whole(value, rounding);
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= std::ldexp(1.0, static_cast<int>(sizeof(D)) * 8 - std::is_signed_v<D>)) return Limits::max();
  return static_cast<D>(value);
}

template <class D, class S>
D saturated_integer(S value) {
  using Limits = std::numeric_limits<D>;
  if constexpr (std::is_signed_v<S>) {
    if (value < 0) {
      if constexpr (!std::is_signed_v<D>) return 0;
      return static_cast<std::int64_t>(value) < static_cast<std::int64_t>(Limits::min())
                 ? Limits::min()
                 : static_cast<D>(value);
    }
  }
  return static_cast<std::uint64_t>(value) > static_cast<std::uint64_t>(Limits::max())
             ? Limits::max()
             : static_cast<D>(value);
}

/// The host's rounding is set where it is not to nearest.
template <class D, class S>
D real_from(S value, std::uint8_t variant) {
  if constexpr (kIsShort<D>) {
    double exact = as_double(value);
    if constexpr (std::is_integral_v<S> && sizeof(S) == 8) {  // not all fit a double: to odd
      const auto rounded = static_cast<double>(value);
      const auto back = static_cast<__int128>(rounded) - static_cast<__int128>(value);
      exact = add_to_odd(rounded, -static_cast<double>(back));
    }
    if (variant & kToInteger) exact = whole(exact, rounding_of(variant));
    if (variant & kRelu) exact = exact < 0 ? 0 : exact;
    if (variant & kSaturate) exact = exact > 0 ? std::fmin(exact, 1) : 0;
    return narrow<D>(exact, rounding_of(variant));
  } else {
    D result = kIsShort<S> ? static_cast<D>(as_double(value)) : [&] {
      if constexpr (kIsShort<S>) {
        return D{};
      } else {
        return static_cast<D>(value);
      }
    }();
    if (variant & kToInteger) result = static_cast<D>(whole(result, rounding_of(variant)));
    if ((variant & kFlush) && std::fpclassify(result) == FP_SUBNORMAL) result = std::copysign(D{0}, result);
    if (variant & kSaturate) result = result > 0 ? std::fmin(result, D{1}) : D{0};
    if constexpr (std::is_same_v<D, float>) {
      if (result != result) return std::bit_cast<float>(std::uint32_t{0x7fffffff});
    }
    return result;
  }
}

template <class D, class S>
D converted(S value, std::uint8_t variant) {
  if constexpr (std::is_same_v<S, float>) {
    if ((variant & kFlush) && std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(0.0f, value);
  }
  if constexpr (kIsReal<D>) {
    return real_from<D>(value, variant);
  } else if constexpr (kIsReal<S>) {
    return integer_from<D>(as_double(value), rounding_of(variant), std::is_same_v<S, double>);
  } else {
    return variant & kSaturate ? saturated_integer<D>(value) : static_cast<D>(value);
  }
}

/// Rows may be wider than the types: the lower bits are read, and what is written is extended by its sign.
template <class S>
void read_row(Warp& warp, Slot slot, unsigned bytes, S* values) {
  if (bytes == sizeof(S)) {
    std::memcpy(values, warp.row<std::byte>(slot), sizeof(S) * kLanes);
    return;
  }
  const auto* const row = warp.row<std::byte>(slot);
  for (unsigned lane = 0; lane < kLanes; ++lane) std::memcpy(values + lane, row + lane * bytes, sizeof(S));
}

template <class D>
void write_row(Warp& warp, Slot slot, unsigned bytes, const D* values, Mask mask) {
  if constexpr (std::is_integral_v<D>) {
    if (bytes > sizeof(D)) {
      for_each_lane(mask, [&](unsigned lane) {
        const auto wide = static_cast<std::int64_t>(values[lane]);
        std::memcpy(warp.row<std::byte>(slot) + lane * bytes, &wide,
                    std::min<std::size_t>(bytes, sizeof wide));
      });
      return;
    }
  }
  if (bytes > sizeof(D)) {
    for_each_lane(mask, [&](unsigned lane) {
      std::uint64_t wide = 0;
      std::memcpy(&wide, values + lane, sizeof(D));
      std::memcpy(warp.row<std::byte>(slot) + lane * bytes, &wide, std::min<std::size_t>(bytes, sizeof wide));
    });
    return;
  }
  D* const row = warp.row<D>(slot);
  if (mask == kAllLanes) {
    std::memcpy(row, values, sizeof(D) * kLanes);
  } else {
    for_each_lane(mask, [&](unsigned lane) { row[lane] = values[lane]; });
  }
}

template <class D, class S>
void convert(Warp& warp, const Instruction& in, Mask mask) {
  S from[kLanes];
  D to[kLanes];
  read_row(warp, in.a, in.a_bytes, from);
  const auto variant = in.variant;
  if (rounding_of(variant) != Rounding::nearest_even && kIsReal<D> && !kIsShort<D>) {
    const HostRounding rounding(rounding_of(variant));
    for (unsigned lane = 0; lane < kLanes; ++lane) to[lane] = converted<D>(from[lane], variant);
  } else if (variant == 0) {
    for (unsigned lane = 0; lane < kLanes; ++lane) to[lane] = converted<D>(from[lane], 0);
  } else {
    for (unsigned lane = 0; lane < kLanes; ++lane) to[lane] = converted<D>(from[lane], variant);
  }
  write_row(warp, in.d, in.d_bytes, to, mask);
}

/// Two f32 to a packed pair: the first is the upper one.
template <class Short>
void convert_pair(Warp& warp, const Instruction& in, Mask mask) {
  const auto* const upper = warp.row<float>(in.a);
  const auto* const lower = warp.row<float>(in.b);
  auto* const d = warp.row<std::uint32_t>(in.d);
  for_each_lane(mask, [&](unsigned lane) {
    const auto high = converted<Short>(upper[lane], in.variant).bits;
    const auto low = converted<Short>(lower[lane], in.variant).bits;
    d[lane] = (static_cast<std::uint32_t>(high) << 16) | low;
  });
}

void decode_cvt(Decoding& decoding) {
  auto& in = decoding.in;
  const int to_whole = decoding.take_one_of({"rni", "rzi", "rmi", "rpi"});
  const auto rounding = to_whole >= 0 ? static_cast<Rounding>(to_whole) : decoding.take_rounding();
  in.variant = static_cast<std::uint8_t>(static_cast<unsigned>(rounding) | (to_whole >= 0 ? kToInteger : 0u) |
                                         (decoding.take("ftz") ? kFlush : 0u) |
                                         (decoding.take("sat") ? kSaturate : 0u) |
                                         (decoding.take("relu") ? kRelu : 0u));
  const auto to = decoding.take_type();
  const auto from = decoding.take_type();
  if (is_packed(to)) {
    if (from != Type::f32) decoding.refuse("a packed pair is made of f32");
    in.execute = to == Type::f16x2 ? &convert_pair<Half> : &convert_pair<Bfloat>;
    in.d = decoding.out(0, to);
    in.a = decoding.in_row(1, from);
    in.b = decoding.in_row(2, from);
    return decoding.finish(3);
  }
  const bool integers = class_of(to) == TypeClass::integer && class_of(from) == TypeClass::integer;
  if (integers) in.variant &= kSaturate;
  in.execute = with_type(to, [&](auto d) {
    return with_type(from, [&](auto s) -> Execute { return &convert<decltype(d), decltype(s)>; });
  });
  in.d = decoding.wide_out(decoding.operand(0), to, in.d_bytes);
  in.a = decoding.wide_in(decoding.operand(1), from, in.a_bytes);
  decoding.finish(2);
}

std::uint64_t window_of(Space space) {
  return space == Space::shared      ? kSharedWindow
         : space == Space::local     ? kLocalWindow
         : space == Space::parameter ? kParameterWindow
                                     : 0;
}

/// Adds the window's begin (kept as a constant row) or, to a space, takes it away.
constexpr auto kAddAddress = [](std::uint64_t a, std::uint64_t window) -> std::uint64_t {
  return a + window;
};
constexpr auto kSubtractAddress = [](std::uint64_t a, std::uint64_t window) -> std::uint64_t {
  return a - window;
};

Space want_space(Decoding& decoding) {
  const auto space = take_space(decoding);
  if (space == Space::generic) decoding.refuse("a space is missing");
  return space;
}

void decode_cvta(Decoding& decoding) {
  auto& in = decoding.in;
  const bool to_space = decoding.take("to");
  const auto window = window_of(want_space(decoding));
  const auto type = decoding.take_type();
  if (bytes_of(type) != 8) decoding.refuse("addresses have 64 bits");
  in.execute = to_space ? &apply2<kSubtractAddress, std::uint64_t, std::uint64_t>
                        : &apply2<kAddAddress, std::uint64_t, std::uint64_t>;
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.function().constant(window, 8);
  decoding.finish(2);
}

void is_in_space(Warp& warp, const Instruction& in, Mask mask) {
  const auto* const a = warp.row<std::uint64_t>(in.a);
  const auto space = static_cast<Space>(in.variant);
  const auto window = window_of(space);
  set_predicate(warp.predicate(in.d),
                lanes_where(mask,
                            [&](unsigned lane) {
                              if (window == 0) return a[lane] < kSharedWindow || a[lane] >= kWindowsEnd;
                              return a[lane] - window < kWindowBytes;
                            }),
                mask);
}

void decode_isspacep(Decoding& decoding) {
  auto& in = decoding.in;
  in.execute = &is_in_space;
  in.variant = static_cast<std::uint8_t>(want_space(decoding));
  in.d = decoding.out(0, Type::pred);
  in.a = decoding.in_row(1, Type::u64);
  decoding.finish(2);
}

}  // namespace

void add_convert_instructions(Decoders& decoders) {
  decoders.add({"cvt"}, decode_cvt);
  decoders.add({"cvta"}, decode_cvta);
  decoders.add({"isspacep"}, decode_isspacep);
}

}  // namespace emulated_gpu
