/// What one thread of the CUDA kernel does in a step on flat buffers: a plain function of the thread's
/// number, so that tests run every thread on the host. C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/flat_tables.h"
#include "kernels/half.h"

namespace speedtorch::kernels {

/// A run of elements and what is done to them: the argument of the kernel, beside the update.
template <class T>
struct FlatLane {
  FlatTables<T> tables;
  std::int64_t begin;  ///< of the run, a multiple of kFlatUnit like its end
  std::int64_t end;
  Change<T> change;
  bool zero;
};

/// So many elements a thread takes at a time: 16 bytes of float32 in one access.
constexpr int kLaneElements = 4;

template <class T>
struct alignas(sizeof(T) * kLaneElements > 16 ? 16 : sizeof(T) * kLaneElements) LaneValues {
  T of[kLaneElements];
};

template <class T>
SPEEDTORCH_INLINE LaneValues<T>& lane_at(T* buffer, std::int64_t k) {
  return *reinterpret_cast<LaneValues<T>*>(buffer + k);
}

template <class Kind, class T>
SPEEDTORCH_INLINE LaneValues<T> widened(const LaneValues<std::uint16_t>& halves) {
  LaneValues<T> wide;
  for (int j = 0; j < kLaneElements; ++j) wide.of[j] = Kind::widen(halves.of[j]);
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
    if (tables.half == Half::bfloat16) return widened<Bfloat16, T>(lane_at(tables.half_grad, k));
    if (tables.half == Half::float16) return widened<Float16, T>(lane_at(tables.half_grad, k));
  }
  return lane_at(tables.grad, k);
}

/// The rounded parameters, and zeros where the gradients were.
template <class T>
SPEEDTORCH_INLINE void finish_lane(const FlatLane<T>& lane, std::int64_t k, const LaneValues<T>& param) {
  const auto& tables = lane.tables;
  if (tables.half == Half::none) {
    if (lane.zero) lane_at(tables.grad, k) = LaneValues<T>{};
    return;
  }
  lane_at(tables.half_param, k) =
      tables.half == Half::bfloat16 ? narrowed<Bfloat16>(param) : narrowed<Float16>(param);
  if (lane.zero) lane_at(tables.half_grad, k) = LaneValues<std::uint16_t>{};
}

/// The share of thread `thread` of `threads`.
template <class Math, class T, class Update>
SPEEDTORCH_INLINE void flat_lane(const FlatLane<T>& lane, const Update& update,
                                 const typename Update::Now& now, std::int64_t thread, std::int64_t threads) {
  constexpr std::size_t kStates = Update::kStates;
  for (std::int64_t k = lane.begin + thread * kLaneElements; k < lane.end; k += threads * kLaneElements) {
    const LaneValues<T> grad = lane_gradients(lane.tables, k);
    LaneValues<T> param = lane_at(lane.tables.param, k);
    LaneValues<T> states[kStates + 1];
    for (std::size_t s = 0; s != kStates; ++s) states[s] = lane_at(lane.tables.states[s], k);
    for (int j = 0; j < kLaneElements; ++j) {
      T state[kStates + 1];
      for (std::size_t s = 0; s != kStates; ++s) state[s] = states[s].of[j];
      update.template apply<Math>(now, param.of[j], lane.change.of(grad.of[j]), state);
      for (std::size_t s = 0; s != kStates; ++s) states[s].of[j] = state[s];
    }
    lane_at(lane.tables.param, k) = param;
    for (std::size_t s = 0; s != kStates; ++s) lane_at(lane.tables.states[s], k) = states[s];
    finish_lane(lane, k, param);
  }
}

}  // namespace speedtorch::kernels
