// The row movements, compiled once for each instruction set that Highway knows here and chosen at run time.
// How a row is copied is in row_copies-inl.h.

#include "speedtorch/kernels/rows/row_moves.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "speedtorch/kernels/rows/row_moves.cpp"
#include <hwy/foreach_target.h>  // includes this file again for each further target
#include <hwy/highway.h>

#include "speedtorch/kernels/rows/row_copies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace speedtorch::kernels {
namespace HWY_NAMESPACE {
template <class Index>
struct GatherEnds {
  const RowMove<Index> move;  // a copy: bytes stored through std::byte* cannot alias it

  HWY_INLINE const std::byte* from(std::int64_t i) const {
    return move.from + move.index[i] * move.from_stride;
  }
  HWY_INLINE std::byte* to(std::int64_t i) const { return move.to + i * move.to_stride; }
  HWY_INLINE const std::byte* indexed(std::int64_t i) const { return from(i); }
};

/// Rows go from anywhere to anywhere.
struct PlacedEnds {
  const RowMove<std::int64_t> move;  // a copy: bytes stored through std::byte* cannot alias it

  HWY_INLINE const std::byte* from(std::int64_t i) const {
    return move.from + move.index[i] * move.from_stride;
  }
  HWY_INLINE std::byte* to(std::int64_t i) const { return move.to + move.places[i] * move.to_stride; }
  HWY_INLINE const std::byte* indexed(std::int64_t i) const { return from(i); }
};

template <class Index>
struct ScatterEnds {
  const RowMove<Index> move;  // a copy: bytes stored through std::byte* cannot alias it

  HWY_INLINE const std::byte* from(std::int64_t i) const { return move.from + i * move.from_stride; }
  HWY_INLINE std::byte* to(std::int64_t i) const { return move.to + move.index[i] * move.to_stride; }
  HWY_INLINE const std::byte* indexed(std::int64_t i) const { return to(i); }
};

/// Moves the rows of [begin, end), the indexed ones prefetched some rows ahead.
template <class Ends, bool kStaged>
struct Range {
  Ends ends;
  std::int64_t begin;
  std::int64_t end;

  template <class Copy>
  HWY_INLINE void with(Copy copy) const {
    if (ends.move.prefetch_to == PrefetchTo::l2) return stored<PrefetchTo::l2>(copy);
    stored<PrefetchTo::l1>(copy);
  }

  template <PrefetchTo kTo, class Copy>
  HWY_INLINE void stored(Copy copy) const {
    if constexpr (kStaged) {
      LineStage stage(ends.to(begin), static_cast<std::size_t>(ends.move.row_bytes));
      loop<kTo>(copy, stage);
      stage.finish();
    } else {
      loop<kTo>(copy, DirectPlaces<Ends>{ends});
    }
  }

  /// Asks for the first lines of the rows that come `touch_rows` after the next few from `i` on. In blocks,
  /// because a condition in the loop over rows costs up to a third more instructions a row. Larger blocks of
  /// wide rows lose what they bring: eight of 656 B and of 1 KiB take 1.01 and 1.06 of the time without,
  /// blocks of 2 KiB 0.93 and 0.92.
  /// @returns where the next few end: `stop` if no lines are to be asked for
  template <PrefetchTo kTo>
  HWY_INLINE std::int64_t touch_first_lines(const Ends& rows, std::int64_t i, std::int64_t stop) const {
    constexpr std::int64_t kMostBytes = 2048, kMostRows = 8;
    const std::int64_t touch = rows.move.touch_rows;
    if (touch == 0) return stop;
    const auto count = std::clamp<std::int64_t>(kMostBytes / rows.move.row_bytes, 1, kMostRows);
    const std::int64_t last = std::min(i + count, stop);
    for (std::int64_t k = i + touch; k < std::min(last + touch, end); ++k)
      prefetch_line<kTo>(rows.indexed(k));
    return last;
  }

  template <PrefetchTo kTo, class Copy, class Places>
  HWY_INLINE void loop(Copy copy, Places&& places) const {
    const Ends rows = ends;  // again a copy, lest every store makes the compiler read it anew
    const std::int64_t ahead = std::min(rows.move.prefetch_rows, end - begin);
    const auto prefetch = [&](std::int64_t i) HWY_ATTR { copy.template prefetch<kTo>(rows.indexed(i)); };
    const auto move = [&](std::int64_t i) HWY_ATTR {
      copy(places.place(i), rows.from(i));
      places.placed();
    };
    std::int64_t i = begin;
    for (std::int64_t k = begin; k < begin + ahead; ++k) prefetch(k);
    while (ahead > 0 && i + ahead < end) {
      const std::int64_t stop = touch_first_lines<kTo>(rows, i, end - ahead);
      for (; i < stop; ++i) {
        prefetch(i + ahead);
        move(i);
      }
    }
    for (; i < end; ++i) move(i);
  }

  template <PrefetchTo kTo>
  void interleaved() const {
    const Ends rows = ends;
    const InterleavedStream stream{static_cast<std::size_t>(rows.move.row_bytes)};
    const auto later = [&](std::int64_t i) HWY_ATTR { return rows.indexed(std::min(i, end - 1)); };
    for (std::int64_t i = begin; i < end; ++i) {
      if (rows.move.touch_rows > 0) prefetch_line<kTo>(later(i + rows.move.touch_rows));
      stream.copy<kTo>(rows.to(i), rows.from(i), later(i + rows.move.prefetch_rows));
    }
  }

  void cached() const {
    const auto width = static_cast<std::size_t>(ends.move.row_bytes);
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
      default:
        break;
    }
    if (width < 4) return with(PairCopy<2>{width});
    if (width < 8) return with(PairCopy<4>{width});
    if (width < 16) return with(PairCopy<8>{width});
    if (width < 32) return with(PairCopy<16>{width});
    if (width < 64) return with(PairCopy<32>{width});
    if (has_own_copy(width)) return unrolled<1, false>(width);
    return with(LongCopy{width, {width, ends.move.line_step}});
  }

  void streaming() const {
    const auto width = static_cast<std::size_t>(ends.move.row_bytes);
    if (width < kLine) return cached();
    if (!cuts_lines(ends.move.to, ends.move.to_stride) && has_own_copy(width)) {
      unrolled<1, true>(width);
    } else if (ends.move.direction == Direction::gather && ends.move.line_step == 0) {
      ends.move.prefetch_to == PrefetchTo::l2 ? interleaved<PrefetchTo::l2>() : interleaved<PrefetchTo::l1>();
    } else {
      with(RaggedStream{width, {width, ends.move.line_step}, ends.move.direction == Direction::scatter});
    }
    hwy::FlushStream();
  }

  /// Whether rows there begin or end amid a line.
  bool cuts_lines(const std::byte* rows, std::int64_t stride) const {
    const std::uint64_t places = reinterpret_cast<std::uintptr_t>(rows) | static_cast<std::uint64_t>(stride) |
                                 static_cast<std::uint64_t>(ends.move.row_bytes);
    return places % kLine != 0;
  }

  /// True if a row of at least a line has a copy without a loop.
  static bool has_own_copy(std::size_t width) { return kUnrolls && width / kLine <= kUnrolledLines; }

  /// The copy of the width's whole lines, of kLines or more.
  template <std::size_t kLines, bool kStreaming>
  void unrolled(std::size_t width) const {
    if constexpr (kUnrolls && kLines <= kUnrolledLines) {
      if (width / kLine != kLines) return unrolled<kLines + 1, kStreaming>(width);
      const bool gather = ends.move.direction == Direction::gather;
      const bool straddle = gather ? cuts_lines(ends.move.from, ends.move.from_stride)
                                   : cuts_lines(ends.move.to, ends.move.to_stride);
      if constexpr (kStreaming) {
        with(LinesStream<kLines>{straddle});
      } else {
        with(LinesCopy<kLines>{width, straddle});
      }
    }
  }
};

template <class Ends>
void move_ends(const Ends& ends, std::int64_t begin, std::int64_t end) {
  const Range<Ends, false> range{ends, begin, end};
  if (ends.move.stores == Stores::cached) {
    range.cached();
  } else {
    range.streaming();
  }
}

/// Whether the rows can be put together to lines before they are stored.
template <class Index>
bool can_stage(const RowMove<Index>& move) {
  return move.stores == Stores::staged && move.to_stride == move.row_bytes &&
         move.row_bytes <= kStagedRowBytes;
}

template <class Index>
void move_rows(const RowMove<Index>& move, std::int64_t begin, std::int64_t end) {
  if (move.direction == Direction::scatter) return move_ends(ScatterEnds<Index>{move}, begin, end);
  if constexpr (std::is_same_v<Index, std::int64_t>)
    if (move.places != nullptr) return move_ends(PlacedEnds{move}, begin, end);
  const GatherEnds<Index> ends{move};
  if (!can_stage(move)) return move_ends(ends, begin, end);
  if (begin == end) return;
  Range<GatherEnds<Index>, true>{ends, begin, end}.cached();
  hwy::FlushStream();
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

void StreamLines(std::byte* to, const std::byte* from, std::int64_t lines, CopyWay way) {
  auto bytes = static_cast<std::size_t>(lines) * kLine;
  if (way == CopyWay::ahead) {
    stream_ahead(to, from, bytes);
  } else if (way == CopyWay::pages) {
    const auto done = stream_pages(to, from, bytes);
    stream_whole_lines(to + done, from + done, bytes - done);
  } else {
    stream_whole_lines(to, from, bytes);
  }
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

void stream_lines(std::byte* to, const std::byte* from, std::int64_t lines, CopyWay way) {
  HWY_DYNAMIC_DISPATCH(StreamLines)(to, from, lines, way);
}

}  // namespace speedtorch::kernels
#endif  // HWY_ONCE
