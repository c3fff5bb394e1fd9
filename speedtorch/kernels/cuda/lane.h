/// The body of the CUDA kernels: what one thread moves. Plain functions of a thread's number, so that tests
/// run every thread on the host. A policy (`Memory`) accesses memory; tests replace it by one that counts.
///
/// A `Memory` has `template <class Word> Word load(const std::byte*)`, `template <class Word> void
/// store(std::byte*, Word)`, `template <class Index> Index load_index(const Index*)` and `void
/// bad_index(IndexErrors*, std::int64_t position, std::int64_t index, std::int64_t rows)`.
///
/// C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "speedtorch/kernels/cuda/plan.h"
#include "speedtorch/kernels/index_errors.h"

namespace speedtorch::kernels {

/// The widest access of a thread, 16 bytes.
struct alignas(16) Word16 {
  std::uint64_t low;
  std::uint64_t high;
};

/// The value of the rows of invalid indices in a gather: all bits set, a NaN in every floating-point type.
template <class Word>
SPEEDTORCH_HOST_DEVICE constexpr Word poison() {
  return static_cast<Word>(~Word{0});
}
template <>
SPEEDTORCH_HOST_DEVICE constexpr Word16 poison<Word16>() {
  return {~std::uint64_t{0}, ~std::uint64_t{0}};
}

/// A gather or scatter with its plan: the argument of the kernel.
template <class Index>
struct LaneMove {
  ConstRows from;
  Rows to;
  const Index* index;
  std::int64_t count;
  Direction direction;
  LanePlan plan;
  IndexErrors* errors = nullptr;  ///< may be null: invalid indices then do no harm and are not counted
  bool check = true;              ///< false: indices are used unchecked
  /// If given, index i belongs to row positions[i] of the listed side instead of row i: a sorted index.
  const std::int32_t* positions = nullptr;
  /// If given, the count, which only the device knows; `count` is then its upper bound.
  const std::int64_t* count_on_device = nullptr;
};

/// Identifies one of a launch's threads. Rows are divided over `threads` and the items of long rows over
/// `parts`, so that no thread divides to find its item.
struct Worker {
  std::int64_t thread = 0;
  std::int64_t threads = kWarpThreads;  ///< a multiple of the warp
  std::int64_t part = 0;
  std::int64_t parts = 1;
};

/// A group's part of one item. Byte `at` moves from from[at] to to[at], for `low` <= at < `high`. Without a
/// source it is poisoned.
struct LaneItem {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int low = 0;
  int high = 0;
};

/// The items that a thread handles at a time.
template <std::size_t kEntries>
struct LaneItems {
  static constexpr int count = static_cast<int>(kEntries);
  LaneItem of[kEntries];
};

/// Items whose loads a thread issues before it waits for the first: loads in flight hide the latency of
/// memory. More would cost registers and so threads. (Four of 16 bytes are 64 KiB per multiprocessor at half
/// its threads; device memory needs 10-26 KiB, and a PCIe 5 link 72 KiB for the whole GPU.)
constexpr int kItemsInFlight = 4;

/// The bytes of a row from `first` on, as seen from where the lanes start: the row or, with kLinked, what the
/// plan says.
template <bool kLinked, class Index>
SPEEDTORCH_HOST_DEVICE inline LaneItem cut_item(const LaneMove<Index>& move, const std::byte* from,
                                                std::byte* to, std::int64_t first) {
  const LanePlan& plan = move.plan;
  std::int64_t start = first;  // of the item, from the row's first byte
  LaneItem item;
  if constexpr (kLinked) {
    const std::uint64_t address = plan.shift == Link::from ? address_bits(from) : address_bits(to);
    if (plan.shift != Link::none) start -= static_cast<std::int64_t>(address % kGpuLineBytes);
    item.low = start < 0 ? static_cast<int>(-start) : 0;  // less than a line, so inside the item
  }
  const std::int64_t left = move.from.row_bytes - start;
  item.from = from == nullptr ? nullptr : from + start;
  item.to = to == nullptr ? nullptr
                          : to + start;  // null: the row of an invalid index of a scatter, which is not moved
  item.high = static_cast<int>(left < plan.item_bytes ? left : plan.item_bytes);
  return item;
}

template <class Index>
SPEEDTORCH_HOST_DEVICE inline std::int64_t rows_to_name(const LaneMove<Index>& move) {
  return move.direction == Direction::gather ? move.from.rows : move.to.rows;
}

/// One comparison for both ends: a negative row is a huge unsigned one.
template <class Index>
SPEEDTORCH_HOST_DEVICE inline bool names_a_row(const LaneMove<Index>& move, std::int64_t row) {
  return !move.check || static_cast<std::uint64_t>(row) < static_cast<std::uint64_t>(rows_to_name(move));
}

template <bool kLinked, class Index>
SPEEDTORCH_HOST_DEVICE inline LaneItem find_item(const LaneMove<Index>& move, std::int64_t row,
                                                 std::int64_t position, std::int64_t part) {
  const bool gather = move.direction == Direction::gather;
  const bool inside = names_a_row(move, row);
  const std::int64_t from_row = gather ? row : position;
  const std::int64_t to_row = gather ? position : row;
  const std::byte* from = inside ? move.from.data + from_row * move.from.stride_bytes : nullptr;
  // The address for an invalid index is unused, but must not be computed either: the product may overflow.
  std::byte* to = inside || gather ? move.to.data + to_row * move.to.stride_bytes : nullptr;
  LaneItem item = cut_item<kLinked>(move, from, to, part * move.plan.item_bytes);
  if (!inside && !gather) item.high = 0;
  return item;
}

/// Counts the invalid entries in flight. Reads them again, so that the path without invalid indices keeps no
/// state for it.
template <std::size_t kEntries, class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void report_bad(const LaneMove<Index>& move, std::int64_t first,
                                              std::int64_t stride, std::int64_t count, Memory& memory) {
  for (std::int64_t entry = first; entry < count && entry < first + LaneItems<kEntries>::count * stride;
       entry += stride) {
    const std::int64_t row = move.index[entry];
    const std::int64_t position = move.positions == nullptr ? entry : move.positions[entry];
    if (!names_a_row(move, row)) memory.bad_index(move.errors, position, row, rows_to_name(move));
  }
}

/// The items of part `part` of the entries in flight: `first` and on, `stride` apart. Loads all indices
/// before it uses one, so that it waits for memory once and not once per item.
template <bool kLinked, std::size_t kEntries, class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void find_items(const LaneMove<Index>& move, std::int64_t first,
                                              std::int64_t stride, std::int64_t count, std::int64_t part,
                                              bool reports, Memory& memory, LaneItems<kEntries>& found) {
  Index rows[kEntries];
  std::int64_t positions[kEntries];
  for (int k = 0; k < LaneItems<kEntries>::count; ++k) {
    positions[k] = first + k * stride;
    rows[k] = positions[k] < count ? memory.load_index(move.index + positions[k]) : Index{0};
  }
  if (move.positions != nullptr) {
    for (int k = 0; k < LaneItems<kEntries>::count; ++k)
      if (positions[k] < count) positions[k] = memory.load_index(move.positions + positions[k]);
  }
  bool all_named = true;
  for (int k = 0; k < LaneItems<kEntries>::count; ++k) {
    const bool there = first + k * stride < count;
    found.of[k] = find_item<kLinked>(move, rows[k], there ? positions[k] : 0, part);
    if (!there) found.of[k].high = 0;
    all_named = all_named && (!there || names_a_row(move, rows[k]));
  }
  if (!all_named && reports && move.errors != nullptr)
    report_bad<kEntries>(move, first, stride, count, memory);
}

/// Wider words are composed of pieces, and split into them, in the order of memory.
template <class Word, class Piece, class Memory>
SPEEDTORCH_HOST_DEVICE inline Word load_word(const std::byte* from, Memory& memory) {
  if constexpr (sizeof(Word) == sizeof(Piece)) {
    return memory.template load<Word>(from);
  } else {
    Word word;
    for (std::size_t at = 0; at < sizeof(Word); at += sizeof(Piece)) {
      const Piece piece = memory.template load<Piece>(from + at);
      memcpy(reinterpret_cast<std::byte*>(&word) + at, &piece, sizeof(Piece));
    }
    return word;
  }
}

template <class Word, class Piece, class Memory>
SPEEDTORCH_HOST_DEVICE inline void store_word(std::byte* to, Word word, Memory& memory) {
  if constexpr (sizeof(Word) == sizeof(Piece)) {
    memory.template store<Word>(to, word);
  } else {
    for (std::size_t at = 0; at < sizeof(Word); at += sizeof(Piece)) {
      Piece piece;
      memcpy(&piece, reinterpret_cast<const std::byte*>(&word) + at, sizeof(Piece));
      memory.template store<Piece>(to + at, piece);
    }
  }
}

/// The offset in its item of lane `lane`'s piece of the words that the row's start and end cut, or -1. The
/// first lanes take the start's pieces and the next ones the end's, so that one instruction takes them all.
template <class Word, class Piece>
SPEEDTORCH_HOST_DEVICE inline int edge_place(const LaneItem& item, int lane) {
  constexpr int kWidth = sizeof(Word);
  constexpr int kPieces = kWidth / static_cast<int>(sizeof(Piece));
  const int limit = lane < kPieces ? item.low : item.high;
  if (lane >= 2 * kPieces || limit % kWidth == 0) return -1;
  const int at = limit / kWidth * kWidth + lane % kPieces * static_cast<int>(sizeof(Piece));
  return at >= item.low && at < item.high ? at : -1;
}

/// Moves lane `lane`'s pieces of the cut words of all items in flight.
template <class Word, class Piece, std::size_t kEntries, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_edges(const LaneItems<kEntries>& found, int lane, Memory& memory) {
  Piece pieces[kEntries];
  for (int k = 0; k < LaneItems<kEntries>::count; ++k) {
    const int at = edge_place<Word, Piece>(found.of[k], lane);
    const bool loads = at >= 0 && found.of[k].from != nullptr;
    pieces[k] = loads ? memory.template load<Piece>(found.of[k].from + at) : poison<Piece>();
  }
  for (int k = 0; k < LaneItems<kEntries>::count; ++k) {
    const int at = edge_place<Word, Piece>(found.of[k], lane);
    if (at >= 0) memory.template store<Piece>(found.of[k].to + at, pieces[k]);
  }
}

/// True if the item has the whole word at `at`.
template <class Word>
SPEEDTORCH_HOST_DEVICE inline bool has_word(const LaneItem& item, int at) {
  return at >= item.low && at + static_cast<int>(sizeof(Word)) <= item.high;
}

/// Moves the word at `at + k * within` of item(k) for each k in flight whose item has it. Issues all loads
/// before the first store. With a condition at each, ptxas 13.0 put the first store before the other loads,
/// which halved the bytes in flight. So the usual case, in which all words exist, has no condition.
template <class FromWord, class ToWord, class Word, class Items, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_words(const Items& item, int at, int within, Memory& memory) {
  bool all = true;
  for (int k = 0; k < kItemsInFlight; ++k)
    all = all && has_word<Word>(item(k), at + k * within) && item(k).from != nullptr;
  Word words[kItemsInFlight];
  if (all) {
    for (int k = 0; k < kItemsInFlight; ++k)
      words[k] = load_word<Word, FromWord>(item(k).from + at + k * within, memory);
    for (int k = 0; k < kItemsInFlight; ++k)
      store_word<Word, ToWord>(item(k).to + at + k * within, words[k], memory);
    return;
  }
  for (int k = 0; k < kItemsInFlight; ++k) {
    const bool loads = has_word<Word>(item(k), at + k * within) && item(k).from != nullptr;
    words[k] = loads ? load_word<Word, FromWord>(item(k).from + at + k * within, memory) : poison<Word>();
  }
  for (int k = 0; k < kItemsInFlight; ++k)
    if (has_word<Word>(item(k), at + k * within))
      store_word<Word, ToWord>(item(k).to + at + k * within, words[k], memory);
}

/// Moves one item per entry in flight: the words of `lane`. With several items, these are in flight together;
/// with a single one, its steps are.
template <class FromWord, class ToWord, std::size_t kEntries, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_items(const LanePlan& plan, const LaneItems<kEntries>& found,
                                              int lane, Memory& memory) {
  constexpr bool kReadsWider = sizeof(FromWord) > sizeof(ToWord);
  using Word = std::conditional_t<kReadsWider, FromWord, ToWord>;
  using Piece = std::conditional_t<kReadsWider, ToWord, FromWord>;
  constexpr int kWidth = sizeof(Word);
  const int step = plan.lanes() * kWidth;
  const int within = kEntries == 1 ? step : 0;
  for (int at = lane * kWidth; at < plan.item_bytes; at += kItemsInFlight / LaneItems<kEntries>::count * step)
    move_words<FromWord, ToWord, Word>([&found](int k) { return found.of[k % LaneItems<kEntries>::count]; },
                                       at, within, memory);
  if constexpr (sizeof(Word) != sizeof(Piece)) move_edges<Word, Piece>(found, lane, memory);
}

/// Moves the lane's words of every item of the thread's group, kEntries entries at a time.
template <class FromWord, class ToWord, bool kLinked, std::size_t kEntries, class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_entries(const LaneMove<Index>& move, const Worker& worker,
                                                Memory& memory) {
  const int lane = static_cast<int>(worker.thread & (move.plan.lanes() - 1));
  const std::int64_t groups = worker.threads >> move.plan.lane_bits;
  const std::int64_t count = move.count_on_device == nullptr ? move.count : *move.count_on_device;
  for (std::int64_t part = worker.part; part < move.plan.row_items; part += worker.parts) {
    const bool reports = lane == 0 && part == 0;
    for (std::int64_t entry = worker.thread >> move.plan.lane_bits; entry < count;
         entry += groups * LaneItems<kEntries>::count) {
      LaneItems<kEntries> found;
      find_items<kLinked>(move, entry, groups, count, part, reports, memory, found);
      move_items<FromWord, ToWord>(move.plan, found, lane, memory);
    }
  }
}

/// Moves one thread's words, reading by FromWord and writing by ToWord (the plan's widths). Items with at
/// least as many steps as there are items in flight go one by one, so that a few long rows have as much in
/// flight as many short ones. kLinked is false if neither side is linked.
template <class FromWord, class ToWord, bool kLinked, class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_lane(const LaneMove<Index>& move, const Worker& worker,
                                             Memory& memory) {
  if (move.plan.item_bytes < kItemsInFlight * move.plan.lanes() * move.plan.width())
    move_entries<FromWord, ToWord, kLinked, kItemsInFlight>(move, worker, memory);
  else
    move_entries<FromWord, ToWord, kLinked, 1>(move, worker, memory);
}

/// Copies the share of thread `thread` of `threads` (at least 16): at most a byte of head and tail, and every
/// threads-th word, kItemsInFlight at a time.
template <class Word, class Memory>
SPEEDTORCH_HOST_DEVICE inline void copy_lane(std::byte* to, const std::byte* from, const CopyPlan& plan,
                                             std::int64_t thread, std::int64_t threads, Memory& memory) {
  const std::int64_t width = sizeof(Word);
  const std::int64_t end = plan.head + plan.words * width;
  if (thread < plan.head) memory.store(to + thread, memory.template load<std::uint8_t>(from + thread));
  if (thread < plan.tail)
    memory.store(to + end + thread, memory.template load<std::uint8_t>(from + end + thread));
  for (std::int64_t word = thread; word < plan.words; word += threads * kItemsInFlight) {
    Word words[kItemsInFlight];
    for (int k = 0; k < kItemsInFlight; ++k) {
      const std::int64_t next = word + k * threads;
      words[k] =
          next < plan.words ? memory.template load<Word>(from + plan.head + next * width) : poison<Word>();
    }
    for (int k = 0; k < kItemsInFlight; ++k) {
      const std::int64_t next = word + k * threads;
      if (next < plan.words) memory.template store<Word>(to + plan.head + next * width, words[k]);
    }
  }
}

}  // namespace speedtorch::kernels
