// Arithmetic of f16 and bf16, of one value or of two packed ones.

#include <cmath>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/real.h"

namespace emulated_gpu {
namespace {

// Doubles in, a double out that rounds to half precision as the exact result does.
constexpr auto kAdd = [](double a, double b) { return add_to_odd(a, b); };
constexpr auto kSubtract = [](double a, double b) { return add_to_odd(a, -b); };
constexpr auto kMultiply = [](double a, double b) { return a * b; };
constexpr auto kFuse = [](double a, double b, double c) { return fma_to_odd(a, b, c); };
constexpr auto kPowerOfTwo = [](double a) { return std::exp2(a); };
constexpr auto kHyperbolicTangent = [](double a) { return std::tanh(a); };
constexpr auto kLeast = [](double a, double b) {
  if (a != a || b != b) return a != a ? b : a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
};
constexpr auto kGreatest = [](double a, double b) {
  if (a != a || b != b) return a != a ? b : a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
};

template <class Short>
double flushed(double value) {
  return std::fabs(value) < std::ldexp(1.0, 2 - (1 << (Short::kExponentBits - 1))) ? std::copysign(0.0, value)
                                                                                   : value;
}

template <class Short>
Short finished(double value, std::uint8_t variant) {
  if (variant & kFlush) value = flushed<Short>(value);
  if (variant & kSaturate) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if ((variant & kRelu) && value < 0) value = 0;
  return narrow<Short>(value, rounding_of(variant));
}

/// Packed rows are rows of twice as many values: lane i has the values 2 i and 2 i + 1.
template <auto kF, class Short, int kSources, unsigned kPacked>
void halves(Warp& warp, const Instruction& in, Mask mask) {
  Short* const d = warp.row<Short>(in.d);
  const Short* const a = warp.row<Short>(in.a);
  const Short* const b = kSources > 1 ? warp.row<Short>(in.b) : nullptr;
  const Short* const c = kSources > 2 ? warp.row<Short>(in.c) : nullptr;
  const auto read = [&](const Short& value) {
    return in.variant & kFlush ? flushed<Short>(widen(value)) : widen(value);
  };
  for_each_lane(mask, [&](unsigned lane) {
    for (unsigned i = lane * kPacked; i < (lane + 1) * kPacked; ++i) {
      double value = 0;
      if constexpr (kSources == 1) value = kF(read(a[i]));
      if constexpr (kSources == 2) value = kF(read(a[i]), read(b[i]));
      if constexpr (kSources == 3) value = kF(read(a[i]), read(b[i]), read(c[i]));
      if constexpr (kSources == 2) {
        if ((in.variant & kPropagateNan) && (std::isnan(widen(a[i])) || std::isnan(widen(b[i])))) value = NAN;
      }
      d[i] = finished<Short>(value, in.variant);
    }
  });
}

/// neg and abs change the sign and nothing else.
template <unsigned kPacked, std::uint16_t kKeep, std::uint16_t kFlip>
void signs(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::uint16_t>(in.d);
  const auto* const a = warp.row<std::uint16_t>(in.a);
  for_each_lane(mask, [&](unsigned lane) {
    for (unsigned i = lane * kPacked; i < (lane + 1) * kPacked; ++i) {
      d[i] = static_cast<std::uint16_t>((a[i] & kKeep) ^ kFlip);
    }
  });
}

template <auto kF, int kSources>
Execute of_halves(Type type) {
  switch (type) {
    case Type::f16:
      return &halves<kF, Half, kSources, 1>;
    case Type::f16x2:
      return &halves<kF, Half, kSources, 2>;
    case Type::bf16:
      return &halves<kF, Bfloat, kSources, 1>;
    case Type::bf16x2:
      return &halves<kF, Bfloat, kSources, 2>;
    default:
      throw std::invalid_argument("no half type");
  }
}

template <auto kF, int kSources>
void decode_half(Decoding& decoding) {
  auto& in = decoding.in;
  decoding.take("approx");
  const auto rounding = decoding.take_rounding();
  in.variant = static_cast<std::uint8_t>(
      static_cast<unsigned>(rounding) | (decoding.take("ftz") ? kFlush : 0u) |
      (decoding.take("sat") ? kSaturate : 0u) | (decoding.take("relu") ? kRelu : 0u) |
      (decoding.take("NaN") ? kPropagateNan : 0u));
  const auto type = decoding.take_type();
  in.execute = of_halves<kF, kSources>(type);
  decoding.finish_same(type, kSources, in.execute);
}

void decode_sign(Decoding& decoding) {
  auto& in = decoding.in;
  const bool negates = decoding.name() == "neg";
  if (decoding.take("ftz")) decoding.refuse(".ftz is not known");
  const auto type = decoding.take_type();
  if (is_packed(type)) {
    in.execute = negates ? &signs<2, 0xffff, 0x8000> : &signs<2, 0x7fff, 0>;
  } else {
    in.execute = negates ? &signs<1, 0xffff, 0x8000> : &signs<1, 0x7fff, 0>;
  }
  decoding.finish_same(type, 1, in.execute);
}

}  // namespace

void add_half_instructions(Decoders& decoders) {
  constexpr auto kHalf = TypeClass::half;
  decoders.add({"add"}, kHalf, decode_half<kAdd, 2>);
  decoders.add({"sub"}, kHalf, decode_half<kSubtract, 2>);
  decoders.add({"mul"}, kHalf, decode_half<kMultiply, 2>);
  decoders.add({"fma"}, kHalf, decode_half<kFuse, 3>);
  decoders.add({"min"}, kHalf, decode_half<kLeast, 2>);
  decoders.add({"max"}, kHalf, decode_half<kGreatest, 2>);
  decoders.add({"ex2"}, kHalf, decode_half<kPowerOfTwo, 1>);
  decoders.add({"tanh"}, kHalf, decode_half<kHyperbolicTangent, 1>);
  decoders.add({"abs", "neg"}, kHalf, decode_sign);
}

}  // namespace emulated_gpu
