// Every instruction set that this machine has, every way to store, and memory that ends at a page no one may
// touch.

#include "kernels/row_moves.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <tuple>

#include "kernels/rows.h"
#include "tests/kernels/row_buffer.h"

namespace speedtorch::kernels {
namespace {

/// Forces the dispatch to one target while it lives.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~ForcedTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ForcedTarget(const ForcedTarget&) = delete;
};

/// Rows that begin right after a forbidden page, or end right before one.
class GuardedRows {
 public:
  enum class At { start, end };

  GuardedRows(std::int64_t rows, std::int64_t row_bytes, At at, std::uint64_t seed)
      : rows_(rows), width_(row_bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto bytes = static_cast<std::size_t>(rows * row_bytes);
    const std::size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    map_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) throw std::bad_alloc();
    auto* first = static_cast<std::byte*>(map_) + page;
    mprotect(first, inner, PROT_READ | PROT_WRITE);
    data_ = at == At::start ? first : first + inner - bytes;
    for (std::size_t i = 0; i < bytes; ++i) data_[i] = pattern(seed, i);
  }
  ~GuardedRows() { munmap(map_, size_); }
  GuardedRows(const GuardedRows&) = delete;

  Rows view() const { return {data_, rows_, width_, width_}; }
  const std::byte* row(std::int64_t i) const { return data_ + i * width_; }

 private:
  std::int64_t rows_;
  std::int64_t width_;
  void* map_ = nullptr;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

using Choice = std::tuple<std::int64_t, Stores>;

class RowMoves : public ::testing::TestWithParam<Choice> {
 protected:
  ForcedTarget forced_{std::get<0>(GetParam())};

  template <class Index>
  void force_and_run(RowMove<Index> move, std::int64_t count, std::int64_t prefetch_rows) const {
    move.stores = std::get<1>(GetParam());
    move.prefetch_rows = prefetch_rows;
    run(move, 0, count);
  }
};

constexpr std::int64_t kCount = 13;
constexpr std::int64_t kRows = 17;  // prime, so scattered_index repeats none

TEST_P(RowMoves, MoveAsThePlainLoop) {
  const auto index = scattered_index<std::int32_t>(kCount, kRows);
  for (std::int64_t width = 1; width <= 600; width += width < 150 ? 1 : 13) {
    for (const std::int64_t prefetch_rows : {0, 4, 40}) {
      const std::int64_t alignment = (width * 11 + prefetch_rows) % 64;
      const RowBuffer table({kRows, width, alignment, 2}, 1);
      RowBuffer out({kCount, width, (alignment * 5) % 64, 0}, 2);
      const auto gathered = plain_gather(table, index, out);
      force_and_run(plan_gather(table.view(), index.data(), out.view()), kCount, prefetch_rows);
      EXPECT_TRUE(out.bytes() == gathered) << width;

      RowBuffer back({kRows, width, alignment, 3}, 3);
      const auto scattered = plain_scatter(out, index, back);
      force_and_run(plan_scatter(out.view(), index.data(), back.view()), kCount, prefetch_rows);
      EXPECT_TRUE(back.bytes() == scattered) << width;
    }
  }
}

TEST_P(RowMoves, TouchNoByteBeyondTheRows) {
  const auto index =
      scattered_index<std::int64_t>(kRows, kRows);  // the first and the last row are among them
  for (std::int64_t width = 1; width <= 600; width += width < 150 ? 1 : 13) {
    for (const auto at : {GuardedRows::At::start, GuardedRows::At::end}) {
      const GuardedRows table(kRows, width, at, 1);
      const GuardedRows out(kRows, width, at, 2);
      force_and_run(plan_gather(table.view(), index.data(), out.view()), kRows, 4);
      const GuardedRows back(kRows, width, at, 3);
      force_and_run(plan_scatter(out.view(), index.data(), back.view()), kRows, 4);
      const auto bytes = static_cast<std::size_t>(width);
      for (std::int64_t i = 0; i < kRows; ++i) {
        EXPECT_EQ(std::memcmp(out.row(i), table.row(index[static_cast<std::size_t>(i)]), bytes), 0) << width;
        EXPECT_EQ(std::memcmp(back.row(i), table.row(i), bytes), 0) << width;
      }
    }
  }
}

TEST_P(RowMoves, CheckFindsABadIndexAtEveryPlace) {
  for (std::int64_t count = 1; count <= 40; ++count) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(count), 5);
    EXPECT_TRUE(all_inside(index.data(), count, 6));
    for (std::int64_t& value : index) {
      for (const std::int64_t bad : {std::int64_t{6}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
        value = bad;
        EXPECT_FALSE(all_inside(index.data(), count, 6)) << bad;
      }
      value = 0;
    }
  }
}

TEST_P(RowMoves, LinesAreStreamedWhole) {
  for (const std::int64_t alignment : {0, 1, 32}) {
    const RowBuffer from({1, 64 * 9, alignment, 0}, 1);
    RowBuffer to({1, 64 * 9, 0, 0}, 2);
    const auto expected = plain_gather(from, std::vector<std::int64_t>{0}, to);
    stream_lines(to.view().data, from.view().data, 9);
    EXPECT_TRUE(to.bytes() == expected) << alignment;
  }
}

std::string choice_name(const ::testing::TestParamInfo<Choice>& choice) {
  const auto [target, stores] = choice.param;
  return std::string(hwy::TargetName(target)) + (stores == Stores::streaming ? "Streaming" : "Cached");
}

INSTANTIATE_TEST_SUITE_P(Targets, RowMoves,
                         ::testing::Combine(::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                                            ::testing::Values(Stores::cached, Stores::streaming)),
                         choice_name);

}  // namespace
}  // namespace speedtorch::kernels
