#include "benchmarks/tables/row_check.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "speedtorch/memory/memory.h"
#include "speedtorch/system/pages.h"

namespace stbench::row_check_test {
namespace {

constexpr std::uint64_t seed = 5;
constexpr std::int64_t count = 4000, dim = 16;

/// The fill of `count` rows as the dtype: its random bits hold NaNs of every kind, and zeros of 16 bits with
/// a sign.
at::Tensor filled(at::ScalarType dtype, std::span<const std::int64_t> rows) {
  auto tensor = at::zeros({count, dim}, at::TensorOptions().dtype(dtype));
  fill_rows(tensor, rows, [](std::int64_t) { return seed; });
  return tensor;
}

TEST(RowCheck, RowsAddedToZeroAreEqualAsNumbersNotInEveryBit) {
  std::vector<std::int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  std::int64_t other_bits = 0;
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto table = filled(dtype, rows);
    const auto row_bytes = static_cast<std::int64_t>(table.nbytes()) / count;
    const auto sum = table.add(at::zeros({}, at::TensorOptions().dtype(dtype)));
    EXPECT_EQ(check_rows(table, rows, row_bytes, seed, "sum").mismatches, 0);
    EXPECT_EQ(check_rows(sum, rows, row_bytes, seed, "sum", Equality::numbers).mismatches, 0) << dtype;
    other_bits += check_rows(sum, rows, row_bytes, seed, "sum").mismatches;

    auto wrong = sum.clone();
    wrong[17][dim - 1] = 1.25;
    wrong[40] = wrong[41];
    const auto check = check_rows(wrong, rows, row_bytes, seed, "sum", Equality::numbers);
    EXPECT_EQ(check.mismatches, 2) << dtype;
    EXPECT_NE(check.first.find("position 17 (table row 17), from byte"), std::string::npos) << check.first;
  }
  EXPECT_GT(other_bits, 0);
}

/// Host memory, or bytes that stand for a GPU's: worked on by LibTorch's operations, in blocks of 64 MiB.
class Block final : public speedtorch::Memory {
 public:
  Block(std::int64_t rows, std::int64_t row_bytes, bool of_gpu)
      : Memory(rows * row_bytes), bytes_(static_cast<std::size_t>(rows * row_bytes)), of_gpu_(of_gpu) {}
  [[nodiscard]] speedtorch::Placement placement() const override {
    return of_gpu_ ? speedtorch::Placement::device : speedtorch::Placement::pageable;
  }
  [[nodiscard]] std::byte* data() const override { return bytes_.data(); }

 private:
  mutable std::vector<std::byte> bytes_;
  bool of_gpu_;
};

struct TableShape {
  std::int64_t rows, row_bytes;
};

class Blocks : public testing::TestWithParam<std::tuple<bool, TableShape>> {
 protected:
  [[nodiscard]] std::int64_t rows() const { return std::get<1>(GetParam()).rows; }
  [[nodiscard]] std::int64_t row_bytes() const { return std::get<1>(GetParam()).row_bytes; }
  std::byte* row(std::int64_t number) { return memory_->data() + number * row_bytes(); }
  /// All, the last first.
  std::vector<std::int64_t> all_rows() {
    std::vector<std::int64_t> named(static_cast<std::size_t>(rows()));
    std::iota(named.rbegin(), named.rend(), 0);
    return named;
  }

  std::shared_ptr<Block> memory_ = std::make_shared<Block>(rows(), row_bytes(), std::get<0>(GetParam()));
  RowBytes bytes_{*memory_, rows(), row_bytes()};
  ContentOf content_of_ = [](std::int64_t) { return seed; };
};

TEST_P(Blocks, CheckCountsDamagedRowsAndNamesTheFirst) {
  bytes_.write_content(all_rows(), content_of_);
  const auto right = bytes_.check_all(seed, "table");
  EXPECT_EQ(right.rows, rows());
  EXPECT_EQ(right.mismatches, 0) << right.first;
  const auto named = bytes_.check(all_rows(), content_of_, "rows");
  EXPECT_EQ(named.rows, rows());
  EXPECT_EQ(named.mismatches, 0) << named.first;
  for (const auto damaged : {std::int64_t{0}, rows() / 2, rows() - 1}) {
    auto& byte = row(damaged)[row_bytes() - 1];
    byte = ~byte;
    const auto found = bytes_.check_all(seed, "table");
    EXPECT_EQ(found.mismatches, 1);
    EXPECT_EQ(found.first, "table, row " + std::to_string(damaged));
    EXPECT_EQ(bytes_.check(all_rows(), content_of_, "rows").mismatches, 1);
    byte = ~byte;
  }
}

TEST_P(Blocks, PoisonOverwritesTheNamedRowsOnly) {
  bytes_.write_content(all_rows(), content_of_);
  const std::vector<std::int64_t> named{rows() - 1, 0, rows() / 2};
  bytes_.poison(named);
  EXPECT_EQ(bytes_.check(named, content_of_, "rows").mismatches, 3);
  EXPECT_EQ(bytes_.check_all(seed, "table").mismatches, 3);
  for (const auto number : named) {
    const std::vector<std::byte> pattern(static_cast<std::size_t>(row_bytes()), row(number)[0]);
    EXPECT_EQ(std::memcmp(row(number), pattern.data(), pattern.size()), 0);
  }
  bytes_.write_content(named, content_of_);
  EXPECT_EQ(bytes_.check_all(seed, "table").mismatches, 0);
}

TEST_P(Blocks, DirtyKeepsTheBytes) {
  if (!memory_->on_host()) return;  // only files have pages that are clean
  bytes_.write_content(all_rows(), content_of_);
  bytes_.dirty(all_rows());
  EXPECT_EQ(bytes_.check_all(seed, "table").mismatches, 0);
}

TEST(RowBytes, DirtyTouchesEachPageOfTheNamedRowsAndNoOther) {
  constexpr std::int64_t row_bytes = 3 * 4096;
  const auto memory = speedtorch::allocate(speedtorch::Placement::pageable, 4 * row_bytes);
  const std::vector<std::int64_t> named{0, 2};
  RowBytes(*memory, 4, row_bytes).dirty(named);
  for (std::int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(speedtorch::resident_fraction(memory->data() + row * row_bytes, row_bytes),
              row % 2 == 0 ? 1 : 0)
        << row;
}

// Several pieces of 256 KiB that are compared as a whole, and more than one block of 64 MiB.
INSTANTIATE_TEST_SUITE_P(OfHostAndGpu, Blocks,
                         testing::Combine(testing::Bool(),
                                          testing::Values(TableShape{40'000, 24}, TableShape{68, 1 << 20},
                                                          TableShape{3, 1})));

}  // namespace
}  // namespace stbench::row_check_test
