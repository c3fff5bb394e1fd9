/// The work of one thread of the CUDA kernels in a step on flat buffers, or for their norm. Plain functions
/// of the thread's number, so that tests run every thread on the host. C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "speedtorch/kernels/half.h"
#include "speedtorch/kernels/steps/flat_tables.h"

namespace speedtorch::kernels {

/// A run, with the values of its update that depend on the step.
template <class Update>
struct LaneRun {
  std::int64_t begin;  ///< in the buffers, a multiple of kFlatUnit
  std::int64_t first;  ///< its first element, counted over all runs
  Update update;
  typename Update::Now now;
};

/// The runs of one launch. They are arguments of the kernel, which may take 4 KiB.
constexpr std::int64_t kRunsALaunch = 16;

/// Runs of elements and their update: the argument of the kernel.
template <class T, class Update>
struct FlatLane {
  FlatTables<T> tables;
  Change<T> change;
  bool zero;
  std::int64_t count;     ///< of runs
  std::int64_t elements;  ///< of all runs
  LaneRun<Update> runs[kRunsALaunch];
};

/// How many of these runs (at least one) the next launch steps: consecutive runs with one kind of update.
template <class T>
std::int64_t runs_of_launch(const FlatRun<T>* runs, std::int64_t count) {
  std::int64_t n = 1;
  while (n < count && n < kRunsALaunch && runs[n].update->index() == runs[0].update->index()) ++n;
  return n;
}

template <class T, class Update, std::size_t... places>
FlatLane<T, Update> flat_lane_of(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                                 const GradientChange& change, bool zero,
                                 std::index_sequence<places...> /*all*/) {
  std::int64_t elements = 0;
  const auto next = [&](std::size_t place) {
    const auto& run = runs[static_cast<std::int64_t>(place) < count ? place : 0];  // those beyond are unused
    const auto& update = std::get<Update>(*run.update);
    LaneRun<Update> made{run.begin, elements, update, update.at(run.step)};
    if (static_cast<std::int64_t>(place) < count) elements += run.end - run.begin;
    return made;
  };
  FlatLane<T, Update> lane{tables, Change<T>(change), zero, count, 0, {next(places)...}};  // in this order
  lane.elements = elements;
  return lane;
}

/// The argument of a launch that steps runs_of_launch() runs.
template <class T, class Update>
FlatLane<T, Update> flat_lane_of(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                                 const GradientChange& change, bool zero) {
  return flat_lane_of<T, Update>(tables, runs, count, change, zero, std::make_index_sequence<kRunsALaunch>());
}

/// The elements that a thread takes at a time: 16 bytes of float32 in one access.
constexpr int kLaneElements = 4;

template <class T>
struct alignas(sizeof(T) * kLaneElements > 16 ? 16 : sizeof(T) * kLaneElements) LaneValues {
  T of[kLaneElements];
};

template <class T>
SPEEDTORCH_INLINE LaneValues<T>& lane_at(T* buffer, std::int64_t k) {
  return *reinterpret_cast<LaneValues<T>*>(buffer + k);
}

/// One access of 8 bytes. Element by element, nvcc 13.0 emitted four of 2.
template <class Kind, class T>
SPEEDTORCH_INLINE LaneValues<T> widened(const std::uint16_t* halves) {
  constexpr int kHalfBits = 16;
  std::uint64_t bits;
  std::memcpy(&bits, __builtin_assume_aligned(halves, sizeof bits), sizeof bits);
  LaneValues<T> wide;
  for (int j = 0; j < kLaneElements; ++j)
    wide.of[j] = Kind::widen(static_cast<std::uint16_t>(bits >> (j * kHalfBits)));
  return wide;
}

template <class Kind, class T>
SPEEDTORCH_INLINE LaneValues<std::uint16_t> narrowed(const LaneValues<T>& wide) {
  LaneValues<std::uint16_t> halves;
  for (int j = 0; j < kLaneElements; ++j) halves.of[j] = Kind::narrow(static_cast<float>(wide.of[j]));
  return halves;
}

template <class T>
SPEEDTORCH_INLINE LaneValues<T> lane_gradients(const FlatTables<T>& tables, std::int64_t k) {
  if constexpr (std::is_same<T, float>::value) {
    if (tables.half == Half::bfloat16) return widened<Bfloat16, T>(tables.half_grad + k);
    if (tables.half == Half::float16) return widened<Float16, T>(tables.half_grad + k);
  }
  return lane_at(tables.grad, k);
}

/// Writes the rounded parameters and zeros the gradients.
template <class T>
SPEEDTORCH_INLINE void finish_lane(const FlatTables<T>& tables, bool zero, std::int64_t k,
                                   const LaneValues<T>& param) {
  if (tables.half == Half::none) {
    if (zero) lane_at(tables.grad, k) = LaneValues<T>{};
    return;
  }
  lane_at(tables.half_param, k) =
      tables.half == Half::bfloat16 ? narrowed<Bfloat16>(param) : narrowed<Float16>(param);
  if (zero) lane_at(tables.half_grad, k) = LaneValues<std::uint16_t>{};
}

/// The share of thread `thread` of `threads` in one block's partial sum of squares of the gradients, unscaled
/// and clamped.
/// @param n of the buffer, a multiple of kFlatUnit
template <class Math, class T>
SPEEDTORCH_INLINE double square_sum_lane(const FlatTables<T>& tables, std::int64_t n, const Change<T>& change,
                                         std::int64_t block, std::int64_t thread, std::int64_t threads) {
  const std::int64_t end = n < (block + 1) * kSumBlock ? n : (block + 1) * kSumBlock;
  double sum = 0;
  for (std::int64_t k = block * kSumBlock + thread * kLaneElements; k < end; k += threads * kLaneElements) {
    const LaneValues<T> grad = lane_gradients(tables, k);
    for (int j = 0; j < kLaneElements; ++j) {
      const double value = change.clamped(grad.of[j]);
      sum = Math::mul_add(value, value, sum);
    }
  }
  return sum;
}

/// The share of thread `thread` of `threads` in the step.
template <class Math, class T, class Update>
SPEEDTORCH_INLINE void flat_lane(const FlatLane<T, Update>& lane, std::int64_t thread, std::int64_t threads) {
  constexpr std::size_t kStates = Update::kStates;
  std::int64_t r = 0;
  for (std::int64_t i = thread * kLaneElements; i < lane.elements; i += threads * kLaneElements) {
    while (r + 1 < lane.count && i >= lane.runs[r + 1].first) ++r;
    const LaneRun<Update>& run = lane.runs[r];
    const std::int64_t k = run.begin + (i - run.first);
    const LaneValues<T> grad = lane_gradients(lane.tables, k);
    LaneValues<T> param = lane_at(lane.tables.param, k);
    LaneValues<T> states[kStates + 1];
    for (std::size_t s = 0; s != kStates; ++s) states[s] = lane_at(lane.tables.states[s], k);
    for (int j = 0; j < kLaneElements; ++j) {
      T state[kStates + 1];
      for (std::size_t s = 0; s != kStates; ++s) state[s] = states[s].of[j];
      run.update.template apply<Math>(run.now, param.of[j], lane.change.of(grad.of[j]), state);
      for (std::size_t s = 0; s != kStates; ++s) states[s].of[j] = state[s];
    }
    lane_at(lane.tables.param, k) = param;
    for (std::size_t s = 0; s != kStates; ++s) lane_at(lane.tables.states[s], k) = states[s];
    finish_lane(lane.tables, lane.zero, k, param);
  }
}

}  // namespace speedtorch::kernels
