// Comparisons and selections against the host's.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

template <class T, class F>
Case setp_case(const std::string& opcode, F holds) {
  return {opcode + " d, a, b;", 1, {sizeof(T) * 8, sizeof(T) * 8}, [=](auto a, auto b, auto) {
            return std::uint64_t{holds(from_bits<T>(a), from_bits<T>(b))};
          }};
}

template <class T>
void add_ordered(std::vector<Case>& cases, const std::string& type) {
  cases.push_back(setp_case<T>("setp.eq." + type, [](T a, T b) { return a == b; }));
  cases.push_back(setp_case<T>("setp.ne." + type, [](T a, T b) { return a < b || a > b; }));
  cases.push_back(setp_case<T>("setp.lt." + type, [](T a, T b) { return a < b; }));
  cases.push_back(setp_case<T>("setp.le." + type, [](T a, T b) { return a <= b; }));
  cases.push_back(setp_case<T>("setp.gt." + type, [](T a, T b) { return a > b; }));
  cases.push_back(setp_case<T>("setp.ge." + type, [](T a, T b) { return a >= b; }));
}

template <class T>
void add_unordered(std::vector<Case>& cases, const std::string& type) {
  cases.push_back(setp_case<T>("setp.equ." + type, [](T a, T b) { return !(a < b || a > b); }));
  cases.push_back(setp_case<T>("setp.neu." + type, [](T a, T b) { return !(a == b); }));
  cases.push_back(setp_case<T>("setp.ltu." + type, [](T a, T b) { return !(a >= b); }));
  cases.push_back(setp_case<T>("setp.leu." + type, [](T a, T b) { return !(a > b); }));
  cases.push_back(setp_case<T>("setp.gtu." + type, [](T a, T b) { return !(a <= b); }));
  cases.push_back(setp_case<T>("setp.geu." + type, [](T a, T b) { return !(a < b); }));
  cases.push_back(
      setp_case<T>("setp.num." + type, [](T a, T b) { return !std::isnan(a) && !std::isnan(b); }));
  cases.push_back(setp_case<T>("setp.nan." + type, [](T a, T b) { return std::isnan(a) || std::isnan(b); }));
}

TEST(PtxCompare, ComparisonsAreTheHosts) {
  std::vector<Case> cases;
  add_ordered<std::uint16_t>(cases, "u16");
  add_ordered<std::int16_t>(cases, "s16");
  add_ordered<std::uint32_t>(cases, "u32");
  add_ordered<std::int32_t>(cases, "s32");
  add_ordered<std::uint64_t>(cases, "u64");
  add_ordered<std::int64_t>(cases, "s64");
  add_ordered<float>(cases, "f32");
  add_ordered<double>(cases, "f64");
  add_unordered<float>(cases, "f32");
  add_unordered<double>(cases, "f64");
  cases.push_back(setp_case<std::uint32_t>("setp.lo.u32", [](auto a, auto b) { return a < b; }));
  cases.push_back(setp_case<std::uint32_t>("setp.hs.u32", [](auto a, auto b) { return a >= b; }));
  cases.push_back(setp_case<std::uint64_t>("setp.ne.b64", [](auto a, auto b) { return a != b; }));
  expect_as_host(cases);
}

TEST(PtxCompare, HalvesAreComparedAsNumbers) {
  const auto value = [](auto bits) { return static_cast<float>(from_bits<_Float16>(bits)); };
  const auto half_case = [=](const std::string& opcode, auto holds) {
    return Case{opcode + " d, a, b;", 1, {16, 16}, [=](auto a, auto b, auto) {
                  return std::uint64_t{holds(value(a), value(b))};
                }};
  };
  expect_as_host({half_case("setp.lt.f16", [](float a, float b) { return a < b; }),
                  half_case("setp.neu.f16", [](float a, float b) { return a != b; })});
}

TEST(PtxCompare, ResultsAreCombinedWithAPredicate) {
  const auto combined = [](const std::string& body, auto holds) {
    return Case{
        body, 1, {32, 32, 1}, [=](auto a, auto b, auto c) {
          return std::uint64_t{holds(static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b), c != 0)};
        }};
  };
  expect_as_host({
      combined("setp.lt.and.s32 d, a, b, c;", [](bool lt, bool c) { return lt && c; }),
      combined("setp.lt.or.s32 d, a, b, !c;", [](bool lt, bool c) { return lt || !c; }),
      combined("setp.lt.xor.s32 d, a, b, c;", [](bool lt, bool c) { return lt != c; }),
      combined("{ .reg .pred q; setp.lt.and.s32 q|d, a, b, c; }", [](bool lt, bool c) { return !lt && c; }),
  });
}

TEST(PtxCompare, SelectionsAreTheHosts) {
  const auto selp = [](const std::string& type, unsigned bits) {
    return Case{"selp." + type + " d, a, b, c;", bits, {bits, bits, 1}, [](auto a, auto b, auto c) {
                  return c ? a : b;
                }};
  };
  std::vector<Case> cases{selp("b16", 16), selp("s32", 32), selp("f32", 32), selp("u64", 64),
                          selp("f64", 64)};
  cases.push_back({"set.lt.u32.s32 d, a, b;", 32, {32, 32}, [](auto a, auto b, auto) -> std::uint64_t {
                     return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? 0xffffffff : 0;
                   }});
  cases.push_back({"set.gt.f32.f32 d, a, b;", 32, {32, 32}, [](auto a, auto b, auto) {
                     return to_bits(from_bits<float>(a) > from_bits<float>(b) ? 1.0f : 0.0f);
                   }});
  expect_as_host(cases);
}

}  // namespace
}  // namespace emulated_gpu
