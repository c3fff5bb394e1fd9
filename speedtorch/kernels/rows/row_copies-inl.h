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

#include <algorithm>
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

// Copies without a loop are compiled only if a line is at most four vectors, two loads and two stores:
// elsewhere they gain too little. SSE2 has four of each, and only processors from before 2013 run it.
constexpr bool kUnrolls = HWY_ARCH_ARM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2);

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

/// Copies less than a line, of a width that differs from call to call, and no byte more. Not by one masked
/// load and store of AVX-512: these reach for the lines of the bytes that are masked out, too. Rows of 100 to
/// 656 B whose ends go that way take 1.01 to 1.15 of the time.
HWY_INLINE void copy_part_line(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 32) return copy_pair<32>(to, from, bytes);
  if (bytes >= 16) return copy_pair<16>(to, from, bytes);
  if (bytes >= 8) return copy_pair<8>(to, from, bytes);
  if (bytes >= 4) return copy_pair<4>(to, from, bytes);
  if (bytes >= 2) return copy_pair<2>(to, from, bytes);
  if (bytes == 1) *to = *from;
}

/// Starts loading the line of `at`.
template <PrefetchTo kTo>
HWY_INLINE void prefetch_line(const void* at) {
#if HWY_ARCH_X86
  // Not by the builtin: g++ 12 takes a function that does nothing but prefetch for a pure one and drops its
  // calls.
  if constexpr (kTo == PrefetchTo::l1) asm volatile("prefetcht0 %a0" : : "p"(at));
  if constexpr (kTo == PrefetchTo::l2) asm volatile("prefetcht1 %a0" : : "p"(at));
#else
  __builtin_prefetch(at, 0, kTo == PrefetchTo::l1 ? 3 : 2);
#endif
}

/// The lines of a row's first and last byte. Where they are the same, asking twice costs nothing to speak of;
/// a branch on it costs a third of the speed of 48 B rows, which straddle lines at random.
template <PrefetchTo kTo>
HWY_INLINE void prefetch_ends(const std::byte* row, std::size_t row_bytes) {
  prefetch_line<kTo>(row);
  prefetch_line<kTo>(row + row_bytes - 1);
}

/// Rows of exactly kBytes: one or two loads and stores.
template <std::size_t kBytes>
struct FixedCopy {
  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, kBytes); }
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    prefetch_ends<kTo>(row, kBytes);
  }
};

/// Rows of kBytes to 2 * kBytes bytes, at most a line.
template <std::size_t kBytes>
struct PairCopy {
  std::size_t row_bytes;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    copy_pair<kBytes>(to, from, row_bytes);
  }
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    prefetch_ends<kTo>(row, row_bytes);
  }
};

/// The lines of a row of kLines lines and `rest` bytes. Unless rows begin with a line (`straddle`), one more
/// is touched than is counted; where the rest is more than a few bytes, often two.
template <std::size_t kLines, PrefetchTo kTo>
struct LinesPrefetch {
  std::size_t row_bytes;
  bool straddle;

  HWY_INLINE void operator()(const std::byte* row) const {
    for (std::size_t k = 0; k < kLines; ++k) prefetch_line<kTo>(row + k * kLine);
    if (row_bytes > kLines * kLine + kLine / 8) prefetch_line<kTo>(row + kLines * kLine);
    if (straddle) prefetch_line<kTo>(row + row_bytes - 1);
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
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    LinesPrefetch<kLines, kTo>{row_bytes, straddle}(row);
  }
};

/// Rows of kLines lines to lines: past the cache.
template <std::size_t kLines>
struct LinesStream {
  bool straddle;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    for (std::size_t k = 0; k < kLines; ++k) Line::stream(to + k * kLine, from + k * kLine);
  }
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    LinesPrefetch<kLines, kTo>{kLines * kLine, straddle}(row);
  }
};

/// Which lines of a row of more than are unrolled are prefetched: the processor's own prefetcher follows from
/// there, and asking for every line costs more than it brings.
struct LongPrefetch {
  std::size_t step_bytes;
  std::size_t end_bytes;  ///< from the row's start: none from there on
  bool first_lines;       ///< kUnrolledLines of them, one after the other

  LongPrefetch(std::size_t row_bytes, std::int64_t line_step)
      : step_bytes(static_cast<std::size_t>(std::max<std::int64_t>(line_step, 1)) * kLine),
        end_bytes(std::min(row_bytes, kUnrolledLines * step_bytes)),
        first_lines(line_step <= 1 && row_bytes >= kUnrolledLines * kLine) {}

  template <PrefetchTo kTo>
  HWY_INLINE void ask(const std::byte* row) const {
    if (first_lines) {
      for (std::size_t k = 0; k < kUnrolledLines; ++k) prefetch_line<kTo>(row + k * kLine);
    } else {
      for (std::size_t at = 0; at < end_bytes; at += step_bytes) prefetch_line<kTo>(row + at);
    }
  }
};

/// Rows of more lines than are unrolled.
struct LongCopy {
  std::size_t row_bytes;
  LongPrefetch lines;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    constexpr std::size_t kBlock = 4 * kLine;
    std::size_t at = 0;
    for (; at + kBlock <= row_bytes; at += kBlock) {
      for (std::size_t k = 0; k < kBlock; k += kLine) Line::copy(to + at + k, from + at + k);
    }
    for (; at + kLine <= row_bytes; at += kLine) Line::copy(to + at, from + at);
    if (at < row_bytes) Line::copy(to + row_bytes - kLine, from + row_bytes - kLine);
  }
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    lines.ask<kTo>(row);
  }
};

/// Copies whole lines to an aligned destination, past the cache.
HWY_INLINE void stream_whole_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 4 * kLine <= bytes; at += 4 * kLine) {
    for (std::size_t k = 0; k < 4 * kLine; k += kLine) Line::stream(to + at + k, from + at + k);
  }
  for (; at < bytes; at += kLine) Line::stream(to + at, from + at);
}

/// The same with each line prefetched 2 KiB before it is copied. On a Xeon 2 KiB are 2 to 3 % faster than 4
/// to 16 KiB in huge pages.
HWY_INLINE void stream_ahead(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kAhead = 2048;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    prefetch_line<PrefetchTo::l2>(from + at + kAhead);  // past the block's end it does nothing
    Line::stream(to + at, from + at);
  }
}

/// The same for all whole groups of pages: four lines of each page of a group in turn, so that the
/// processor's prefetcher follows several pages at once. The same lines of the next group are prefetched. On
/// a Xeon eight pages are 4 % faster than four, four lines 1 to 4 % faster than one, and the prefetch brings
/// 2 %.
/// @returns the bytes that were copied
HWY_INLINE std::size_t stream_pages(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kGroup = 8 * kPage, kPiece = 4 * kLine;
  std::size_t group = 0;
  for (; group + kGroup <= bytes; group += kGroup) {
    for (std::size_t at = group; at < group + kPage; at += kPiece) {
      for (std::size_t piece = at; piece < at + kGroup; piece += kPage) {
        for (std::size_t k = piece; k < piece + kPiece; k += kLine) {
          prefetch_line<PrefetchTo::l2>(from + k + kGroup);  // past the block's end it does nothing
          Line::stream(to + k, from + k);
        }
      }
    }
  }
  return group;
}

/// Copies a row of at least a line: the destination lines that it covers whole by `copy_lines(to, from,
/// bytes)`, past the cache, and the pieces before and after exactly. A store that overlapped a streamed line
/// would flush it half-written.
HWY_INLINE void copy_ragged(std::byte* to, const std::byte* from, std::size_t row_bytes, auto copy_lines) {
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % kLine;
  const std::size_t done = head + (row_bytes - head) / kLine * kLine;
  copy_part_line(to, from, head);
  copy_lines(to + head, from + head, done - head);
  copy_part_line(to + done, from + done, row_bytes - done);
}

/// Streams the whole lines of rows that share lines with their neighbours.
struct RaggedStream {
  std::size_t row_bytes;
  LongPrefetch lines;
  bool scatters;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    copy_ragged(to, from, row_bytes,
                [](std::byte* first, const std::byte* source, std::size_t bytes)
                    HWY_ATTR { stream_whole_lines(first, source, bytes); });
  }
  /// Of a row that is written, the ends are what is read first.
  template <PrefetchTo kTo>
  HWY_INLINE void prefetch(const std::byte* row) const {
    if (!scatters) return lines.ask<kTo>(row);
    prefetch_ends<kTo>(row, row_bytes);
  }
};

/// Streams gathered rows. Between the stores of a row it asks for the lines of a later one. The fill buffers
/// then hold as many loads as stores all the time, as in a contiguous copy.
struct InterleavedStream {
  std::size_t row_bytes;

  template <PrefetchTo kTo>
  HWY_INLINE void copy(std::byte* to, const std::byte* from, const std::byte* later) const {
    copy_ragged(to, from, row_bytes,
                [later](std::byte* first, const std::byte* source, std::size_t bytes) HWY_ATTR {
                  for (std::size_t at = 0; at < bytes; at += kLine) {
                    prefetch_line<kTo>(later + at);
                    Line::stream(first + at, source + at);
                  }
                });
    // The line before the last may be missed. Asking for it, too, takes 1.00 to 1.02 of the time.
    prefetch_line<kTo>(later + row_bytes - 1);
  }
};

/// Where the copies of a movement go: each row to its own place.
template <class Ends>
struct DirectPlaces {
  const Ends rows;

  HWY_INLINE std::byte* place(std::int64_t i) const { return rows.to(i); }
  HWY_INLINE void placed() const {}
};

/// Where rows that follow each other are put together to whole lines, which are streamed whenever the stage
/// is full. What of the first and last line is not theirs stays as it was.
class LineStage {
 public:
  explicit LineStage(std::byte* to, std::size_t row_bytes)
      : row_bytes_(row_bytes),
        skipped_(reinterpret_cast<std::uintptr_t>(to) % kLine),
        line_(to - skipped_),
        end_(bytes_ + skipped_) {}

  HWY_INLINE std::byte* place(std::int64_t /*i*/) const { return end_; }
  HWY_INLINE void placed() {
    end_ += row_bytes_;
    if (end_ >= bytes_ + kStageBytes) stream();
  }

  /// Writes what is left.
  void finish() {
    stream();
    const auto left = static_cast<std::size_t>(end_ - bytes_);
    if (left > skipped_) std::memcpy(line_ + skipped_, bytes_ + skipped_, left - skipped_);
  }

 private:
  /// Large enough that what is streamed is no longer on its way to the first-level cache.
  static constexpr std::size_t kStageBytes = 8 << 10;

  HWY_NOINLINE void stream() {
    const auto lines = static_cast<std::size_t>(end_ - bytes_) / kLine;
    if (lines == 0) return;
    const std::size_t first = skipped_ > 0 ? 1 : 0;
    if (first > 0) std::memcpy(line_ + skipped_, bytes_ + skipped_, kLine - skipped_);
    stream_whole_lines(line_ + first * kLine, bytes_ + first * kLine, (lines - first) * kLine);
    skipped_ = 0;
    line_ += lines * kLine;
    std::memcpy(bytes_, bytes_ + lines * kLine, kLine);
    end_ -= lines * kLine;
  }

  std::size_t row_bytes_;
  std::size_t skipped_;  ///< bytes of the first line that are not the rows'
  std::byte* line_;      ///< where bytes_[0] goes
  std::byte* end_;       ///< of what is put together
  alignas(kLine) std::byte bytes_[kStageBytes + kStagedRowBytes + kLine];
};

}  // namespace HWY_NAMESPACE
}  // namespace speedtorch::kernels
HWY_AFTER_NAMESPACE();

#endif
