// Arithmetic of f32 and f64 against the host's, in all four roundings. (Compiled without contraction, as the
// emulator is.)

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

struct Mode {
  const char* name;
  int host;
};
constexpr Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class T>
std::string type_name() {
  return sizeof(T) == 8 ? ".f64" : ".f32";
}

/// Both NaN, or the same bits: a NaN of f64 becomes 0 on both sides.
template <class T>
Case without_nan(Case of_case) {
  if (sizeof(T) == 4) return of_case;
  of_case.body = "{ .reg .f64 q; .reg .pred n; " + of_case.body +
                 " testp.notanumber.f64 n, d; @n mov.f64 d, 0d0000000000000000; }";
  const auto expected = of_case.expected;
  of_case.expected = [expected](auto a, auto b, auto c) {
    const auto bits = expected(a, b, c);
    return std::isnan(from_bits<double>(bits)) ? 0 : bits;
  };
  return of_case;
}

template <class T>
void add_rounded(std::vector<Case>& cases, const Mode& mode) {
  const auto name = [&](const char* operation) {
    return std::string(operation) + "." + mode.name + type_name<T>();
  };
  const auto binary = [&](const char* operation, auto function) {
    cases.push_back(without_nan<T>(binary_case<T, T>(name(operation), [=, host = mode.host](T a, T b) {
      return canonical(rounded(host, [&]() -> T {
        const volatile T x = a, y = b;
        return function(static_cast<T>(x), static_cast<T>(y));
      }));
    })));
  };
  binary("add", [](T a, T b) { return a + b; });
  binary("sub", [](T a, T b) { return a - b; });
  binary("mul", [](T a, T b) { return a * b; });
  binary("div", [](T a, T b) { return a / b; });
  cases.push_back(without_nan<T>(ternary_case<T, T>(name("fma"), [host = mode.host](T a, T b, T c) {
    return canonical(rounded(host, [&]() -> T { return std::fma(a, b, c); }));
  })));
  cases.push_back(without_nan<T>(unary_case<T, T>(name("sqrt"), [host = mode.host](T a) {
    return canonical(rounded(host, [&]() -> T { return std::sqrt(a); }));
  })));
  cases.push_back(without_nan<T>(unary_case<T, T>(name("rcp"), [host = mode.host](T a) {
    return canonical(rounded(host, [&]() -> T {
      const volatile T x = a;
      return T{1} / x;
    }));
  })));
}

TEST(PtxReal, RoundedArithmeticIsTheHosts) {
  for (const auto& mode : kModes) {
    std::vector<Case> cases;
    add_rounded<float>(cases, mode);
    add_rounded<double>(cases, mode);
    expect_as_host(cases);
  }
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}
float saturated(float value) { return value > 0 ? std::fmin(value, 1.0f) : 0.0f; }

TEST(PtxReal, SubnormalsAreFlushedAndResultsSaturatedWhereAsked) {
  expect_as_host({
      binary_case<float, float>("add.ftz.f32",
                                [](float a, float b) { return canonical(flushed(flushed(a) + flushed(b))); }),
      binary_case<float, float>("mul.ftz.f32",
                                [](float a, float b) { return canonical(flushed(flushed(a) * flushed(b))); }),
      binary_case<float, float>("add.sat.f32", [](float a, float b) { return saturated(a + b); }),
      binary_case<float, float>("mul.ftz.sat.f32",
                                [](float a, float b) { return saturated(flushed(flushed(a) * flushed(b))); }),
      unary_case<float, float>("sqrt.rn.ftz.f32", [](float a) { return canonical(std::sqrt(flushed(a))); }),
  });
}

template <class T>
T least(T a, T b) {
  if (std::isnan(a)) return canonical(b);
  if (std::isnan(b)) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T>
void add_others(std::vector<Case>& cases) {
  const auto type = type_name<T>();
  cases.push_back(without_nan<T>(binary_case<T, T>("min" + type, [](T a, T b) { return least(a, b); })));
  cases.push_back(without_nan<T>(binary_case<T, T>("max" + type, [](T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return least(a, b);
    return -least(-a, -b);
  })));
  cases.push_back(unary_case<T, T>("abs" + type, [](T a) { return std::fabs(a); }));
  cases.push_back(unary_case<T, T>("neg" + type, [](T a) { return -a; }));
  cases.push_back(binary_case<T, T>("copysign" + type, [](T a, T b) { return std::copysign(b, a); }));
  const auto property = [&](const char* name, auto holds) {
    cases.push_back(
        {std::string("testp.") + name + type + " d, a;", 1, {sizeof(T) * 8}, [=](auto a, auto, auto) {
           return std::uint64_t{holds(from_bits<T>(a))};
         }});
  };
  property("finite", [](T a) { return std::isfinite(a); });
  property("infinite", [](T a) { return std::isinf(a); });
  property("number", [](T a) { return !std::isnan(a); });
  property("notanumber", [](T a) { return std::isnan(a); });
  property("normal", [](T a) { return std::isnormal(a); });
  property("subnormal", [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

TEST(PtxReal, ExtremesSignsAndPropertiesAreTheHosts) {
  std::vector<Case> cases;
  add_others<float>(cases);
  add_others<double>(cases);
  cases.push_back(binary_case<float, float>("min.NaN.f32", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? canonical(NAN) : least(a, b);
  }));
  expect_as_host(cases);
}

/// Approximations: the device's are within 2^-20 or so, this emulator's are the nearest values.
TEST(PtxReal, ApproximationsAreTheNearestValues) {
  const auto near = [](const std::string& opcode, auto function) {
    return unary_case<float, float>(opcode + ".approx.f32", [=](float a) {
      return canonical(static_cast<float>(function(static_cast<double>(a))));
    });
  };
  expect_as_host({
      near("ex2", [](double a) { return std::exp2(a); }),
      near("lg2", [](double a) { return std::log2(a); }),
      near("rcp", [](double a) { return 1 / a; }),
      near("sqrt", [](double a) { return std::sqrt(a); }),
      near("sin", [](double a) { return std::sin(a); }),
      near("cos", [](double a) { return std::cos(a); }),
      near("tanh", [](double a) { return std::tanh(a); }),
      binary_case<float, float>("div.approx.f32", [](float a, float b) { return canonical(a / b); }),
      binary_case<float, float>("div.full.f32", [](float a, float b) { return canonical(a / b); }),
  });
}

TEST(PtxReal, NumbersInTheTextKeepTheirBits) {
  expect_as_host({
      {"add.f32 d, a, 0f3F800000;",
       32,
       {32},
       [](auto a, auto, auto) { return to_bits(canonical(from_bits<float>(a) + 1.0f)); }},
      {"mov.f32 d, 0f7FC01234;", 32, {32}, [](auto, auto, auto) { return std::uint64_t{0x7fc01234}; }},
      {"mov.f64 d, 0dBFF8000000000000;", 64, {32}, [](auto, auto, auto) { return to_bits(-1.5); }},
      {"mov.b32 d, 0f40490FDB;", 32, {32}, [](auto, auto, auto) { return std::uint64_t{0x40490fdb}; }},
      {"mov.f64 d, -2.5e-1;", 64, {32}, [](auto, auto, auto) { return to_bits(-0.25); }},
  });
}

}  // namespace
}  // namespace emulated_gpu
