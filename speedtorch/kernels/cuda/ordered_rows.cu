// Sorted and deduplicated gathers: CUB sorts and scans, small kernels run in between, and the row kernels
// move.

#include "speedtorch/kernels/cuda/ordered_rows.h"

#include <algorithm>

#include "speedtorch/kernels/cuda/launch_over.cuh"
#include "speedtorch/kernels/cuda/memory_access.cuh"
#include "speedtorch/kernels/cuda/move.h"
#include "speedtorch/kernels/cuda/rows.h"
#include "speedtorch/kernels/cuda/runs.h"
#include "speedtorch/kernels/cuda/sort.h"

namespace speedtorch::kernels {
namespace {

/// The parts of the workspace.
template <class Index>
struct Parts {
  Runs<Index> runs;
  std::byte* rows = nullptr;  ///< the rows that `runs.unique` selects
  SortScratch scratch;
};

/// The workspace's rows start at words, so that whole words can be copied from them if `out` allows it.
std::int64_t word_stride(std::int64_t row_bytes) { return (row_bytes + 15) / 16 * 16; }

template <class Index>
Parts<Index> lay_out(WorkspaceLayout& layout, IndexOrder order, std::int64_t count, std::int64_t row_bytes) {
  Parts<Index> parts;
  Runs<Index>& runs = parts.runs;
  runs.sorted = layout.take<Index>(count);
  runs.positions = layout.take<std::int32_t>(count);
  runs.numbers = layout.take<std::int32_t>(count);
  parts.scratch.bytes = sort_scratch_bytes<Index>(count);
  if (order == IndexOrder::unique) {
    runs.unique = layout.take<Index>(count);
    runs.place_of = layout.take<std::int32_t>(count);
    runs.unique_count = layout.take<std::int64_t>(1);
    parts.rows = layout.take<std::byte>(count * word_stride(row_bytes));
    parts.scratch.bytes = std::max(parts.scratch.bytes, sum_scratch_bytes(count));
  }
  parts.scratch.data = layout.take<std::byte>(static_cast<std::int64_t>(parts.scratch.bytes));
  return parts;
}

__global__ void __launch_bounds__(kBudgetBlockThreads)
    count_up_kernel(std::int32_t* numbers, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count())
    numbers[i] = static_cast<std::int32_t>(i);
}

template <class Index>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    mark_runs_kernel(Runs<Index> runs, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) mark_run(runs, i);
}

template <class Index>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    place_runs_kernel(Runs<Index> runs, std::int64_t count, std::int64_t rows, IndexErrors* errors) {
  const RowMemory<Access::sectors> memory;
  for (std::int64_t i = thread_number(); i < count; i += thread_count())
    place_run(runs, i, count, rows, errors, memory);
}

template <class Index>
void sort_index(const Index* index, std::int64_t count, std::int64_t rows, Parts<Index>& parts,
                const CudaLaunch& launch, cudaStream_t stream) {
  launch_over<count_up_kernel>(count, launch, stream, "the launch of count_up_kernel", parts.runs.numbers,
                               count);
  // Invalid indices may be anywhere in the order, which does no harm.
  const int bits = std::min(bits_of_keys(rows - 1), static_cast<int>(sizeof(Index)) * 8);
  sort_pairs(parts.scratch, index, parts.runs.sorted, parts.runs.numbers, parts.runs.positions, count, bits,
             stream);
}

template <class Index>
void find_unique(std::int64_t count, std::int64_t rows, Parts<Index>& parts, const CudaLaunch& launch,
                 cudaStream_t stream) {
  launch_over<mark_runs_kernel<Index>>(count, launch, stream, "the launch of mark_runs_kernel", parts.runs,
                                       count);
  sum_in_place(parts.scratch, parts.runs.numbers, count, stream);
  IndexErrors* const errors = launch.check_indices ? launch.errors : nullptr;
  launch_over<place_runs_kernel<Index>>(count, launch, stream, "the launch of place_runs_kernel", parts.runs,
                                        count, rows, errors);
}

/// Gathers each row once over the link into the workspace, and from there to all its positions.
template <class Index>
void gather_unique(ConstRows table, std::int64_t count, Rows out, const Parts<Index>& parts,
                   const CudaLaunch& launch, cudaStream_t stream) {
  const Rows rows{parts.rows, count, table.row_bytes, word_stride(table.row_bytes)};
  CudaLaunch over_link = launch;
  over_link.errors = nullptr;  // they are counted already
  over_link.to = MemoryKind::device;
  auto once = plan_move<Index>(table, rows, parts.runs.unique, count, Direction::gather, over_link);
  once.count_on_device = parts.runs.unique_count;
  launch_move(once, over_link, stream);

  CudaLaunch in_device = launch;
  in_device.check_indices = false;  // they are computed here, so valid
  in_device.from = MemoryKind::device;
  launch_move(plan_move<std::int32_t>(rows, out, parts.runs.place_of, count, Direction::gather, in_device),
              in_device, stream);
}

}  // namespace

std::int64_t ordered_workspace_bytes(IndexOrder order, std::int64_t count, int index_bytes,
                                     std::int64_t row_bytes) {
  if (order == IndexOrder::as_given || count == 0) return 0;
  check_sortable(count);
  WorkspaceLayout layout(nullptr);
  if (index_bytes == sizeof(std::int32_t)) {
    lay_out<std::int32_t>(layout, order, count, row_bytes);
  } else {
    lay_out<std::int64_t>(layout, order, count, row_bytes);
  }
  return layout.bytes();
}

template <class Index>
void gather_rows_ordered_cuda(ConstRows table, const Index* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch) {
  if (order == IndexOrder::as_given) return gather_rows_cuda(table, index, count, out, stream, launch);
  check_gather_shapes(table, count, out);
  require_bytes_in_rows(table);
  if (count == 0) return;
  const auto needed = [&] { return ordered_workspace_bytes(order, count, sizeof(Index), table.row_bytes); };
  check_workspace(workspace, needed, "this gather");
  WorkspaceLayout layout(workspace.data);
  auto parts = lay_out<Index>(layout, order, count, table.row_bytes);
  sort_index(index, count, table.rows, parts, launch, stream);
  if (order == IndexOrder::unique) {
    find_unique(count, table.rows, parts, launch, stream);
    return gather_unique(table, count, out, parts, launch, stream);
  }
  auto move = plan_move<Index>(table, out, parts.runs.sorted, count, Direction::gather, launch);
  move.positions = parts.runs.positions;
  launch_move(move, launch, stream);
}

template void gather_rows_ordered_cuda(ConstRows, const std::int32_t*, std::int64_t, Rows, CUstream_st*,
                                       IndexOrder, Workspace, const CudaLaunch&);
template void gather_rows_ordered_cuda(ConstRows, const std::int64_t*, std::int64_t, Rows, CUstream_st*,
                                       IndexOrder, Workspace, const CudaLaunch&);

}  // namespace speedtorch::kernels
