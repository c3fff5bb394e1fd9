#include "speedtorch/kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "tests/address_sanitizer.h"

namespace speedtorch::kernels {
namespace {

class IsaTest : public ::testing::Test {
 protected:
  void TearDown() override { use_isa("best"); }
};

TEST_F(IsaTest, TheBestIsTheFirstAndTheBaselineTheLast) {
  const auto names = supported_isas();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "baseline");
  use_isa("best");
  EXPECT_EQ(isa_in_use(), names.front());
}

TEST_F(IsaTest, EachCanBeChosenAndMovesRows) {
  for (const auto name : supported_isas()) {
    use_isa(name);
    EXPECT_EQ(isa_in_use(), name);
    std::array<std::uint8_t, 300> table{}, out{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 7 + 1);
    const std::array<std::int64_t, 3> index{2, 0, 1};
    gather_rows({reinterpret_cast<std::byte*>(table.data()), 3, 100, 100}, index.data(), 3,
                {reinterpret_cast<std::byte*>(out.data()), 3, 100, 100}, serial_for);
    for (std::size_t i = 0; i < index.size(); ++i) {
      EXPECT_EQ(
          std::memcmp(out.data() + i * 100, table.data() + static_cast<std::size_t>(index[i]) * 100, 100), 0)
          << name << ", row " << i;
    }
  }
}

/// The compiler knows the processor too.
TEST_F(IsaTest, AreThoseOfTheProcessor) {
#ifdef __x86_64__
  const auto names = supported_isas();
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const bool one_wide_set = stbench::test::under_address_sanitizer();  // speedtorch/kernels/CMakeLists.txt says why
  EXPECT_EQ(has("avx2"), avx2 && !(one_wide_set && avx512));
  EXPECT_EQ(has("avx512"), avx512);
#else
  GTEST_SKIP() << "the compiler's own list is asked on x86-64 only";
#endif
}

TEST_F(IsaTest, AnUnknownOneIsRefusedByNameWithTheList) {
  try {
    use_isa("avx1024");
    FAIL() << "it was taken";
  } catch (const IsaError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("avx1024"), std::string::npos) << what;
    for (const auto name : supported_isas()) EXPECT_NE(what.find(name), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace speedtorch::kernels
