// cvt against the host's conversions; cvta, isspacep, and packing.

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

template <class T>
std::string name_of_integer() {
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(sizeof(T) * 8);
}

template <class D, class S>
void add_integer_case(std::vector<Case>& cases) {
  cases.push_back(unary_case<D, S>("cvt." + name_of_integer<D>() + "." + name_of_integer<S>(),
                                   [](S a) { return static_cast<D>(a); }));
  // The assembler takes .sat only where a value can be out of range.
  using From = std::numeric_limits<S>;
  const auto fits = [](auto value) { return std::in_range<D>(value); };
  if (fits(From::min()) && fits(From::max())) return;
  cases.push_back(unary_case<D, S>("cvt.sat." + name_of_integer<D>() + "." + name_of_integer<S>(), [](S a) {
    using Limits = std::numeric_limits<D>;
    const auto value = static_cast<__int128>(a);
    if (value < Limits::min()) return Limits::min();
    return value > Limits::max() ? Limits::max() : static_cast<D>(a);
  }));
}

template <class S>
void add_integer_cases(std::vector<Case>& cases) {
  add_integer_case<std::uint16_t, S>(cases);
  add_integer_case<std::int16_t, S>(cases);
  add_integer_case<std::uint32_t, S>(cases);
  add_integer_case<std::int32_t, S>(cases);
  add_integer_case<std::uint64_t, S>(cases);
  add_integer_case<std::int64_t, S>(cases);
}

TEST(PtxConvert, IntegersBecomeEachOtherAsOnTheHost) {
  std::vector<Case> cases;
  add_integer_cases<std::uint16_t>(cases);
  add_integer_cases<std::int16_t>(cases);
  add_integer_cases<std::uint32_t>(cases);
  add_integer_cases<std::int32_t>(cases);
  add_integer_cases<std::uint64_t>(cases);
  add_integer_cases<std::int64_t>(cases);
  // Bytes are in wider registers, and are extended there.
  cases.push_back({"cvt.s32.s8 d, a;", 32, {32}, [](auto a, auto, auto) {
                     return to_bits(std::int32_t{static_cast<std::int8_t>(a)});
                   }});
  cases.push_back({"cvt.u16.u8 d, a;", 16, {16}, [](auto a, auto, auto) { return a & 0xff; }});
  cases.push_back({"cvt.s8.s32 d, a;", 32, {32}, [](auto a, auto, auto) {
                     return to_bits(std::int32_t{static_cast<std::int8_t>(a)});
                   }});
  cases.push_back({"cvt.u8.u32 d, a;", 32, {32}, [](auto a, auto, auto) { return a & 0xff; }});
  cases.push_back({"cvt.u64.u16 d, a;", 64, {32}, [](auto a, auto, auto) { return a & 0xffff; }});
  expect_as_host(cases);
}

template <class D, class S>
D clamped(S value, bool wide) {
  if (std::isnan(value))
    return wide || sizeof(D) == 8 ? static_cast<D>(std::uint64_t{1} << (sizeof(D) * 8 - 1)) : D{0};
  const auto number = static_cast<__float128>(value);
  using Limits = std::numeric_limits<D>;
  if (number <= static_cast<__float128>(Limits::min())) return Limits::min();
  if (number >= static_cast<__float128>(Limits::max())) return Limits::max();
  return static_cast<D>(value);
}

template <class D, class S>
void add_to_integer(std::vector<Case>& cases, const std::string& from) {
  const auto add = [&](const std::string& rounding, auto whole) {
    cases.push_back(unary_case<D, S>("cvt." + rounding + "." + name_of_integer<D>() + "." + from, [=](S a) {
      return clamped<D>(whole(a), sizeof(S) == 8 && sizeof(D) >= 4);
    }));
  };
  add("rzi", [](S a) { return std::trunc(a); });
  add("rni", [](S a) { return std::nearbyint(a); });
  add("rmi", [](S a) { return std::floor(a); });
  add("rpi", [](S a) { return std::ceil(a); });
}

template <class S>
void add_to_integers(std::vector<Case>& cases, const std::string& from) {
  add_to_integer<std::uint32_t, S>(cases, from);
  add_to_integer<std::int32_t, S>(cases, from);
  add_to_integer<std::uint64_t, S>(cases, from);
  add_to_integer<std::int64_t, S>(cases, from);
}

TEST(PtxConvert, RealsBecomeIntegersClamped) {
  std::vector<Case> cases;
  add_to_integers<float>(cases, "f32");
  add_to_integers<double>(cases, "f64");
  expect_as_host(cases);
}

template <class D, class S>
void add_from_integer(std::vector<Case>& cases, const std::string& to) {
  const auto add = [&](const std::string& rounding, int mode) {
    cases.push_back(unary_case<D, S>("cvt." + rounding + "." + to + "." + name_of_integer<S>(), [=](S a) {
      const volatile S value = a;
      return rounded(mode, [&] { return static_cast<D>(value); });
    }));
  };
  add("rn", FE_TONEAREST);
  add("rz", FE_TOWARDZERO);
  add("rm", FE_DOWNWARD);
  add("rp", FE_UPWARD);
}

TEST(PtxConvert, IntegersBecomeRealsRounded) {
  std::vector<Case> cases;
  add_from_integer<float, std::uint16_t>(cases, "f32");
  add_from_integer<float, std::int32_t>(cases, "f32");
  add_from_integer<float, std::uint32_t>(cases, "f32");
  add_from_integer<float, std::int64_t>(cases, "f32");
  add_from_integer<double, std::int32_t>(cases, "f64");
  add_from_integer<double, std::int64_t>(cases, "f64");
  expect_as_host(cases);
}

TEST(PtxConvert, RealsBecomeEachOtherRounded) {
  std::vector<Case> cases;
  for (const auto& [name, mode] : {std::pair("rn", FE_TONEAREST), std::pair("rz", FE_TOWARDZERO),
                                   std::pair("rm", FE_DOWNWARD), std::pair("rp", FE_UPWARD)}) {
    cases.push_back(
        unary_case<float, double>(std::string("cvt.") + name + ".f32.f64", [mode = mode](double a) {
          const volatile double value = a;
          return canonical(rounded(mode, [&] { return static_cast<float>(value); }));
        }));
  }
  cases.push_back(
      {"{ .reg .pred n; cvt.f64.f32 d, a; testp.notanumber.f64 n, d; @n mov.f64 d, 0d0000000000000000; }",
       64,
       {32},
       [](auto a, auto, auto) {
         const double value = from_bits<float>(a);
         return std::isnan(value) ? 0 : to_bits(value);
       }});
  cases.push_back(
      unary_case<float, float>("cvt.rni.f32.f32", [](float a) { return canonical(std::nearbyint(a)); }));
  cases.push_back(
      unary_case<float, float>("cvt.rmi.f32.f32", [](float a) { return canonical(std::floor(a)); }));
  cases.push_back(
      unary_case<float, float>("cvt.sat.f32.f32", [](float a) { return a > 0 ? std::fmin(a, 1.0f) : 0.0f; }));
  expect_as_host(cases);
}

TEST(PtxConvert, HalvesBecomeFloatsAndBack) {
  const auto half = [](std::uint64_t bits) { return static_cast<float>(from_bits<_Float16>(bits)); };
  const auto to_half = [](float value) {
    return std::isnan(value) ? std::uint64_t{0x7fff} : to_bits(static_cast<_Float16>(value));
  };
  const auto to_bfloat = [](float value) -> std::uint64_t {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = to_bits(value);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  };
  expect_as_host({
      {"cvt.f32.f16 d, a;", 32, {16}, [=](auto a, auto, auto) { return to_bits(canonical(half(a))); }},
      {"cvt.rn.f16.f32 d, a;", 16, {32}, [=](auto a, auto, auto) { return to_half(from_bits<float>(a)); }},
      {"cvt.rn.bf16.f32 d, a;", 16, {32}, [=](auto a, auto, auto) { return to_bfloat(from_bits<float>(a)); }},
      {"cvt.f32.bf16 d, a;",
       32,
       {16},
       [=](auto a, auto, auto) { return to_bits(canonical(from_bits<float>(a << 16))); }},
      {"cvt.rn.f16x2.f32 d, a, b;",
       32,
       {32, 32},
       [=](auto a, auto b, auto) {
         return to_half(from_bits<float>(a)) << 16 | to_half(from_bits<float>(b));
       }},
      {"cvt.rn.bf16x2.f32 d, a, b;",
       32,
       {32, 32},
       [=](auto a, auto b, auto) {
         return to_bfloat(from_bits<float>(a)) << 16 | to_bfloat(from_bits<float>(b));
       }},
      {"cvt.rn.f16.s32 d, a;",
       16,
       {32},
       [=](auto a, auto, auto) {
         return to_bits(static_cast<_Float16>(static_cast<double>(static_cast<std::int32_t>(a))));
       }},
      {"cvt.rzi.s32.f16 d, a;",
       32,
       {16},
       [=](auto a, auto, auto) { return to_bits(clamped<std::int32_t>(half(a), false)); }},
  });
}

TEST(PtxConvert, RegistersArePackedAndUnpacked) {
  expect_as_host({
      {"mov.b64 d, {a, b};", 64, {32, 32}, [](auto a, auto b, auto) { return b << 32 | a; }},
      {"mov.b32 d, {a, b};", 32, {16, 16}, [](auto a, auto b, auto) { return b << 16 | a; }},
      {"mov.b64 d, {a, b, c, a};",
       64,
       {16, 16, 16},
       [](auto a, auto b, auto c) { return a << 48 | c << 32 | b << 16 | a; }},
      {"{ .reg .b32 low; mov.b64 {low, d}, a; }", 32, {64}, [](auto a, auto, auto) { return a >> 32; }},
      {"{ .reg .b32 high; mov.b64 {d, high}, a; }",
       32,
       {64},
       [](auto a, auto, auto) { return a & 0xffffffff; }},
      {"{ .reg .b16 w, x, z; mov.b64 {w, x, d, z}, a; }",
       16,
       {64},
       [](auto a, auto, auto) { return (a >> 32) & 0xffff; }},
  });
}

TEST(PtxConvert, AddressesOfSpacesAreToldApart) {
  Trial trial;
  trial.block.x = 1;
  const auto out = trial.memory.add(16);
  trial.run(kernel_text(R"(
  .shared .align 8 .b64 box[2];
  .local .align 8 .b64 own[2];
  mov.u64 %rd3, box;
  cvta.shared.u64 %rd4, %rd3;
  mov.u64 %rd5, 11;
  st.u64 [%rd4+8], %rd5;
  ld.shared.u64 %rd6, [box+8];
  mov.u64 %rd7, own;
  cvta.local.u64 %rd8, %rd7;
  st.u64 [%rd8], %rd6;
  ld.local.u64 %rd9, [own];
  st.global.u64 [%rd1], %rd9;
  isspacep.shared %p1, %rd4;
  isspacep.local %p2, %rd8;
  isspacep.global %p3, %rd1;
  isspacep.global %p4, %rd4;
  isspacep.shared %p5, %rd8;
  and.pred %p1, %p1, %p2;
  and.pred %p1, %p1, %p3;
  or.pred %p4, %p4, %p5;
  not.pred %p4, %p4;
  and.pred %p1, %p1, %p4;
  cvta.to.shared.u64 %rd10, %rd4;
  setp.eq.and.u64 %p1, %rd10, %rd3, %p1;
  selp.u64 %rd11, 1, 0, %p1;
  st.global.u64 [%rd1+8], %rd11;)",
                        1),
            {out});
  EXPECT_EQ(trial.memory.values<std::uint64_t>(out), (std::vector<std::uint64_t>{11, 1}));
}

}  // namespace
}  // namespace emulated_gpu
