// How one row is copied and prefetched, once for each instruction set that row_moves.cpp is compiled for.
//
// Every row of a movement has the same width, so the shape of the copy is chosen once a range and known at
// compile time: a loop over the lines of each row costs a quarter to a half of the speed of 64 to 656 byte
// rows, because fewer rows then fit into the processor's window of instructions (docs/kernels.md).

// Highway includes this file once a target; the guard toggles.
#if defined(SPEEDTORCH_KERNELS_ROW_COPIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPEEDTORCH_KERNELS_ROW_COPIES_INL_H_
#undef SPEEDTORCH_KERNELS_ROW_COPIES_INL_H_
#else
#define SPEEDTORCH_KERNELS_ROW_COPIES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "speedtorch/kernels/rows/row_moves.h"

HWY_BEFORE_NAMESPACE();
namespace speedtorch::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr auto kLine = static_cast<std::size_t>(kLineBytes);

// At most a cache line, so that whole lines are whole vectors on every target.
using ByteTag = hn::CappedTag<std::uint8_t, kLineBytes>;

// Plain C++ has vectors of one byte; the compiler copies a line better.
constexpr bool kHasVectors = HWY_TARGET != HWY_SCALAR;

HWY_INLINE std::uint8_t* bytes_of(std::byte* data) { return reinterpret_cast<std::uint8_t*>(data); }
HWY_INLINE const std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<const std::uint8_t*>(data);
}

/// One line's bytes, in registers between load and store.
struct Line {
  static HWY_INLINE void copy(std::byte* to, const std::byte* from) {
    if constexpr (kHasVectors) {
      const ByteTag d;
      for (std::size_t at = 0; at < kLine; at += hn::Lanes(d))
        hn::StoreU(hn::LoadU(d, bytes_of(from + at)), d, bytes_of(to + at));
    } else {
      std::memcpy(to, from, kLine);
    }
  }

  /// To an aligned destination, which is not read into the cache first.
  static HWY_INLINE void stream(std::byte* to, const std::byte* from) {
    if constexpr (kHasVectors) {
      const ByteTag d;
      for (std::size_t at = 0; at < kLine; at += hn::Lanes(d))
        hn::Stream(hn::LoadU(d, bytes_of(from + at)), d, bytes_of(to + at));
    } else {
      std::memcpy(to, from, kLine);
    }
  }
};

/// Copies kBytes to 2 * kBytes bytes as two pieces that overlap: no branch, and never a byte beyond the row.
template <std::size_t kBytes>
HWY_INLINE void copy_pair(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::byte head[kBytes];
  std::byte tail[kBytes];
  std::memcpy(head, from, kBytes);
  std::memcpy(tail, from + bytes - kBytes, kBytes);
  std::memcpy(to, head, kBytes);
  std::memcpy(to + bytes - kBytes, tail, kBytes);
}

/// Copies less than a line, of a width that differs from call to call, and no byte more.
HWY_INLINE void copy_part_line(std::byte* to, const std::byte* from, std::size_t bytes) {
#if HWY_TARGET <= HWY_AVX3 && \
    HWY_ARCH_X86  // byte masks are real: elsewhere they read and write the whole vector
  const ByteTag d;
  const auto mask = hn::FirstN(d, bytes);
  hn::BlendedStore(hn::MaskedLoad(mask, d, bytes_of(from)), mask, d, bytes_of(to));
#else
  if (bytes >= 32) return copy_pair<32>(to, from, bytes);
  if (bytes >= 16) return copy_pair<16>(to, from, bytes);
  if (bytes >= 8) return copy_pair<8>(to, from, bytes);
  if (bytes >= 4) return copy_pair<4>(to, from, bytes);
  if (bytes >= 2) return copy_pair<2>(to, from, bytes);
  if (bytes == 1) *to = *from;
#endif
}

/// Starts loading the line of `at`.
HWY_INLINE void prefetch(const void* at) {
#if HWY_ARCH_X86
  // Not by the builtin: g++ 12 takes a function that does nothing but prefetch for a pure one and drops its
  // calls.
  asm volatile("prefetcht0 %a0" : : "p"(at));
#else
  __builtin_prefetch(at);
#endif
}

/// The lines of a row's first and last byte. Where they are the same, asking twice costs nothing to speak of;
/// a branch on it costs a third of the speed of 48 B rows, which straddle lines at random.
HWY_INLINE void prefetch_ends(const std::byte* row, std::size_t row_bytes) {
  prefetch(row);
  prefetch(row + row_bytes - 1);
}

/// Rows of exactly kBytes: one or two loads and stores.
template <std::size_t kBytes>
struct FixedCopy {
  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, kBytes); }
  HWY_INLINE void prefetch(const std::byte* row) const { prefetch_ends(row, kBytes); }
};

/// Rows of kBytes to 2 * kBytes bytes, at most a line.
template <std::size_t kBytes>
struct PairCopy {
  std::size_t row_bytes;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    copy_pair<kBytes>(to, from, row_bytes);
  }
  HWY_INLINE void prefetch(const std::byte* row) const { prefetch_ends(row, row_bytes); }
};

/// The lines of a row of kLines lines and `rest` bytes. Unless rows begin with a line (`straddle`), one more
/// is touched than is counted; where the rest is more than a few bytes, often two.
template <std::size_t kLines>
struct LinesPrefetch {
  std::size_t row_bytes;
  bool straddle;

  HWY_INLINE void operator()(const std::byte* row) const {
    for (std::size_t k = 0; k < kLines; ++k) prefetch(row + k * kLine);
    if (row_bytes > kLines * kLine + kLine / 8) prefetch(row + kLines * kLine);
    if (straddle) prefetch(row + row_bytes - 1);
  }
};

/// Rows of kLines lines and less than one more: that rest goes with a last piece of a line, which overlaps
/// the piece before.
template <std::size_t kLines>
struct LinesCopy {
  std::size_t row_bytes;
  bool straddle;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    for (std::size_t k = 0; k < kLines; ++k) Line::copy(to + k * kLine, from + k * kLine);
    if (row_bytes > kLines * kLine) Line::copy(to + row_bytes - kLine, from + row_bytes - kLine);
  }
  HWY_INLINE void prefetch(const std::byte* row) const { LinesPrefetch<kLines>{row_bytes, straddle}(row); }
};

/// Rows of kLines lines to lines: past the cache.
template <std::size_t kLines>
struct LinesStream {
  bool straddle;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    for (std::size_t k = 0; k < kLines; ++k) Line::stream(to + k * kLine, from + k * kLine);
  }
  HWY_INLINE void prefetch(const std::byte* row) const {
    LinesPrefetch<kLines>{kLines * kLine, straddle}(row);
  }
};

/// Starts loading a row of more lines than are unrolled: the processor's own prefetcher follows from there,
/// and asking for every line costs more than it brings (4 KiB rows: 24.5 GB/s with 8 or 16 lines, 21.3 with
/// all 64).
HWY_INLINE void prefetch_long_row(const std::byte* row) {
  for (std::size_t k = 0; k < kUnrolledLines; ++k) HWY_NAMESPACE::prefetch(row + k * kLine);
}

/// Rows of more lines than are unrolled.
struct LongCopy {
  std::size_t row_bytes;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    constexpr std::size_t kBlock = 4 * kLine;
    std::size_t at = 0;
    for (; at + kBlock <= row_bytes; at += kBlock) {
      for (std::size_t k = 0; k < kBlock; k += kLine) Line::copy(to + at + k, from + at + k);
    }
    for (; at + kLine <= row_bytes; at += kLine) Line::copy(to + at, from + at);
    if (at < row_bytes) Line::copy(to + row_bytes - kLine, from + row_bytes - kLine);
  }
  HWY_INLINE void prefetch(const std::byte* row) const { prefetch_long_row(row); }
};

/// Copies whole lines to an aligned destination, past the cache.
HWY_INLINE void stream_whole_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 4 * kLine <= bytes; at += 4 * kLine) {
    for (std::size_t k = 0; k < 4 * kLine; k += kLine) Line::stream(to + at + k, from + at + k);
  }
  for (; at < bytes; at += kLine) Line::stream(to + at, from + at);
}

/// Streams the destination lines that a row of at least a line covers whole. The pieces before and after go
/// by exact copies: a store that overlapped a streamed line would flush it half-written.
struct RaggedStream {
  std::size_t row_bytes;
  bool scatters;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % kLine;
    const std::size_t done = head + (row_bytes - head) / kLine * kLine;
    if (head > 0) copy_part_line(to, from, head);
    stream_whole_lines(to + head, from + head, done - head);
    if (done < row_bytes) copy_part_line(to + done, from + done, row_bytes - done);
  }
  /// Of a row that is written, the ends are what is read first.
  HWY_INLINE void prefetch(const std::byte* row) const {
    if (!scatters) return prefetch_long_row(row);
    prefetch_ends(row, row_bytes);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace speedtorch::kernels
HWY_AFTER_NAMESPACE();

#endif
