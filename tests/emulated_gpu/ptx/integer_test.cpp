// Integer arithmetic against the host's, on edge and random values.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

using I128 = __int128;

template <class T>
std::string named(const char* operation) {
  return std::string(operation) + (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(sizeof(T) * 8);
}

template <class T>
void add_cases(std::vector<Case>& cases) {
  cases.push_back(binary_case<T, T>(named<T>("add"), [](T a, T b) { return I128{a} + b; }));
  cases.push_back(binary_case<T, T>(named<T>("sub"), [](T a, T b) { return I128{a} - b; }));
  cases.push_back(binary_case<T, T>(named<T>("mul.lo"), [](T a, T b) {
    return static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b);
  }));
  cases.push_back(binary_case<T, T>(named<T>("min"), [](T a, T b) { return std::min(a, b); }));
  cases.push_back(binary_case<T, T>(named<T>("max"), [](T a, T b) { return std::max(a, b); }));
  cases.push_back(ternary_case<T, T>(named<T>("mad.lo"), [](T a, T b, T c) {
    return static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) +
           static_cast<unsigned __int128>(c);
  }));
  const auto high = [](T a, T b) {
    if constexpr (std::is_signed_v<T>) return (I128{a} * b) >> (sizeof(T) * 8);
    if constexpr (!std::is_signed_v<T>)
      return static_cast<I128>((static_cast<unsigned __int128>(a) * b) >> (sizeof(T) * 8));
  };
  cases.push_back(binary_case<T, T>(named<T>("mul.hi"), high));
  cases.push_back(ternary_case<T, T>(named<T>("mad.hi"), [high](T a, T b, T c) { return high(a, b) + c; }));
  // The result of a division by zero is not defined.
  const auto not_zero = [](const std::string& opcode) { return "setp.eq" + opcode.substr(3) + " z, b, 0; "; };
  for (const bool divides : {true, false}) {
    const auto opcode = named<T>(divides ? "div" : "rem");
    auto guarded = binary_case<T, T>(opcode, [divides](T a, T b) {
      if (b == 0) return I128{a};
      return divides ? I128{a} / b : I128{a} % b;
    });
    guarded.body = "{ .reg .pred z; mov.b" + std::to_string(sizeof(T) * 8) + " d, a; " + not_zero(opcode) +
                   "@!z " + opcode + " d, a, b; }";
    cases.push_back(guarded);
  }
}

template <class T>
void add_signed_cases(std::vector<Case>& cases) {
  cases.push_back(unary_case<T, T>(named<T>("neg"), [](T a) { return -I128{a}; }));
  cases.push_back(unary_case<T, T>(named<T>("abs"), [](T a) { return a < 0 ? -I128{a} : I128{a}; }));
}

template <class Wide, class T>
void add_wide_cases(std::vector<Case>& cases) {
  cases.push_back(binary_case<Wide, T>(named<T>("mul.wide"), [](T a, T b) { return I128{a} * b; }));
  cases.push_back(ternary_case<Wide, T>(named<T>("mad.wide"), [](T a, T b, Wide c) {
    return static_cast<unsigned __int128>(I128{a} * b) + static_cast<unsigned __int128>(c);
  }));
  cases.back().source_bits[2] = sizeof(Wide) * 8;
  cases.back().expected = [](auto a, auto b, auto c) {
    return to_bits(static_cast<Wide>(static_cast<unsigned __int128>(I128{from_bits<T>(a)} * from_bits<T>(b)) +
                                     static_cast<unsigned __int128>(c)));
  };
}

TEST(PtxInteger, ArithmeticIsTheHosts) {
  std::vector<Case> cases;
  add_cases<std::uint16_t>(cases);
  add_cases<std::int16_t>(cases);
  add_cases<std::uint32_t>(cases);
  add_cases<std::int32_t>(cases);
  add_cases<std::uint64_t>(cases);
  add_cases<std::int64_t>(cases);
  add_signed_cases<std::int16_t>(cases);
  add_signed_cases<std::int32_t>(cases);
  add_signed_cases<std::int64_t>(cases);
  add_wide_cases<std::uint32_t, std::uint16_t>(cases);
  add_wide_cases<std::int32_t, std::int16_t>(cases);
  add_wide_cases<std::uint64_t, std::uint32_t>(cases);
  add_wide_cases<std::int64_t, std::int32_t>(cases);
  expect_as_host(cases);
}

std::int32_t clamped(std::int64_t value) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, INT32_MIN, INT32_MAX));
}

TEST(PtxInteger, SaturatedFormsAreTheHosts) {
  using S = std::int32_t;
  expect_as_host({
      binary_case<S, S>("add.sat.s32", [](S a, S b) { return clamped(std::int64_t{a} + b); }),
      binary_case<S, S>("sub.sat.s32", [](S a, S b) { return clamped(std::int64_t{a} - b); }),
      ternary_case<S, S>("mad.hi.sat.s32",
                         [](S a, S b, S c) { return clamped(((std::int64_t{a} * b) >> 32) + c); }),
  });
}

TEST(PtxInteger, CarriesGoFromOneInstructionToTheNext) {
  using U = std::uint32_t;
  const auto both = [](std::uint64_t high, std::uint64_t low) { return (high << 32) | low; };
  expect_as_host({
      // (c:a) + (c:b), the upper half
      ternary_case<U, U>("add.cc.u32 %word, a, b; addc.u32 d, c, c; //",
                         [=](U a, U b, U c) { return (both(c, a) + both(c, b)) >> 32; }),
      ternary_case<U, U>("sub.cc.u32 %word, a, b; subc.u32 d, c, a; //",
                         [=](U a, U b, U c) { return (both(c, a) - both(a, b)) >> 32; }),
      ternary_case<U, U>("mad.lo.cc.u32 %word, a, b, c; madc.hi.u32 d, a, b, c; //",
                         [=](U a, U b, U c) { return (std::uint64_t{a} * b + both(c, c)) >> 32; }),
  });
}

}  // namespace
}  // namespace emulated_gpu
