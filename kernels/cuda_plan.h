/// The CUDA kernels' arithmetic: which thread moves which bytes. Plain functions of a thread's number, so
/// that tests run every thread on the host; what touches memory is a policy (`Memory`), which tests replace
/// by one that counts.
///
/// A `Memory` has `template <class Word> Word load(const std::byte*)`, `template <class Word> void
/// store(std::byte*, Word)` and `void bad_index(IndexErrors*, std::int64_t position)`.
///
/// C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/index_errors.h"
#include "kernels/row_view.h"

#ifdef __CUDACC__
#define SPEEDTORCH_HOST_DEVICE __host__ __device__
#else
#define SPEEDTORCH_HOST_DEVICE
#endif

namespace speedtorch::kernels {

constexpr int kWarpThreads = 32;

/// The widest access of a thread, 16 bytes.
struct alignas(16) Word16 {
  std::uint64_t low;
  std::uint64_t high;
};

/// What the rows of a bad index are filled with in a gather: all bits set, a NaN in every floating-point
/// type.
template <class Word>
SPEEDTORCH_HOST_DEVICE constexpr Word poison() {
  return static_cast<Word>(~Word{0});
}
template <>
SPEEDTORCH_HOST_DEVICE constexpr Word16 poison<Word16>() {
  return {~std::uint64_t{0}, ~std::uint64_t{0}};
}

/// The largest power of two up to 16 that divides `bits`, which is the "or" of addresses, strides and widths.
SPEEDTORCH_HOST_DEVICE constexpr int common_width(std::uint64_t bits) {
  const std::uint64_t capped = bits | 16;
  return static_cast<int>(capped & (~capped + 1));
}

/// How threads share the rows. A group of `lanes` neighbouring threads moves a row, or a segment of a long
/// one; the groups of a warp have a row each.
struct LanePlan {
  int width;               ///< bytes of one access: 1, 2, 4, 8 or 16
  int lanes;               ///< threads a row: a power of two up to a warp
  std::int64_t pieces;     ///< accesses a row
  std::int64_t segment;    ///< accesses of one item of work
  std::int64_t row_items;  ///< items a row

  SPEEDTORCH_HOST_DEVICE constexpr int rows_per_warp() const { return kWarpThreads / lanes; }
};

/// Segments of 8 accesses a lane: 4 KiB of 16-byte words, so that few long rows still occupy the whole
/// device.
constexpr int kPiecesPerLane = 8;

SPEEDTORCH_HOST_DEVICE inline std::uint64_t address_bits(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// The plan for rows of both sides' width, base and stride.
SPEEDTORCH_HOST_DEVICE inline LanePlan plan_lanes(ConstRows from, ConstRows to) {
  LanePlan plan{};
  plan.width = common_width(address_bits(from.data) | static_cast<std::uint64_t>(from.stride_bytes) |
                            address_bits(to.data) | static_cast<std::uint64_t>(to.stride_bytes) |
                            static_cast<std::uint64_t>(from.row_bytes));
  plan.pieces = from.row_bytes / plan.width;
  plan.lanes = 1;
  while (plan.lanes < kWarpThreads && plan.lanes < plan.pieces) plan.lanes *= 2;
  plan.segment = static_cast<std::int64_t>(plan.lanes) * kPiecesPerLane;
  plan.row_items = (plan.pieces + plan.segment - 1) / plan.segment;
  return plan;
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
  IndexErrors* errors;  ///< may be null: bad indices are then only kept from harm

  SPEEDTORCH_HOST_DEVICE std::int64_t items() const { return count * plan.row_items; }
};

/// A group's part of one item: `pieces` accesses from `from` to `to`. Without a source it poisons.
struct LaneItem {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t pieces = 0;
};

/// Items whose loads a thread issues before it waits for the first: loads in flight hide the latency of
/// memory.
constexpr int kItemsInFlight = 4;

template <class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline LaneItem find_item(const LaneMove<Index>& move, std::int64_t item, int lane,
                                                 Memory& memory) {
  if (item >= move.items()) return {};
  const LanePlan& plan = move.plan;
  const std::int64_t position = plan.row_items == 1 ? item : item / plan.row_items;
  const std::int64_t first = (item - position * plan.row_items) * plan.segment;
  const std::int64_t left = plan.pieces - first;
  const bool gather = move.direction == Direction::gather;
  const std::int64_t row = move.index[position];
  const bool inside = row >= 0 && row < (gather ? move.from.rows : move.to.rows);
  if (!inside && lane == 0 && first == 0 && move.errors != nullptr) memory.bad_index(move.errors, position);
  if (!inside && !gather) return {};

  LaneItem found;
  if (inside)
    found.from = move.from.data + (gather ? row : position) * move.from.stride_bytes + first * plan.width;
  found.to = move.to.data + (gather ? position : row) * move.to.stride_bytes + first * plan.width;
  found.pieces = left < plan.segment ? left : plan.segment;
  return found;
}

/// What thread `thread` of `threads` (a multiple of the warp) moves, in words of the plan's width: its lane's
/// pieces of every item that falls to its group, kItemsInFlight at a time.
template <class Word, class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void move_lane(const LaneMove<Index>& move, std::int64_t thread,
                                             std::int64_t threads, Memory& memory) {
  const int lane = static_cast<int>(thread % move.plan.lanes);
  const std::int64_t groups = threads / move.plan.lanes;
  for (std::int64_t item = thread / move.plan.lanes; item < move.items(); item += groups * kItemsInFlight) {
    LaneItem found[kItemsInFlight];
    for (int k = 0; k < kItemsInFlight; ++k) found[k] = find_item(move, item + k * groups, lane, memory);
    for (std::int64_t piece = lane; piece < move.plan.segment; piece += move.plan.lanes) {
      const std::int64_t at = piece * static_cast<std::int64_t>(sizeof(Word));
      Word words[kItemsInFlight];
      for (int k = 0; k < kItemsInFlight; ++k) {
        const bool loads = piece < found[k].pieces && found[k].from != nullptr;
        words[k] = loads ? memory.template load<Word>(found[k].from + at) : poison<Word>();
      }
      for (int k = 0; k < kItemsInFlight; ++k) {
        if (piece < found[k].pieces) memory.template store<Word>(found[k].to + at, words[k]);
      }
    }
  }
}

/// A contiguous copy: bytes up to the first aligned word of `to`, words, and the bytes that are left.
struct CopyPlan {
  int width;  ///< bytes of one access, such that `from` and `to` are aligned to it at the same offset
  std::int64_t head;
  std::int64_t words;
  std::int64_t tail;
};

SPEEDTORCH_HOST_DEVICE inline CopyPlan plan_copy(const std::byte* to, const std::byte* from,
                                                 std::int64_t bytes) {
  CopyPlan plan{};
  plan.width = common_width(address_bits(to) ^ address_bits(from));
  const std::int64_t unaligned =
      static_cast<std::int64_t>(address_bits(to) % static_cast<unsigned>(plan.width));
  const std::int64_t head = unaligned == 0 ? 0 : plan.width - unaligned;
  plan.head = head < bytes ? head : bytes;
  plan.words = (bytes - plan.head) / plan.width;
  plan.tail = bytes - plan.head - plan.words * plan.width;
  return plan;
}

/// What thread `thread` of `threads` (at least 16) copies: at most a byte of head and tail, and every
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
