// Arithmetic of f32 and f64. Compiled with -frounding-math and without contraction: what rounds, rounds as
// told.

#include "tests/emulated_gpu/ptx/real.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {

HostRounding::HostRounding(Rounding rounding) : before_(std::fegetround()) {
  constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(kModes[static_cast<std::size_t>(rounding)]);
}

HostRounding::~HostRounding() { std::fesetround(before_); }

namespace {

/// Devices give one NaN for f32; for f64 they keep what came in, as hosts do.
float canonical(float value) {
  return value != value ? std::bit_cast<float>(std::uint32_t{0x7fffffff}) : value;
}
double canonical(double value) { return value; }

template <class T>
T flushed(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T{0}, value) : value;
}

template <class T>
T saturated(T value) {
  return value > T{0} ? (value < T{1} ? value : T{1}) : T{0};
}

constexpr auto kAdd = []<class T>(T a, T b) -> T { return canonical(a + b); };
constexpr auto kSubtract = []<class T>(T a, T b) -> T { return canonical(a - b); };
constexpr auto kMultiply = []<class T>(T a, T b) -> T { return canonical(a * b); };
constexpr auto kDivide = []<class T>(T a, T b) -> T { return canonical(a / b); };
constexpr auto kFuse = []<class T>(T a, T b, T c) -> T { return canonical(std::fma(a, b, c)); };
constexpr auto kRoot = []<class T>(T a) -> T { return canonical(std::sqrt(a)); };
constexpr auto kReciprocal = []<class T>(T a) -> T { return canonical(T{1} / a); };
// Approximations of the device are a few units of the last place off; these are the nearest values.
constexpr auto kReciprocalRoot = []<class T>(T a) -> T {
  return canonical(static_cast<T>(1 / std::sqrt(static_cast<long double>(a))));
};
constexpr auto kPowerOfTwo = [](float a) {
  return canonical(static_cast<float>(std::exp2(static_cast<double>(a))));
};
constexpr auto kLogarithmToTwo = [](float a) {
  return canonical(static_cast<float>(std::log2(static_cast<double>(a))));
};
constexpr auto kSine = [](float a) {
  return canonical(static_cast<float>(std::sin(static_cast<double>(a))));
};
constexpr auto kCosine = [](float a) {
  return canonical(static_cast<float>(std::cos(static_cast<double>(a))));
};
constexpr auto kHyperbolicTangent = [](float a) {
  return canonical(static_cast<float>(std::tanh(static_cast<double>(a))));
};
constexpr auto kMagnitude = []<class T>(T a) -> T { return std::fabs(a); };
constexpr auto kNegate = []<class T>(T a) -> T { return -a; };
constexpr auto kWithSignOf = []<class T>(T sign, T magnitude) -> T { return std::copysign(magnitude, sign); };
/// Of a number and NaN the number; -0 is less than 0.
constexpr auto kLeast = []<class T>(T a, T b) -> T {
  if (a != a) return canonical(b);
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
};
constexpr auto kGreatest = []<class T>(T a, T b) -> T {
  if (a != a) return canonical(b);
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
};
template <auto kF>
constexpr auto kOrNan = []<class T>(T a, T b) -> T { return a != a || b != b ? canonical(a + b) : kF(a, b); };

/// With every option: inputs flushed, the host's rounding set, results flushed and saturated.
template <auto kF, class T, int kSources>
void with_options(Warp& warp, const Instruction& in, Mask mask) {
  const HostRounding rounding(rounding_of(in.variant));
  T* const d = warp.row<T>(in.d);
  const T* const a = warp.row<T>(in.a);
  const T* const b = kSources > 1 ? warp.row<T>(in.b) : nullptr;
  const T* const c = kSources > 2 ? warp.row<T>(in.c) : nullptr;
  const auto prepared = [&](T value) { return in.variant & kFlush ? flushed(value) : value; };
  for_each_lane(mask, [&](unsigned lane) {
    T value;
    if constexpr (kSources == 1) value = kF(prepared(a[lane]));
    if constexpr (kSources == 2) value = kF(prepared(a[lane]), prepared(b[lane]));
    if constexpr (kSources == 3) value = kF(prepared(a[lane]), prepared(b[lane]), prepared(c[lane]));
    value = prepared(value);
    d[lane] = in.variant & kSaturate ? saturated(value) : value;
  });
}

template <auto kF, class T, int kSources>
Execute plain_or_optional(std::uint8_t variant) {
  if (variant != 0) return &with_options<kF, T, kSources>;
  if constexpr (kSources == 1) return &apply1<kF, T, T>;
  if constexpr (kSources == 2) return &apply2<kF, T, T>;
  if constexpr (kSources == 3) return &apply3<kF, T, T>;
}

/// How one instruction may be approximated where it names no rounding.
enum class Approximate { never, allowed, always };

template <auto kF, int kSources, Approximate kApproximate = Approximate::never>
void decode_real(Decoding& decoding) {
  auto& in = decoding.in;
  if (kApproximate != Approximate::never) decoding.take_one_of({"approx", "full"});
  const auto rounding =
      kApproximate == Approximate::always ? Rounding::nearest_even : decoding.take_rounding();
  in.variant =
      static_cast<std::uint8_t>(static_cast<unsigned>(rounding) | (decoding.take("ftz") ? kFlush : 0u) |
                                (decoding.take("sat") ? kSaturate : 0u));
  const auto type = decoding.take_type();
  in.execute = type == Type::f64 ? plain_or_optional<kF, double, kSources>(in.variant)
                                 : plain_or_optional<kF, float, kSources>(in.variant);
  decoding.finish_same(type, kSources, in.execute);
}

/// Of f32 only.
template <auto kF>
void decode_function(Decoding& decoding) {
  auto& in = decoding.in;
  decoding.take("approx");
  in.variant = decoding.take("ftz") ? kFlush : 0;
  const auto type = decoding.take_type();
  if (type != Type::f32) decoding.refuse("it is for f32");
  in.execute = plain_or_optional<kF, float, 1>(in.variant);
  decoding.finish_same(type, 1, in.execute);
}

template <auto kF>
void decode_extreme(Decoding& decoding) {
  auto& in = decoding.in;
  in.variant = decoding.take("ftz") ? kFlush : 0;
  const bool nan = decoding.take("NaN");
  const auto type = decoding.take_type();
  if (type == Type::f64) {
    in.execute = nan ? plain_or_optional<kOrNan<kF>, double, 2>(in.variant)
                     : plain_or_optional<kF, double, 2>(in.variant);
  } else {
    in.execute = nan ? plain_or_optional<kOrNan<kF>, float, 2>(in.variant)
                     : plain_or_optional<kF, float, 2>(in.variant);
  }
  decoding.finish_same(type, 2, in.execute);
}

template <class T>
bool is_of_kind(T value, unsigned kind) {
  switch (kind) {
    case 0:
      return std::isfinite(value);
    case 1:
      return std::isinf(value);
    case 2:
      return !std::isnan(value);
    case 3:
      return std::isnan(value);
    case 4:
      return std::fpclassify(value) == FP_NORMAL;
    default:
      return std::fpclassify(value) == FP_SUBNORMAL;
  }
}

template <class T>
void test_property(Warp& warp, const Instruction& in, Mask mask) {
  const T* const a = warp.row<T>(in.a);
  set_predicate(warp.predicate(in.d),
                lanes_where(mask, [&](unsigned lane) { return is_of_kind(a[lane], in.variant); }), mask);
}

void decode_test(Decoding& decoding) {
  auto& in = decoding.in;
  const int kind =
      decoding.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (kind < 0) decoding.refuse("a property is missing");
  in.variant = static_cast<std::uint8_t>(kind);
  const auto type = decoding.take_type();
  in.execute = type == Type::f64 ? &test_property<double> : &test_property<float>;
  in.d = decoding.out(0, Type::pred);
  in.a = decoding.in_row(1, type);
  decoding.finish(2);
}

}  // namespace

void add_real_instructions(Decoders& decoders) {
  constexpr auto kReal = TypeClass::real;
  decoders.add({"add"}, kReal, decode_real<kAdd, 2>);
  decoders.add({"sub"}, kReal, decode_real<kSubtract, 2>);
  decoders.add({"mul"}, kReal, decode_real<kMultiply, 2>);
  decoders.add({"fma", "mad"}, kReal, decode_real<kFuse, 3>);
  decoders.add({"div"}, kReal, decode_real<kDivide, 2, Approximate::allowed>);
  decoders.add({"sqrt"}, kReal, decode_real<kRoot, 1, Approximate::allowed>);
  decoders.add({"rcp"}, kReal, decode_real<kReciprocal, 1, Approximate::allowed>);
  decoders.add({"rsqrt"}, kReal, decode_real<kReciprocalRoot, 1, Approximate::always>);
  decoders.add({"ex2"}, kReal, decode_function<kPowerOfTwo>);
  decoders.add({"lg2"}, kReal, decode_function<kLogarithmToTwo>);
  decoders.add({"sin"}, kReal, decode_function<kSine>);
  decoders.add({"cos"}, kReal, decode_function<kCosine>);
  decoders.add({"tanh"}, kReal, decode_function<kHyperbolicTangent>);
  decoders.add({"abs"}, kReal, decode_real<kMagnitude, 1>);
  decoders.add({"neg"}, kReal, decode_real<kNegate, 1>);
  decoders.add({"copysign"}, kReal, decode_real<kWithSignOf, 2>);
  decoders.add({"min"}, kReal, decode_extreme<kLeast>);
  decoders.add({"max"}, kReal, decode_extreme<kGreatest>);
  decoders.add({"testp"}, kReal, decode_test);
}

}  // namespace emulated_gpu
