// The passes, compiled once per instruction set of Highway's and chosen at run time. As in sparse_step.cpp,
// plain loops call the update's body and the compiler vectorises them. They work on tiles that fit the
// first-level cache: half precision is widened into a tile and rounded from it, and gradients are zeroed
// while their lines are cached.

#include "speedtorch/kernels/steps/flat_step.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "speedtorch/kernels/half.h"
#include "speedtorch/kernels/steps/step_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "speedtorch/kernels/steps/flat_step.cpp"
#include <hwy/foreach_target.h>  // includes this file again for each further target
#include <hwy/highway.h>

#ifndef SPEEDTORCH_KERNELS_FLAT_TASK
#define SPEEDTORCH_KERNELS_FLAT_TASK
namespace speedtorch::kernels {

/// Elements of a tile: with three states 20 KiB of float32.
constexpr std::int64_t kTile = 1024;

/// The independent sums within a partial sum.
constexpr std::int64_t kSumLanes = 32;

template <class T>
struct FlatTask {
  FlatTables<T> tables;
  std::span<const FlatRun<T>> runs;
  GradientChange change;
  bool zero;
};
using AnyFlatTask = std::variant<const FlatTask<float>*, const FlatTask<double>*>;

}  // namespace speedtorch::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace speedtorch::kernels {
namespace HWY_NAMESPACE {

using Math = StepMath<SPEEDTORCH_FUSES_HERE>;

/// Units are aligned to 64 bytes.
template <class T>
HWY_INLINE T* aligned(T* pointer) {
  return static_cast<T*>(__builtin_assume_aligned(pointer, 64));
}

template <class Kind>
HWY_NOINLINE void widen(const std::uint16_t* from, float* to, std::int64_t units) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < units * kFlatUnit; ++j) to[j] = Kind::widen(from[j]);
}

template <class Kind>
HWY_NOINLINE void narrow(const float* from, std::uint16_t* to, std::int64_t units) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < units * kFlatUnit; ++j) to[j] = Kind::narrow(from[j]);
}

/// The gradients of a tile, widened into `scratch` if they are half-precision.
template <class T>
HWY_INLINE const T* gradients_of(const FlatTables<T>& tables, std::int64_t begin, std::int64_t units,
                                 T* scratch) {
  if constexpr (std::is_same_v<T, float>) {
    if (tables.half == Half::bfloat16)
      return widen<Bfloat16>(tables.half_grad + begin, scratch, units), scratch;
    if (tables.half == Half::float16)
      return widen<Float16>(tables.half_grad + begin, scratch, units), scratch;
  }
  return tables.grad + begin;
}

/// Writes the rounded parameters and zeros the gradients of a tile.
template <class T>
HWY_INLINE void finish_tile(const FlatTables<T>& tables, std::int64_t begin, std::int64_t units, bool zero) {
  if constexpr (std::is_same_v<T, float>) {
    if (tables.half == Half::bfloat16)
      narrow<Bfloat16>(tables.param + begin, tables.half_param + begin, units);
    else if (tables.half == Half::float16)
      narrow<Float16>(tables.param + begin, tables.half_param + begin, units);
    if (tables.half != Half::none) {
      if (zero) std::fill_n(tables.half_grad + begin, units * kFlatUnit, std::uint16_t{0});
      return;
    }
  }
  if (zero) std::fill_n(tables.grad + begin, units * kFlatUnit, T(0));
}

/// Updates a tile of the parameter (tables[0]) and of each state.
template <class Update, class T, std::size_t... kState>
HWY_NOINLINE void update_tile(const Update& update, const typename Update::Now& now, const Change<T>& change,
                              T* const* tables, const T* grads, std::int64_t units,
                              std::index_sequence<kState...>) {
  const Update of_all = update;  // copies, which stores cannot alias
  const typename Update::Now of_run = now;
  const Change<T> of_grad = change;
  T* const param = aligned(tables[0]);
  T* const states[] = {aligned(tables[kState + 1])..., nullptr};
  const T* const grad = aligned(grads);
#pragma GCC ivdep
  for (std::int64_t j = 0; j < units * kFlatUnit; ++j) {
    T state[] = {states[kState][j]..., T(0)};
    T value = param[j];
    of_all.template apply<Math>(of_run, value, of_grad.of(grad[j]), state);
    param[j] = value;
    ((states[kState][j] = state[kState]), ...);
  }
}

/// Updates elements [begin, end) of a run.
template <class T, class Update>
void update_range(const FlatTask<T>& task, const Update& update, std::int64_t step, std::int64_t begin,
                  std::int64_t end) {
  const auto now = update.at(step);
  const Change<T> change(task.change);
  HWY_ALIGN T scratch[kTile];
  for (std::int64_t at = begin; at < end; at += kTile) {
    const std::int64_t units = std::min(kTile, end - at) / kFlatUnit;
    T* tables[1 + kMostStates] = {task.tables.param + at};
    for (std::size_t s = 0; s < Update::kStates; ++s) tables[s + 1] = task.tables.states[s] + at;
    const T* const grad = gradients_of(task.tables, at, units, scratch);
    update_tile(update, now, change, tables, grad, units, std::make_index_sequence<Update::kStates>());
    finish_tile(task.tables, at, units, task.zero);
  }
}

/// Updates the elements [begin, end) of all runs, counted without the elements between runs.
template <class T>
void update_runs(const FlatTask<T>& task, std::int64_t begin, std::int64_t end) {
  std::int64_t counted = 0;
  for (const auto& run : task.runs) {
    const std::int64_t length = run.end - run.begin;
    const std::int64_t from = std::max(begin - counted, std::int64_t{0});
    const std::int64_t to = std::min(end - counted, length);
    if (from < to) {
      std::visit(
          [&](const auto& update) { update_range(task, update, run.step, run.begin + from, run.begin + to); },
          *run.update);
    }
    counted += length;
    if (counted >= end) return;
  }
}

template <class T>
double square_sum(const T* grad, std::int64_t units, const Change<T>& change) {
  const Change<T> of_grad = change;
  double lanes[kSumLanes] = {};
  for (std::int64_t at = 0; at < units * kFlatUnit; at += kSumLanes) {
    for (std::int64_t j = 0; j < kSumLanes; ++j) {
      const auto value = static_cast<double>(of_grad.clamped(grad[at + j]));
      lanes[j] = Math::mul_add(value, value, lanes[j]);
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// The partial sum of a block.
template <class T>
double block_sum(const FlatTables<T>& tables, std::int64_t begin, std::int64_t end, const Change<T>& change) {
  HWY_ALIGN T scratch[kTile];
  double sum = 0;
  for (std::int64_t at = begin; at < end; at += kTile) {
    const std::int64_t units = std::min(kTile, end - at) / kFlatUnit;
    sum += square_sum(gradients_of(tables, at, units, scratch), units, change);
  }
  return sum;
}

template <class T>
void sum_blocks(const FlatTask<T>& task, std::int64_t n, double* sums, std::int64_t begin, std::int64_t end) {
  const Change<T> change(task.change);
  for (std::int64_t k = begin; k < end; ++k)
    sums[k] = block_sum(task.tables, k * kSumBlock, std::min((k + 1) * kSumBlock, n), change);
}

void UpdateRuns(const AnyFlatTask& any, std::int64_t begin, std::int64_t end) {
  std::visit([&](const auto* task) { update_runs(*task, begin, end); }, any);
}
void SumBlocks(const AnyFlatTask& any, std::int64_t n, double* sums, std::int64_t begin, std::int64_t end) {
  std::visit([&](const auto* task) { sum_blocks(*task, n, sums, begin, end); }, any);
}

}  // namespace HWY_NAMESPACE
}  // namespace speedtorch::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace speedtorch::kernels {
namespace {

HWY_EXPORT(UpdateRuns);
HWY_EXPORT(SumBlocks);

/// As in rows.cpp: with less memory to touch, waking a second thread does not pay.
constexpr std::int64_t kGrainBytes = 192 << 10;

}  // namespace

template <class T>
void flat_step(const FlatTables<T>& tables, std::span<const FlatRun<T>> runs, const GradientChange& change,
               bool zero, ParallelFor parallel_for) {
  if (runs.empty()) return;
  std::int64_t units = 0;
  for (const auto& run : runs) units += (run.end - run.begin) / kFlatUnit;
  const auto states =
      std::visit([](const auto& one) { return static_cast<std::int64_t>(one.kStates); }, *runs[0].update);
  const std::int64_t unit_bytes = (2 + states) * kFlatUnit * static_cast<std::int64_t>(sizeof(T));
  const FlatTask<T> task{tables, runs, change, zero};
  parallel_for(units, kGrainBytes / unit_bytes, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(UpdateRuns)(&task, begin * kFlatUnit, end * kFlatUnit);
  });
}

template <class T>
double flat_square_sum(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                       double* sums, ParallelFor parallel_for) {
  const FlatTask<T> task{tables, {}, change, false};
  const std::int64_t block_bytes = kSumBlock * static_cast<std::int64_t>(sizeof(T));
  parallel_for(flat_sums(n), kGrainBytes / block_bytes, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(SumBlocks)(&task, n, sums, begin, end);
  });
  double total = 0;
  for (std::int64_t k = 0; k < flat_sums(n); ++k) total += sums[k];
  return total;
}

#define SPEEDTORCH_FLAT(T)                                                                                \
  template void flat_step(const FlatTables<T>&, std::span<const FlatRun<T>>, const GradientChange&, bool, \
                          ParallelFor);                                                                   \
  template double flat_square_sum(const FlatTables<T>&, std::int64_t, const GradientChange&, double*,     \
                                  ParallelFor);
SPEEDTORCH_FLAT(float)
SPEEDTORCH_FLAT(double)
#undef SPEEDTORCH_FLAT

}  // namespace speedtorch::kernels
#endif  // HWY_ONCE
