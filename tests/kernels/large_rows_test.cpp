// Tables whose bytes or elements do not fit 32 bits: mapped sparsely, so that only the touched pages take
// memory.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "kernels/rows.h"
#include "tests/kernels/row_buffer.h"
#include "tests/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

/// Zeroed address space that costs nothing until it is touched.
class SparseRows {
 public:
  SparseRows(std::int64_t rows, std::int64_t row_bytes)
      : rows_(rows),
        row_bytes_(row_bytes),
        map_(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                  0)) {}
  ~SparseRows() {
    if (mapped()) munmap(map_, bytes());
  }
  SparseRows(const SparseRows&) = delete;

  bool mapped() const { return map_ != MAP_FAILED; }
  Rows view() const { return {static_cast<std::byte*>(map_), rows_, row_bytes_, row_bytes_}; }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ * row_bytes_); }

  std::int64_t rows_;
  std::int64_t row_bytes_;
  void* map_;
};

/// Scatters patterned rows to `index`, finds them there by plain addressing, and gathers them back.
template <class Index>
void expect_round_trip(const SparseRows& table, const std::vector<Index>& index) {
  const auto count = static_cast<std::int64_t>(index.size());
  const std::int64_t width = table.view().row_bytes;
  const RowBuffer values({count, width, 0, 0}, 1);
  scatter_rows(values.view(), index.data(), count, table.view(), ThreadPool(2));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t offset = static_cast<std::int64_t>(index[static_cast<std::size_t>(i)]) * width;
    EXPECT_EQ(std::memcmp(table.view().data + offset, values.view().data + i * width,
                          static_cast<std::size_t>(width)),
              0)
        << "byte " << offset;
  }
  RowBuffer back({count, width, 0, 0}, 2);
  gather_rows(table.view(), index.data(), count, back.view(), ThreadPool(2));
  EXPECT_EQ(std::memcmp(back.view().data, values.view().data, static_cast<std::size_t>(count * width)), 0);
}

#define SKIP_UNLESS_MAPPED(table) \
  if (!(table).mapped()) GTEST_SKIP() << "this system lends no sparse mapping: " << std::strerror(errno)

TEST(LargeRows, OffsetsPast32BitsOfBytes) {
  constexpr std::int64_t kWidth = 516;
  constexpr std::int64_t kRows = (std::int64_t{1} << 33) / kWidth;
  const SparseRows table(kRows, kWidth);
  SKIP_UNLESS_MAPPED(table);
  constexpr std::int64_t kPast = (std::int64_t{1} << 32) / kWidth;
  expect_round_trip<std::int64_t>(table, {0, kPast - 1, kPast, kPast + 1, kRows - 2, kRows - 1});
  expect_round_trip<std::int32_t>(
      table, {static_cast<std::int32_t>(kRows - 1), static_cast<std::int32_t>(kPast), 1});
}

TEST(LargeRows, RowNumbersPast31Bits) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 32) + 1000;
  constexpr std::int64_t kPast = std::int64_t{1} << 31;
  const SparseRows table(kRows, 1);
  SKIP_UNLESS_MAPPED(table);
  expect_round_trip<std::int64_t>(table, {0, kPast - 1, kPast, kPast + 1, 2 * kPast, kRows - 1});
  expect_round_trip<std::int32_t>(table, {INT32_MAX, 0, INT32_MAX - 1});
}

TEST(LargeRows, ElementsPast31BitsInWideRows) {
  constexpr std::int64_t kWidth = 512;  // 128 float32
  constexpr std::int64_t kRows = (std::int64_t{1} << 31) / 128 + 64;
  const SparseRows table(kRows, kWidth);
  SKIP_UNLESS_MAPPED(table);
  expect_round_trip<std::int64_t>(table, {kRows - 1, kRows - 64, kRows - 65, 1});
}

}  // namespace
}  // namespace speedtorch::kernels
