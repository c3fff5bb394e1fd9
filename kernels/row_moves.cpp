// The bodies of the row movements, compiled once for each instruction set that Highway knows here and chosen
// at run time. Every row of a movement has the same width, so how a row is copied is decided once a range.

#include "kernels/row_moves.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_moves.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // includes this file again for each further target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace speedtorch::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most a cache line, so that whole lines are whole vectors on every target.
using ByteTag = hn::CappedTag<std::uint8_t, kLineBytes>;

HWY_INLINE std::uint8_t* bytes_of(std::byte* data) { return reinterpret_cast<std::uint8_t*>(data); }
HWY_INLINE const std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<const std::uint8_t*>(data);
}

/// Copies exactly kBytes: one or two loads and stores.
template <std::size_t kBytes>
struct FixedCopy {
  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, kBytes); }
};

/// Copies kBytes to 2 * kBytes bytes as two pieces that overlap: no branch, and never a byte beyond the row.
template <std::size_t kBytes>
struct PairCopy {
  std::size_t last;  ///< offset of the second piece

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    std::byte head[kBytes];
    std::byte tail[kBytes];
    std::memcpy(head, from, kBytes);
    std::memcpy(tail, from + last, kBytes);
    std::memcpy(to, head, kBytes);
    std::memcpy(to + last, tail, kBytes);
  }
};

/// Copies a row of at least a vector: whole vectors, then one that ends with the row and overlaps the one
/// before.
struct VectorCopy {
  std::size_t row_bytes;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    const ByteTag d;
    const std::size_t step = hn::Lanes(d);
    std::size_t at = 0;
    for (; at + 4 * step <= row_bytes; at += 4 * step) {
      const auto v0 = hn::LoadU(d, bytes_of(from + at));
      const auto v1 = hn::LoadU(d, bytes_of(from + at + step));
      const auto v2 = hn::LoadU(d, bytes_of(from + at + 2 * step));
      const auto v3 = hn::LoadU(d, bytes_of(from + at + 3 * step));
      hn::StoreU(v0, d, bytes_of(to + at));
      hn::StoreU(v1, d, bytes_of(to + at + step));
      hn::StoreU(v2, d, bytes_of(to + at + 2 * step));
      hn::StoreU(v3, d, bytes_of(to + at + 3 * step));
    }
    for (; at + step <= row_bytes; at += step)
      hn::StoreU(hn::LoadU(d, bytes_of(from + at)), d, bytes_of(to + at));
    if (at < row_bytes) {
      const std::size_t last = row_bytes - step;
      hn::StoreU(hn::LoadU(d, bytes_of(from + last)), d, bytes_of(to + last));
    }
  }
};

/// Copies whole lines to an aligned destination without reading them into the cache first.
HWY_INLINE void stream_whole_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  const ByteTag d;
  const std::size_t step = hn::Lanes(d);
  for (std::size_t at = 0; at < bytes; at += step) {
    hn::Stream(hn::LoadU(d, bytes_of(from + at)), d, bytes_of(to + at));
  }
}

/// Streams the destination lines that the row covers whole. The pieces before and after go by exact copies: a
/// store that overlapped a streamed line would flush it half-written.
struct StreamCopy {
  std::size_t row_bytes;

  HWY_INLINE void operator()(std::byte* to, const std::byte* from) const {
    constexpr auto kLine = static_cast<std::size_t>(kLineBytes);
    const std::size_t head = std::min((0 - reinterpret_cast<std::uintptr_t>(to)) % kLine, row_bytes);
    const std::size_t lines = (row_bytes - head) / kLine * kLine;
    if (head > 0) std::memcpy(to, from, head);
    stream_whole_lines(to + head, from + head, lines);
    if (const std::size_t done = head + lines; done < row_bytes) {
      std::memcpy(to + done, from + done, row_bytes - done);
    }
  }
};

template <class Index>
struct GatherEnds {
  const RowMove<Index> move;  // a copy: bytes stored through std::byte* cannot alias it

  HWY_INLINE const std::byte* from(std::int64_t i) const {
    return move.from + move.index[i] * move.from_stride;
  }
  HWY_INLINE std::byte* to(std::int64_t i) const { return move.to + i * move.to_stride; }
  HWY_INLINE const std::byte* indexed(std::int64_t i) const { return from(i); }
};

template <class Index>
struct ScatterEnds {
  const RowMove<Index> move;  // a copy: bytes stored through std::byte* cannot alias it

  HWY_INLINE const std::byte* from(std::int64_t i) const { return move.from + i * move.from_stride; }
  HWY_INLINE std::byte* to(std::int64_t i) const { return move.to + move.index[i] * move.to_stride; }
  HWY_INLINE const std::byte* indexed(std::int64_t i) const { return to(i); }
};

/// Starts loading a row's lines. Of a long row only the first KiB: the hardware's own prefetcher follows from
/// there.
HWY_INLINE void prefetch_row(const std::byte* row, std::int64_t row_bytes) {
  const std::int64_t bytes = std::min<std::int64_t>(row_bytes, 1024);
  for (std::int64_t at = 0; at < bytes; at += kLineBytes) hwy::Prefetch(row + at);
  hwy::Prefetch(row + bytes - 1);
}

template <class Index, class Ends, class Copy>
HWY_INLINE void move_range(const RowMove<Index>& move, Ends ends, std::int64_t begin, std::int64_t end,
                           Copy copy) {
  const std::int64_t ahead = move.prefetch_rows;
  std::int64_t i = begin;
  if (ahead > 0) {
    for (; i + ahead < end; ++i) {
      prefetch_row(ends.indexed(i + ahead), move.row_bytes);
      copy(ends.to(i), ends.from(i));
    }
  }
  for (; i < end; ++i) copy(ends.to(i), ends.from(i));
}

template <class Index, class Ends>
void move_cached(const RowMove<Index>& move, Ends ends, std::int64_t begin, std::int64_t end) {
  const auto width = static_cast<std::size_t>(move.row_bytes);
  const auto with = [&](auto copy) HWY_ATTR { move_range(move, ends, begin, end, copy); };
  switch (width) {
    case 1:
      return with(FixedCopy<1>{});
    case 2:
      return with(FixedCopy<2>{});
    case 4:
      return with(FixedCopy<4>{});
    case 8:
      return with(FixedCopy<8>{});
    case 16:
      return with(FixedCopy<16>{});
    case 32:
      return with(FixedCopy<32>{});
    case 64:
      return with(FixedCopy<64>{});
    default:
      break;
  }
  if (width < 4) return with(PairCopy<2>{width - 2});
  if (width < 8) return with(PairCopy<4>{width - 4});
  if (width < 16) return with(PairCopy<8>{width - 8});
  if (width < 32) return with(PairCopy<16>{width - 16});
  if (width < 64) return with(PairCopy<32>{width - 32});
  return with(VectorCopy{width});
}

template <class Index, class Ends>
void move_ends(const RowMove<Index>& move, Ends ends, std::int64_t begin, std::int64_t end) {
  if (move.stores == Stores::cached) return move_cached(move, ends, begin, end);
  move_range(move, ends, begin, end, StreamCopy{static_cast<std::size_t>(move.row_bytes)});
  hwy::FlushStream();
}

template <class Index>
void move_rows(const RowMove<Index>& move, std::int64_t begin, std::int64_t end) {
  if (move.direction == Direction::gather) {
    move_ends(move, GatherEnds<Index>{move}, begin, end);
  } else {
    move_ends(move, ScatterEnds<Index>{move}, begin, end);
  }
}

/// A value v is in [0, limit] just where neither v nor limit - v is negative: the signs of all are gathered
/// by "or".
template <class Index>
bool inside(const Index* index, std::int64_t count, std::int64_t rows) {
  const auto limit = static_cast<Index>(std::min<std::int64_t>(rows - 1, std::numeric_limits<Index>::max()));
  const hn::ScalableTag<Index> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto limits = hn::Set(d, limit);
  auto signs = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    const auto v = hn::LoadU(d, index + i);
    signs = hn::Or(signs, hn::Or(v, hn::Sub(limits, v)));
  }
  bool good = hn::AllFalse(d, hn::Lt(signs, hn::Zero(d)));
  for (; i < count; ++i) good = good && index[i] >= 0 && index[i] <= limit;
  return good;
}

void MoveRows32(const RowMove<std::int32_t>& move, std::int64_t begin, std::int64_t end) {
  move_rows(move, begin, end);
}
void MoveRows64(const RowMove<std::int64_t>& move, std::int64_t begin, std::int64_t end) {
  move_rows(move, begin, end);
}
bool Inside32(const std::int32_t* index, std::int64_t count, std::int64_t rows) {
  return inside(index, count, rows);
}
bool Inside64(const std::int64_t* index, std::int64_t count, std::int64_t rows) {
  return inside(index, count, rows);
}

void StreamLines(std::byte* to, const std::byte* from, std::int64_t lines) {
  stream_whole_lines(to, from, static_cast<std::size_t>(lines * kLineBytes));
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace speedtorch::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace speedtorch::kernels {

HWY_EXPORT(MoveRows32);
HWY_EXPORT(MoveRows64);
HWY_EXPORT(Inside32);
HWY_EXPORT(Inside64);
HWY_EXPORT(StreamLines);

void run(const RowMove<std::int32_t>& move, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MoveRows32)(move, begin, end);
}

void run(const RowMove<std::int64_t>& move, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MoveRows64)(move, begin, end);
}

bool all_inside(const std::int32_t* index, std::int64_t count, std::int64_t rows) {
  return HWY_DYNAMIC_DISPATCH(Inside32)(index, count, rows);
}

bool all_inside(const std::int64_t* index, std::int64_t count, std::int64_t rows) {
  return HWY_DYNAMIC_DISPATCH(Inside64)(index, count, rows);
}

void stream_lines(std::byte* to, const std::byte* from, std::int64_t lines) {
  HWY_DYNAMIC_DISPATCH(StreamLines)(to, from, lines);
}

}  // namespace speedtorch::kernels
#endif  // HWY_ONCE
