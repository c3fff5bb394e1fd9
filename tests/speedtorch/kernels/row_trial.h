/// One movement after another over the same memory, each compared with the plain loop: patterned once, so
/// that a trial costs little more than its rows and every width can meet every alignment. No GoogleTest: the
/// check for other processors uses it too.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "tests/speedtorch/kernels/guarded_memory.h"
#include "tests/speedtorch/kernels/row_buffer.h"

namespace speedtorch::kernels {

constexpr std::int64_t kTrialWidest = 600;  ///< bytes of the widest row of which every width is tried
/// Wider ones: whole lines and less, up to the longest copy without a loop and beyond.
constexpr std::int64_t kTrialWider[] = {640, 656, 1024, 1027, 1087, 1088, 1152, 2052, 4096, 4100};
constexpr std::int64_t kTrialListed = 5;   ///< rows on the side that has one for each index
constexpr std::int64_t kTrialIndexed = 7;  ///< rows on the other; prime, so scattered_index repeats none

/// A movement to try.
struct Trial {
  std::int64_t width;
  std::int64_t from_alignment;  ///< of the first row, from a cache line's start
  std::int64_t to_alignment;
  std::int64_t gap;  ///< between rows, on both sides
  Direction direction;
  Stores stores;
  std::int64_t prefetch_rows;
  PrefetchTo prefetch_to;
  std::int64_t line_step;
  std::int64_t touch_rows;
};

inline const char* name_of(Stores stores) {
  return stores == Stores::cached ? "cached" : stores == Stores::streaming ? "streaming" : "staged";
}

inline std::string describe(const Trial& trial) {
  return std::string(trial.direction == Direction::gather ? "gather" : "scatter") + " of " +
         std::to_string(trial.width) + "-byte rows " + std::to_string(trial.gap) + " apart, from alignment " +
         std::to_string(trial.from_alignment) + " to " + std::to_string(trial.to_alignment) + ", " +
         name_of(trial.stores) + ", " + std::to_string(trial.prefetch_rows) + " rows prefetched, level " +
         std::to_string(static_cast<int>(trial.prefetch_to)) + ", every " + std::to_string(trial.line_step) +
         ". line, first lines " + std::to_string(trial.touch_rows) + " rows ahead";
}

/// Every width that is tried, ascending.
inline std::vector<std::int64_t> trial_widths() {
  std::vector<std::int64_t> widths;
  for (std::int64_t width = 1; width <= kTrialWidest; ++width) widths.push_back(width);
  widths.insert(widths.end(), std::begin(kTrialWider), std::end(kTrialWider));
  return widths;
}

/// The movement with the choices forced that the plan would make.
template <class Index>
RowMove<Index> plan_forced(Direction direction, ConstRows from, const Index* index, Rows to, Stores stores,
                           std::int64_t prefetch_rows, PrefetchTo prefetch_to = PrefetchTo::l1,
                           std::int64_t line_step = 1, std::int64_t touch_rows = 0) {
  auto move = direction == Direction::gather ? plan_gather(from, index, to) : plan_scatter(from, index, to);
  move.stores = stores;
  move.prefetch_rows = prefetch_rows;
  move.prefetch_to = prefetch_to;
  move.line_step = line_step;
  move.touch_rows = touch_rows;
  return move;
}

/// The memory of trials with indices of one type.
template <class Index>
class Trials {
 public:
  Trials() : from_(kBytes), clean_(kBytes), to_(kBytes), expected_(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      from_[i] = pattern(1, i);
      clean_[i] = pattern(2, i);
    }
  }

  /// Whether the rows, the gaps between them and the memory around them are as the plain loop leaves them.
  bool moves_as_the_plain_loop(const Trial& trial) {
    const bool gather = trial.direction == Direction::gather;
    const std::int64_t stride = trial.width + trial.gap;
    const std::byte* from = start(from_, trial.from_alignment);
    std::byte* to = start(to_, trial.to_alignment);
    const auto used = static_cast<std::size_t>(2 * kMargin + 64 + kTrialIndexed * stride);
    std::memcpy(to_.data(), clean_.data(), used);
    std::memcpy(expected_.data(), clean_.data(), used);
    std::byte* expected = expected_.data() + (to - to_.data());
    for (std::int64_t i = 0; i < kTrialListed; ++i) {
      const std::int64_t row = index_[static_cast<std::size_t>(i)];
      std::memcpy(expected + (gather ? i : row) * stride, from + (gather ? row : i) * stride,
                  static_cast<std::size_t>(trial.width));
    }
    const std::int64_t from_rows = gather ? kTrialIndexed : kTrialListed;
    const std::int64_t to_rows = gather ? kTrialListed : kTrialIndexed;
    run(plan_forced<Index>(trial.direction, {from, from_rows, trial.width, stride}, index_.data(),
                           {to, to_rows, trial.width, stride}, trial.stores, trial.prefetch_rows,
                           trial.prefetch_to, trial.line_step, trial.touch_rows),
        0, kTrialListed);
    return std::memcmp(to_.data(), expected_.data(), used) == 0;
  }

 private:
  static constexpr std::int64_t kMargin = 128;  // two lines: what is written beside the rows is seen
  static constexpr std::size_t kBytes =
      static_cast<std::size_t>(2 * kMargin + 2 * 64 + kTrialIndexed * (kTrialWider[9] + 64));

  template <class Bytes>
  static auto start(Bytes& bytes, std::int64_t alignment) -> decltype(bytes.data()) {
    const auto start = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64);
    return bytes.data() + kMargin + (64 - start) % 64 + alignment;
  }

  std::vector<std::byte> from_, clean_, to_, expected_;
  std::vector<Index> index_ = scattered_index<Index>(kTrialListed, kTrialIndexed);
};

/// Moves rows of every width between memory that touches a forbidden page, at its start or at its end; the
/// index touches one too. What is wrong with the first row that differs, or nothing; a byte read or written
/// beyond ends the process.
template <class Index>
std::string fault_at_guards(Direction direction, Stores stores, bool at_end) {
  constexpr std::int64_t kRows = kTrialIndexed;
  constexpr std::int64_t kMost = kRows * (kTrialWider[9] + 3);
  const GuardedMemory from_memory(kMost), to_memory(kMost), index_memory(64);
  const auto place = [at_end](const GuardedMemory& memory, std::int64_t bytes) {
    return at_end ? memory.last(bytes) : memory.first();
  };
  const auto order = scattered_index<Index>(kRows, kRows);  // the first and the last row are among them
  auto* index =
      reinterpret_cast<Index*>(place(index_memory, kRows * static_cast<std::int64_t>(sizeof(Index))));
  std::copy(order.begin(), order.end(), index);
  std::byte* pattern_at = place(from_memory, kMost);
  for (std::int64_t i = 0; i < kMost; ++i) pattern_at[i] = pattern(1, static_cast<std::uint64_t>(i));

  for (const std::int64_t width : trial_widths()) {
    const std::int64_t stride = width + width % 4;
    const std::int64_t bytes = (kRows - 1) * stride + width;
    const std::byte* from = place(from_memory, bytes);
    std::byte* to = place(to_memory, bytes);
    std::fill_n(to, bytes, std::byte{0});
    if (!all_inside(index, kRows, kRows)) return "the check refuses good indices";
    run(plan_forced<Index>(direction, {from, kRows, width, stride}, index, {to, kRows, width, stride}, stores,
                           2, PrefetchTo::l1, 1, 4),
        0, kRows);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t row = order[static_cast<std::size_t>(i)];
      const bool gather = direction == Direction::gather;
      if (std::memcmp(to + (gather ? i : row) * stride, from + (gather ? row : i) * stride,
                      static_cast<std::size_t>(width)) != 0) {
        return "row " + std::to_string(i) + " of " + std::to_string(width) + " bytes differs";
      }
    }
  }
  return {};
}

/// What a trial of the sweeps gets that is neither width nor alignment, so that all of it comes up: gaps that
/// keep and that break the alignment from row to row; nothing prefetched, a part of the rows, and further
/// than there are any; each level and step of the prefetch; first lines asked for with the rest, and some
/// rows and all rows before.
inline Trial vary(std::int64_t width, std::int64_t from, std::int64_t to, Direction direction,
                  Stores stores) {
  constexpr std::int64_t kGaps[] = {0, 1, 64 - 3, 4};
  constexpr std::int64_t kAhead[] = {2, 0, 40};
  constexpr PrefetchTo kLevels[] = {PrefetchTo::l1, PrefetchTo::l2};
  constexpr std::int64_t kSteps[] = {1, 2, 4, 16, 0};
  constexpr std::int64_t kTouched[] = {0, 3, 80};
  const std::int64_t turn = width + from + to;
  const bool gapless = stores == Stores::staged && turn % 5 != 0;  // others are not staged
  return {width,
          from,
          to,
          gapless ? 0 : kGaps[turn % 4],
          direction,
          stores,
          kAhead[turn % 3],
          kLevels[turn / 3 % 2],
          kSteps[turn / 6 % 5],
          kTouched[turn / 30 % 3]};
}

/// Calls `visit(Trial)` for every width with every alignment of either side: 64 trials a width, in which the
/// other side's alignment runs through all 64 too.
template <class Visit>
void for_every_width(Direction direction, Stores stores, Visit visit) {
  for (const std::int64_t width : trial_widths()) {
    for (std::int64_t from = 0; from < 64; ++from) {
      visit(vary(width, from, (from * 29 + width) % 64, direction, stores));
    }
  }
}

/// Calls `visit(Trial)` for every pair of alignments: for each width up to two lines, where the shapes of a
/// row's pieces differ, and for some of those that repeat them.
template <class Visit>
void for_every_alignment(Direction direction, Stores stores, Visit visit) {
  std::vector<std::int64_t> widths = {160, 255, 256, 264, 385, 512, 516, 600};
  for (std::int64_t width = 1; width <= 2 * kLineBytes; ++width) widths.push_back(width);
  for (const std::int64_t width : widths) {
    for (std::int64_t from = 0; from < 64; ++from) {
      for (std::int64_t to = 0; to < 64; ++to) visit(vary(width, from, to, direction, stores));
    }
  }
}

}  // namespace speedtorch::kernels
