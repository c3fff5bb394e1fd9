// Sorted and deduplicated gathers: CUB sorts and scans, small kernels in between, the row kernels move.

#include "kernels/cuda_ordered_rows.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <limits>
#include <string>

#include "kernels/cuda_memory_access.cuh"
#include "kernels/cuda_move.h"
#include "kernels/cuda_rows.h"
#include "kernels/workspace_layout.h"

namespace speedtorch::kernels {
namespace {

/// Where everything lies in the workspace.
template <class Index>
struct Parts {
  Index* sorted = nullptr;            ///< the index in the table's order
  std::int32_t* positions = nullptr;  ///< where each of it stood
  std::int32_t* numbers = nullptr;    ///< 0, 1, ...; then of each run of equal indices its number, from 1
  Index* unique = nullptr;            ///< each named row once
  std::int32_t* place_of = nullptr;   ///< of each index its row's place in `unique`
  std::int64_t* unique_count = nullptr;
  std::byte* rows = nullptr;     ///< the rows that `unique` names
  std::byte* scratch = nullptr;  ///< CUB's
  std::size_t scratch_bytes = 0;
};

/// Rows of the workspace start at words, so that they are copied on by whole words where `out` allows it.
std::int64_t word_stride(std::int64_t row_bytes) { return (row_bytes + 15) / 16 * 16; }

template <class Index>
std::size_t sort_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  check_cuda(
      cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const Index*>(nullptr),
                                      static_cast<Index*>(nullptr), static_cast<const std::int32_t*>(nullptr),
                                      static_cast<std::int32_t*>(nullptr), static_cast<int>(count)),
      "cub::DeviceRadixSort::SortPairs");
  return bytes;
}

std::size_t scan_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  check_cuda(cub::DeviceScan::InclusiveSum(nullptr, bytes, static_cast<std::int32_t*>(nullptr),
                                           static_cast<std::int32_t*>(nullptr), static_cast<int>(count)),
             "cub::DeviceScan::InclusiveSum");
  return bytes;
}

template <class Index>
Parts<Index> lay_out(WorkspaceLayout& layout, IndexOrder order, std::int64_t count, std::int64_t row_bytes) {
  Parts<Index> parts;
  parts.sorted = layout.take<Index>(count);
  parts.positions = layout.take<std::int32_t>(count);
  parts.numbers = layout.take<std::int32_t>(count);
  parts.scratch_bytes = sort_scratch_bytes<Index>(count);
  if (order == IndexOrder::unique) {
    parts.unique = layout.take<Index>(count);
    parts.place_of = layout.take<std::int32_t>(count);
    parts.unique_count = layout.take<std::int64_t>(1);
    parts.rows = layout.take<std::byte>(count * word_stride(row_bytes));
    parts.scratch_bytes = std::max(parts.scratch_bytes, scan_scratch_bytes(count));
  }
  parts.scratch = layout.take<std::byte>(static_cast<std::int64_t>(parts.scratch_bytes));
  return parts;
}

__global__ void __launch_bounds__(kBudgetBlockThreads)
    count_up_kernel(std::int32_t* numbers, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count())
    numbers[i] = static_cast<std::int32_t>(i);
}

/// 1 where a run of equal indices starts, else 0.
template <class Index>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    mark_runs_kernel(const Index* sorted, std::int32_t* starts, std::int64_t count) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count())
    starts[i] = i == 0 || sorted[i] != sorted[i - 1] ? 1 : 0;
}

/// Each run's row to its place, each index to its run; bad indices are counted here, where their positions
/// are known.
template <class Index>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    place_runs_kernel(Parts<Index> parts, std::int64_t count, std::int64_t rows, IndexErrors* errors) {
  const RowMemory<Access::sectors> memory;
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const std::int32_t run = parts.numbers[i] - 1;
    const Index row = parts.sorted[i];
    parts.place_of[parts.positions[i]] = run;
    if (i == 0 || row != parts.sorted[i - 1]) parts.unique[run] = row;
    if (i == count - 1) *parts.unique_count = run + 1;
    if (errors != nullptr && (row < 0 || row >= rows))
      memory.bad_index(errors, parts.positions[i], row, rows);
  }
}

template <auto kKernel, class... Arguments>
void launch_small(std::int64_t count, const CudaLaunch& launch, cudaStream_t stream, const char* name,
                  Arguments... arguments) {
  const LaunchShape shape = plan_launch(count, 1, device_shape<kKernel>(), launch.max_sms);
  kKernel<<<shape.blocks, shape.threads, 0, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), name);
}

/// Bits that tell the table's rows apart; only they are sorted by. Bad indices may then stand anywhere, which
/// costs nothing but order.
int bits_of_rows(std::int64_t rows) {
  int bits = 1;
  while (bits < 62 && (std::int64_t{1} << bits) < rows) ++bits;
  return bits;
}

template <class Index>
void sort_index(const Index* index, std::int64_t count, std::int64_t rows, Parts<Index>& parts,
                const CudaLaunch& launch, cudaStream_t stream) {
  launch_small<count_up_kernel>(count, launch, stream, "the launch of count_up_kernel", parts.numbers, count);
  const int bits = std::min(bits_of_rows(rows), static_cast<int>(sizeof(Index)) * 8);
  check_cuda(
      cub::DeviceRadixSort::SortPairs(parts.scratch, parts.scratch_bytes, index, parts.sorted, parts.numbers,
                                      parts.positions, static_cast<int>(count), 0, bits, stream),
      "cub::DeviceRadixSort::SortPairs");
}

template <class Index>
void find_unique(std::int64_t count, std::int64_t rows, Parts<Index>& parts, const CudaLaunch& launch,
                 cudaStream_t stream) {
  launch_small<mark_runs_kernel<Index>>(count, launch, stream, "the launch of mark_runs_kernel",
                                        static_cast<const Index*>(parts.sorted), parts.numbers, count);
  check_cuda(cub::DeviceScan::InclusiveSum(parts.scratch, parts.scratch_bytes, parts.numbers, parts.numbers,
                                           static_cast<int>(count), stream),
             "cub::DeviceScan::InclusiveSum");
  IndexErrors* const errors = launch.check_indices ? launch.errors : nullptr;
  launch_small<place_runs_kernel<Index>>(count, launch, stream, "the launch of place_runs_kernel", parts,
                                         count, rows, errors);
}

/// Each row once over the link into the workspace, and from there to all its places.
template <class Index>
void gather_unique(ConstRows table, std::int64_t count, Rows out, const Parts<Index>& parts,
                   const CudaLaunch& launch, cudaStream_t stream) {
  const Rows rows{parts.rows, count, table.row_bytes, word_stride(table.row_bytes)};
  CudaLaunch over_link = launch;
  over_link.errors = nullptr;  // they are counted already
  over_link.to = Home::device;
  auto once = plan_move<Index>(table, rows, parts.unique, count, Direction::gather, over_link);
  once.count_on_device = parts.unique_count;
  launch_move(once, over_link, stream);

  CudaLaunch in_device = launch;
  in_device.check_indices = false;  // they are our own
  in_device.from = Home::device;
  launch_move(plan_move<std::int32_t>(rows, out, parts.place_of, count, Direction::gather, in_device),
              in_device, stream);
}

template <class Index>
void gather_ordered(ConstRows table, const Index* index, std::int64_t count, Rows out, cudaStream_t stream,
                    IndexOrder order, Workspace workspace, const CudaLaunch& launch) {
  if (order == IndexOrder::as_given) return gather_rows_cuda(table, index, count, out, stream, launch);
  check_gather_shapes(table, count, out);
  if (count == 0) return;
  const auto needed = ordered_workspace_bytes(order, count, sizeof(Index), table.row_bytes);
  if (workspace.data == nullptr || workspace.bytes < needed) {
    throw ShapeError("the workspace has " + std::to_string(workspace.bytes) + " bytes; this gather needs " +
                     std::to_string(needed));
  }
  WorkspaceLayout layout(workspace.data);
  auto parts = lay_out<Index>(layout, order, count, table.row_bytes);
  sort_index(index, count, table.rows, parts, launch, stream);
  if (order == IndexOrder::unique) {
    find_unique(count, table.rows, parts, launch, stream);
    return gather_unique(table, count, out, parts, launch, stream);
  }
  auto move = plan_move<Index>(table, out, parts.sorted, count, Direction::gather, launch);
  move.positions = parts.positions;
  launch_move(move, launch, stream);
}

}  // namespace

std::int64_t ordered_workspace_bytes(IndexOrder order, std::int64_t count, int index_bytes,
                                     std::int64_t row_bytes) {
  if (order == IndexOrder::as_given || count == 0) return 0;
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max()) {
    throw ShapeError(std::to_string(count) + " indices cannot be sorted: 2^31 - 1 is the most");
  }
  WorkspaceLayout layout(nullptr);
  if (index_bytes == sizeof(std::int32_t)) {
    lay_out<std::int32_t>(layout, order, count, row_bytes);
  } else {
    lay_out<std::int64_t>(layout, order, count, row_bytes);
  }
  return layout.bytes();
}

void gather_rows_ordered_cuda(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch) {
  gather_ordered(table, index, count, out, stream, order, workspace, launch);
}

void gather_rows_ordered_cuda(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch) {
  gather_ordered(table, index, count, out, stream, order, workspace, launch);
}

}  // namespace speedtorch::kernels
