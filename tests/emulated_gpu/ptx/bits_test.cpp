// Instructions on bits against plain loops over bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

using U = std::uint32_t;

template <class T>
std::string bits_of_type() {
  return ".b" + std::to_string(sizeof(T) * 8);
}

template <class T>
void add_logic(std::vector<Case>& cases) {
  const auto type = bits_of_type<T>();
  cases.push_back(binary_case<T, T>("and" + type, [](T a, T b) { return a & b; }));
  cases.push_back(binary_case<T, T>("or" + type, [](T a, T b) { return a | b; }));
  cases.push_back(binary_case<T, T>("xor" + type, [](T a, T b) { return a ^ b; }));
  cases.push_back(unary_case<T, T>("not" + type, [](T a) { return ~a; }));
  const auto shifted = [](T a, U by) {
    return by < sizeof(T) * 8 ? static_cast<T>(std::uint64_t{a} << by) : T{0};
  };
  cases.push_back(binary_case<T, T, decltype(shifted), U>("shl" + type, shifted));
}

template <class T>
void add_right_shift(std::vector<Case>& cases, const std::string& opcode) {
  const auto shifted = [](T a, U by) {
    for (U i = 0; i < std::min<U>(by, sizeof(T) * 8); ++i) a = static_cast<T>(a >> 1);
    return a;
  };
  cases.push_back(binary_case<T, T, decltype(shifted), U>(opcode, shifted));
}

TEST(PtxBits, LogicAndShiftsAreTheHosts) {
  std::vector<Case> cases;
  add_logic<std::uint16_t>(cases);
  add_logic<std::uint32_t>(cases);
  add_logic<std::uint64_t>(cases);
  add_right_shift<std::uint16_t>(cases, "shr.u16");
  add_right_shift<std::int16_t>(cases, "shr.s16");
  add_right_shift<std::uint32_t>(cases, "shr.b32");
  add_right_shift<std::int32_t>(cases, "shr.s32");
  add_right_shift<std::uint64_t>(cases, "shr.u64");
  add_right_shift<std::int64_t>(cases, "shr.s64");
  expect_as_host(cases);
}

TEST(PtxBits, PredicatesHaveTheSameLogic) {
  const auto predicate_case = [](const std::string& body, auto function) {
    return Case{body, 1, {1, 1}, [=](auto a, auto b, auto) {
                  return static_cast<std::uint64_t>(function(a != 0, b != 0));
                }};
  };
  expect_as_host({
      predicate_case("and.pred d, a, b;", [](bool a, bool b) { return a && b; }),
      predicate_case("or.pred d, a, b;", [](bool a, bool b) { return a || b; }),
      predicate_case("xor.pred d, a, b;", [](bool a, bool b) { return a != b; }),
      predicate_case("not.pred d, a;", [](bool a, bool) { return !a; }),
      predicate_case("mov.pred d, a;", [](bool a, bool) { return a; }),
      predicate_case("mov.pred d, 0; @a mov.pred d, b;", [](bool a, bool b) { return a && b; }),
      predicate_case("mov.pred d, 1; @!a mov.pred d, b;", [](bool a, bool b) { return a || b; }),
  });
}

template <class T>
U highest(T value) {  // of what differs from the sign
  U found = ~0u;
  const bool sign = value < 0;
  for (U i = 0; i < sizeof(T) * 8; ++i) {
    if ((((static_cast<std::uint64_t>(value) >> i) & 1) != 0) != sign) found = i;
  }
  return found;
}

template <class T>
void add_counts(std::vector<Case>& cases) {
  constexpr U kBits = sizeof(T) * 8;
  const auto type = bits_of_type<T>();
  cases.push_back(unary_case<U, T>("popc" + type, [](T a) {
    U count = 0;
    for (U i = 0; i < kBits; ++i) count += (a >> i) & 1;
    return count;
  }));
  cases.push_back(
      unary_case<U, T>("clz" + type, [](T a) { return a == 0 ? kBits : kBits - 1 - highest(a); }));
  cases.push_back(unary_case<T, T>("brev" + type, [](T a) {
    T reversed = 0;
    for (U i = 0; i < kBits; ++i) reversed |= ((a >> i) & 1) << (kBits - 1 - i);
    return reversed;
  }));
}

template <class T>
void add_find(std::vector<Case>& cases, const std::string& type) {
  cases.push_back(unary_case<U, T>("bfind" + type, [](T a) { return highest(a); }));
  cases.push_back(unary_case<U, T>("bfind.shiftamt" + type, [](T a) {
    return highest(a) == ~0u ? ~0u : static_cast<U>(sizeof(T) * 8 - 1) - highest(a);
  }));
}

TEST(PtxBits, CountsAreTheHosts) {
  std::vector<Case> cases;
  add_counts<std::uint32_t>(cases);
  add_counts<std::uint64_t>(cases);
  add_find<std::uint32_t>(cases, ".u32");
  add_find<std::int32_t>(cases, ".s32");
  add_find<std::uint64_t>(cases, ".u64");
  add_find<std::int64_t>(cases, ".s64");
  expect_as_host(cases);
}

template <class T>
T field_of(T a, U position, U length) {  // as the manual's loop has it
  const U most = sizeof(T) * 8 - 1;
  position &= 0xff;
  length &= 0xff;
  const auto bits = static_cast<std::uint64_t>(a);
  const bool sign =
      std::is_signed_v<T> && length != 0 && ((bits >> std::min(position + length - 1, most)) & 1);
  std::uint64_t field = 0;
  for (U i = 0; i <= most; ++i) {
    const bool bit = i < length && position + i <= most ? (bits >> (position + i)) & 1 : sign;
    field |= std::uint64_t{bit} << i;
  }
  return static_cast<T>(field);
}

template <class T>
void add_fields(std::vector<Case>& cases, const std::string& type) {
  const auto extracted = [](T a, U position, U length) { return field_of(a, position, length); };
  cases.push_back(ternary_case<T, T, decltype(extracted), U, U>("bfe" + type, extracted));
}

template <class T>
void add_insertion(std::vector<Case>& cases) {
  Case inserts{"{ .reg .b32 n; and.b32 n, c, 31; bfi" + bits_of_type<T>() + " d, a, b, n, c; }",
               sizeof(T) * 8,
               {sizeof(T) * 8, sizeof(T) * 8, 32},
               [](auto a, auto b, auto c) {
                 const U position = static_cast<U>(c) & 31, length = static_cast<U>(c) & 0xff;
                 for (U i = 0; i < length && position + i < sizeof(T) * 8; ++i) {
                   b = (b & ~(std::uint64_t{1} << (position + i))) | (((a >> i) & 1) << (position + i));
                 }
                 return b;
               }};
  cases.push_back(inserts);
}

TEST(PtxBits, FieldsAreTheManualsLoops) {
  std::vector<Case> cases;
  add_fields<std::uint32_t>(cases, ".u32");
  add_fields<std::int32_t>(cases, ".s32");
  add_fields<std::uint64_t>(cases, ".u64");
  add_fields<std::int64_t>(cases, ".s64");
  add_insertion<std::uint32_t>(cases);
  add_insertion<std::uint64_t>(cases);
  const auto ones = [](U position, U length) {
    U mask = 0;
    for (std::uint64_t i = position; i < std::uint64_t{position} + length && i < 32; ++i) mask |= U{1} << i;
    return mask;
  };
  cases.push_back(binary_case<U, U>("bmsk.clamp.b32", ones));
  cases.push_back(binary_case<U, U>("bmsk.wrap.b32",
                                    [=](U position, U length) { return ones(position & 31, length & 31); }));
  expect_as_host(cases);
}

TEST(PtxBits, FunnelShiftsTablesAndPermutationsAreTheHosts) {
  const auto left = [](U a, U b, U by) {
    return static_cast<U>((((std::uint64_t{b} << 32) | a) << by) >> 32);
  };
  const auto right = [](U a, U b, U by) { return static_cast<U>(((std::uint64_t{b} << 32) | a) >> by); };
  const auto byte = [](U a, U b, U i) {
    return static_cast<U>(((std::uint64_t{b} << 32) | a) >> (8 * (i & 7))) & 0xff;
  };
  const auto four = [](auto of) { return of(0) | of(1) << 8 | of(2) << 16 | of(3) << 24; };
  std::vector<Case> cases{
      ternary_case<U, U>("shf.l.wrap.b32", [=](U a, U b, U c) { return left(a, b, c & 31); }),
      ternary_case<U, U>("shf.r.wrap.b32", [=](U a, U b, U c) { return right(a, b, c & 31); }),
      ternary_case<U, U>("shf.l.clamp.b32", [=](U a, U b, U c) { return left(a, b, std::min(c, 32u)); }),
      ternary_case<U, U>("shf.r.clamp.b32", [=](U a, U b, U c) { return right(a, b, std::min(c, 32u)); }),
      ternary_case<U, U>("prmt.b32",
                         [=](U a, U b, U c) {
                           return four([&](U i) {
                             const auto nibble = (c >> (4 * i)) & 15;
                             const auto value = byte(a, b, nibble);
                             return nibble & 8 ? (value & 0x80 ? 0xffu : 0u) : value;
                           });
                         }),
  };
  for (const U table : {0x96u, 0xe8u, 0x01u, 0xcau}) {
    auto lookup = ternary_case<U, U>("lop3.b32", [=](U a, U b, U c) {
      U result = 0;
      for (U i = 0; i < 32; ++i)
        result |= ((table >> (((a >> i) & 1) * 4 + ((b >> i) & 1) * 2 + ((c >> i) & 1))) & 1) << i;
      return result;
    });
    lookup.body = "lop3.b32 d, a, b, c, " + std::to_string(table) + ";";
    cases.push_back(lookup);
  }
  expect_as_host(cases);
}

}  // namespace
}  // namespace emulated_gpu
