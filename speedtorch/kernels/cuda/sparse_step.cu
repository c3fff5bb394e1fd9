// CUB sorts and sums, small kernels run in between, and one kernel per update does the step.

#include "speedtorch/kernels/cuda/sparse_step.h"

#include <algorithm>
#include <variant>

#include "speedtorch/kernels/cuda/launch_over.cuh"
#include "speedtorch/kernels/cuda/memory_access.cuh"
#include "speedtorch/kernels/cuda/sort.h"
#include "speedtorch/kernels/cuda/step_lane.h"

namespace speedtorch::kernels {
namespace {

/// The parts of the workspace.
struct Parts {
  StepKeys unsorted;
  StepKeys keys;
  std::byte* folds = nullptr;
  SortScratch scratch;
};

Parts lay_out(WorkspaceLayout& layout, std::int64_t count, std::int64_t row_bytes) {
  Parts parts;
  parts.unsorted.keys = layout.take<std::int64_t>(count);
  parts.unsorted.positions = layout.take<std::int32_t>(count);
  parts.keys.keys = layout.take<std::int64_t>(count);
  parts.keys.positions = layout.take<std::int32_t>(count);
  parts.keys.numbers = layout.take<std::int32_t>(count);
  parts.keys.begins = layout.take<std::int32_t>(count + 1);
  parts.keys.distinct = layout.take<std::int32_t>(1);
  parts.folds = layout.take<std::byte>(count / kFoldedCopies * row_bytes);
  parts.scratch.bytes = std::max(sort_scratch_bytes<std::int64_t>(count), sum_scratch_bytes(count));
  parts.scratch.data = layout.take<std::byte>(static_cast<std::int64_t>(parts.scratch.bytes));
  return parts;
}

template <class Index>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    key_index_kernel(StepKeys keys, const Index* index, std::int64_t count, std::int64_t rows,
                     IndexErrors* errors) {
  const RowMemory<Access::sectors> memory;
  for (std::int64_t i = thread_number(); i < count; i += thread_count())
    key_index(keys, index, i, rows, errors, memory);
}

__global__ void __launch_bounds__(kBudgetBlockThreads) mark_keys_kernel(StepKeys keys, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) mark_key(keys, i);
}

__global__ void __launch_bounds__(kBudgetBlockThreads) place_keys_kernel(StepKeys keys, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) place_key(keys, i, count);
}

template <class T>
__global__ void __launch_bounds__(kBudgetBlockThreads) fold_kernel(LaneStep<T> step, std::int64_t count) {
  fold_lane(step, count, thread_number(), thread_count());
}

template <class Update>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    step_kernel(LaneStep<typename Update::Element> step, Update update, typename Update::Now now) {
  step_lane(step, update, now, thread_number(), thread_count());
}

template <class Update>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    update_all_kernel(StepTables<typename Update::Element> tables, const typename Update::Element* grad,
                      Update update, typename Update::Now now) {
  update_all_lane(tables, grad, update, now, thread_number(), thread_count());
}

template <class Index>
void sort_keys(const Index* index, std::int64_t count, std::int64_t rows, Parts& parts,
               const CudaLaunch& launch, cudaStream_t stream) {
  launch_over<key_index_kernel<Index>>(count, launch, stream, "the launch of key_index_kernel",
                                       parts.unsorted, index, count, rows, launch.errors);
  const StepKeys &unsorted = parts.unsorted, &keys = parts.keys;
  const int bits = bits_of_keys(rows);  // a bad index has the key `rows`
  sort_pairs(parts.scratch, unsorted.keys, keys.keys, unsorted.positions, keys.positions, count, bits,
             stream);
  launch_over<mark_keys_kernel>(count, launch, stream, "the launch of mark_keys_kernel", keys, count);
  sum_in_place(parts.scratch, keys.numbers, count, stream);
  launch_over<place_keys_kernel>(count, launch, stream, "the launch of place_keys_kernel", keys, count);
}

}  // namespace

std::int64_t sparse_step_workspace_bytes(std::int64_t count, std::int64_t row_bytes) {
  if (count == 0) return 0;
  check_sortable(count);
  WorkspaceLayout layout(nullptr);
  lay_out(layout, count, row_bytes);
  return layout.bytes();
}

template <class T, class Index>
void sparse_step_cuda(const AnyUpdate<T>& update, const StepTables<T>& tables, const Index* index,
                      std::int64_t count, const T* grad, std::int64_t step, CUstream_st* stream,
                      Workspace workspace, const CudaLaunch& launch) {
  if (count == 0 || tables.columns == 0) return;
  const auto row_bytes = tables.columns * static_cast<std::int64_t>(sizeof(T));
  const auto needed = [&] { return sparse_step_workspace_bytes(count, row_bytes); };
  check_workspace(workspace, needed, "this step");
  WorkspaceLayout layout(workspace.data);
  Parts parts = lay_out(layout, count, row_bytes);
  sort_keys(index, count, tables.rows, parts, launch, stream);
  const LaneStep<T> work{tables, grad, parts.keys, reinterpret_cast<T*>(parts.folds),
                         step_lane_bits(tables.columns)};
  if (const auto folds = count / kFoldedCopies; folds > 0)
    launch_over<fold_kernel<T>>(folds << work.lane_bits, launch, stream, "the launch of fold_kernel", work,
                                count);
  std::visit(
      [&](const auto& one) {
        using Update = std::decay_t<decltype(one)>;
        launch_over<step_kernel<Update>>(count << work.lane_bits, launch, stream, "the launch of step_kernel",
                                         work, one, one.at(step));
      },
      update);
}

template <class T>
void update_all_cuda(const AnyUpdate<T>& update, const StepTables<T>& tables, const T* grad,
                     std::int64_t step, CUstream_st* stream, const CudaLaunch& launch) {
  const std::int64_t count = tables.rows * tables.columns;
  if (count == 0) return;
  std::visit(
      [&](const auto& one) {
        using Update = std::decay_t<decltype(one)>;
        launch_over<update_all_kernel<Update>>(count, launch, stream, "the launch of update_all_kernel",
                                               tables, grad, one, one.at(step));
      },
      update);
}

template void update_all_cuda(const AnyUpdate<float>&, const StepTables<float>&, const float*, std::int64_t,
                              CUstream_st*, const CudaLaunch&);
template void update_all_cuda(const AnyUpdate<double>&, const StepTables<double>&, const double*,
                              std::int64_t, CUstream_st*, const CudaLaunch&);

#define SPEEDTORCH_STEP(T, Index)                                                                       \
  template void sparse_step_cuda(const AnyUpdate<T>&, const StepTables<T>&, const Index*, std::int64_t, \
                                 const T*, std::int64_t, CUstream_st*, Workspace, const CudaLaunch&);
SPEEDTORCH_STEP(float, std::int32_t)
SPEEDTORCH_STEP(float, std::int64_t)
SPEEDTORCH_STEP(double, std::int32_t)
SPEEDTORCH_STEP(double, std::int64_t)
#undef SPEEDTORCH_STEP

}  // namespace speedtorch::kernels
