// Tables whose bytes or elements do not fit 32 bits, on every instruction set and with every way to store:
// mapped sparsely, so that only the touched pages take memory.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "speedtorch/kernels/rows/rows.h"
#include "tests/speedtorch/kernels/forced_isa.h"
#include "tests/speedtorch/kernels/row_buffer.h"
#include "tests/speedtorch/kernels/row_trial.h"

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

/// Whether row i of `table` that `index` names is row i of `values`, by plain addressing.
template <class Index>
void expect_there(const SparseRows& table, const std::vector<Index>& index, const RowBuffer& values) {
  const std::int64_t width = values.row_bytes();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t offset = static_cast<std::int64_t>(index[i]) * width;
    EXPECT_EQ(std::memcmp(table.view().data + offset,
                          values.bytes().data() + values.place(static_cast<std::int64_t>(i)),
                          static_cast<std::size_t>(width)),
              0)
        << "byte " << offset;
  }
}

/// Scatters patterned rows to `index`, finds them there, and gathers them back: by the path, and by the
/// public functions, whose stores are their own choice.
template <class Index>
void expect_round_trip(const SparseRows& table, const std::vector<Index>& index, Stores stores) {
  const auto count = static_cast<std::int64_t>(index.size());
  const std::int64_t width = table.view().row_bytes;
  const RowBuffer forced({count, width, 0, 0}, 1), chosen({count, width, 0, 0}, 2);
  RowBuffer back({count, width, 0, 0}, 3);
  run(plan_forced(Direction::scatter, forced.view(), index.data(), table.view(), stores, 2), 0, count);
  expect_there(table, index, forced);
  run(plan_forced(Direction::gather, table.view(), index.data(), back.view(), stores, 2), 0, count);
  EXPECT_EQ(std::memcmp(back.view().data, forced.view().data, static_cast<std::size_t>(count * width)), 0);

  scatter_rows(chosen.view(), index.data(), count, table.view(), serial_for);
  expect_there(table, index, chosen);
  gather_rows(table.view(), index.data(), count, back.view(), serial_for);
  EXPECT_EQ(std::memcmp(back.view().data, chosen.view().data, static_cast<std::size_t>(count * width)), 0);
}

using LargeRows = OnPath;

#define SKIP_UNLESS_MAPPED(table) \
  if (!(table).mapped()) GTEST_SKIP() << "this system lends no sparse mapping: " << std::strerror(errno)

TEST_P(LargeRows, OffsetsPast32BitsOfBytes) {
  constexpr std::int64_t kWidth = 516;
  constexpr std::int64_t kRows = (std::int64_t{1} << 33) / kWidth;
  const SparseRows table(kRows, kWidth);
  SKIP_UNLESS_MAPPED(table);
  constexpr std::int64_t kPast = (std::int64_t{1} << 32) / kWidth;
  expect_round_trip<std::int64_t>(table, {0, kPast - 1, kPast, kPast + 1, kRows - 2, kRows - 1}, stores());
  expect_round_trip<std::int32_t>(
      table, {static_cast<std::int32_t>(kRows - 1), static_cast<std::int32_t>(kPast), 1}, stores());
}

TEST_P(LargeRows, RowNumbersPast31Bits) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 32) + 1000;
  constexpr std::int64_t kPast = std::int64_t{1} << 31;
  const SparseRows table(kRows, 1);
  SKIP_UNLESS_MAPPED(table);
  expect_round_trip<std::int64_t>(table, {0, kPast - 1, kPast, kPast + 1, 2 * kPast, kRows - 1}, stores());
  expect_round_trip<std::int32_t>(table, {INT32_MAX, 0, INT32_MAX - 1}, stores());
}

TEST_P(LargeRows, ElementsPast31BitsInWideRows) {
  constexpr std::int64_t kWidth = 512;  // 128 float32
  constexpr std::int64_t kRows = (std::int64_t{1} << 31) / 128 + 64;
  const SparseRows table(kRows, kWidth);
  SKIP_UNLESS_MAPPED(table);
  expect_round_trip<std::int64_t>(table, {kRows - 1, kRows - 64, kRows - 65, 1}, stores());
}

INSTANTIATE_TEST_SUITE_P(Paths, LargeRows, all_paths(), path_name);

}  // namespace
}  // namespace speedtorch::kernels
