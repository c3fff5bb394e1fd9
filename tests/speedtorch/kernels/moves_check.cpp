// The row movements of the one instruction set that this was compiled for, against the plain loop: for
// processors that the build has no GoogleTest for. Says what it tried, or what was wrong with exit status 1.

#include <hwy/highway.h>

#include <cstdio>

#include "speedtorch/kernels/rows/rows.h"
#include "tests/speedtorch/kernels/row_trial.h"

namespace {

using namespace speedtorch::kernels;

/// Counts the trials and remembers the first that failed.
struct Outcome {
  std::int64_t trials = 0;
  std::string fault;
};

template <class Index>
void try_all(Direction direction, Stores stores, Outcome& outcome) {
  Trials<Index> trials;
  const auto visit = [&](const Trial& trial) {
    if (!outcome.fault.empty()) return;
    ++outcome.trials;
    if (!trials.moves_as_the_plain_loop(trial)) outcome.fault = describe(trial);
  };
  for_every_width(direction, stores, visit);
  // Emulated, the pairs of alignments are most of the time: once, for the stores know nothing of the index.
  if constexpr (sizeof(Index) == 8) for_every_alignment(direction, stores, visit);
  for (const bool at_end : {false, true}) {
    if (outcome.fault.empty()) outcome.fault = fault_at_guards<Index>(direction, stores, at_end);
  }
}

/// A bad index at each place of each count up to several vectors.
template <class Index>
void try_check(Outcome& outcome) {
  for (std::int64_t count = 1; count <= 40; ++count) {
    std::vector<Index> index(static_cast<std::size_t>(count), 5);
    if (!all_inside(index.data(), count, 6)) outcome.fault = "the check refuses good indices";
    for (Index& value : index) {
      for (const Index bad : {Index{6}, Index{-1}}) {
        value = bad;
        ++outcome.trials;
        if (all_inside(index.data(), count, 6)) outcome.fault = "the check takes " + std::to_string(bad);
      }
      value = 5;
    }
  }
}

/// Whole lines past the cache.
void try_copy(Outcome& outcome) {
  for (std::int64_t lines = 0; lines < 9; ++lines) {
    const RowBuffer from({1, 64 * 9, lines, 0}, 1);
    RowBuffer to({1, 64 * 9, 0, 0}, 2);
    stream_lines(to.view().data, from.view().data, lines, CopyWay::plain);
    ++outcome.trials;
    if (std::memcmp(to.view().data, from.view().data, static_cast<std::size_t>(64 * lines)) != 0) {
      outcome.fault = std::to_string(lines) + " streamed lines differ";
    }
  }
}

}  // namespace

int main() {
  Outcome outcome;
  for (const Direction direction : {Direction::gather, Direction::scatter}) {
    for (const Stores stores : {Stores::cached, Stores::streaming, Stores::staged}) {
      try_all<std::int32_t>(direction, stores, outcome);
      try_all<std::int64_t>(direction, stores, outcome);
    }
  }
  try_check<std::int32_t>(outcome);
  try_check<std::int64_t>(outcome);
  try_copy(outcome);
  if (!outcome.fault.empty()) {
    std::printf("wrong: %s\n", outcome.fault.c_str());
    return 1;
  }
  std::printf("%s: %lld trials\n", hwy::TargetName(HWY_STATIC_TARGET),
              static_cast<long long>(outcome.trials));
  return 0;
}
