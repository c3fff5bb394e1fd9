/// Memory for the kernels' tests, and the plain loops that say what should be in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "speedtorch/kernels/row_view.h"

namespace speedtorch::kernels {

/// A byte that depends on the seed and on its place, so that any misplaced byte is seen.
inline std::byte pattern(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t x = (place + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBu;
  return static_cast<std::byte>(x >> 56);
}

/// Where rows lie: the first one `alignment` bytes after a cache line's start, `gap` bytes between rows.
struct Layout {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 1;
  std::int64_t alignment = 0;
  std::int64_t gap = 0;
};

/// Rows in the middle of patterned memory: what is written beside them is seen too.
class RowBuffer {
 public:
  RowBuffer(const Layout& layout, std::uint64_t seed) : layout_(layout) {
    constexpr std::int64_t kMargin = 128;
    const std::int64_t payload = layout.rows * stride();
    bytes_.resize(static_cast<std::size_t>(payload + 2 * kMargin + 64));
    const auto start = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64);
    offset_ = kMargin + (64 - start) % 64 + layout.alignment;
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = pattern(seed, i);
  }
  RowBuffer(const RowBuffer&) = delete;  // a copy would lie differently

  std::int64_t stride() const { return layout_.row_bytes + layout_.gap; }
  std::int64_t rows() const { return layout_.rows; }
  std::int64_t row_bytes() const { return layout_.row_bytes; }
  Rows view() { return {bytes_.data() + offset_, layout_.rows, layout_.row_bytes, stride()}; }
  ConstRows view() const { return {bytes_.data() + offset_, layout_.rows, layout_.row_bytes, stride()}; }
  /// Margins, gaps and rows.
  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// Place of a row in bytes().
  std::size_t place(std::int64_t row) const { return static_cast<std::size_t>(offset_ + row * stride()); }

 private:
  Layout layout_;
  std::int64_t offset_ = 0;
  std::vector<std::byte> bytes_;
};

/// All bytes of `to` as they should be after row `from_row(i)` of `from` went to row `to_row(i)` of it, for i
/// in [0, count): one byte at a time.
template <class FromRow, class ToRow>
std::vector<std::byte> moved(const RowBuffer& from, const RowBuffer& to, std::size_t count, FromRow from_row,
                             ToRow to_row) {
  std::vector<std::byte> expected = to.bytes();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(to.row_bytes()); ++k) {
      expected[to.place(to_row(i)) + k] = from.bytes()[from.place(from_row(i)) + k];
    }
  }
  return expected;
}

/// All bytes of `out` after a gather.
template <class Index>
std::vector<std::byte> plain_gather(const RowBuffer& table, const std::vector<Index>& index,
                                    const RowBuffer& out) {
  return moved(
      table, out, index.size(), [&](std::size_t i) { return index[i]; },
      [](std::size_t i) { return static_cast<std::int64_t>(i); });
}

/// All bytes of `table` after a scatter.
template <class Index>
std::vector<std::byte> plain_scatter(const RowBuffer& values, const std::vector<Index>& index,
                                     const RowBuffer& table) {
  return moved(
      values, table, index.size(), [](std::size_t i) { return static_cast<std::int64_t>(i); },
      [&](std::size_t i) { return index[i]; });
}

/// `count` row numbers below `rows` in a scattered order; each at most once where `rows` is a prime above
/// `count`.
template <class Index>
std::vector<Index> scattered_index(std::int64_t count, std::int64_t rows) {
  std::vector<Index> index(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    index[static_cast<std::size_t>(i)] = static_cast<Index>((i * 37 + 11) % rows);
  return index;
}

}  // namespace speedtorch::kernels
