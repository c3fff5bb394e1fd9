// Launches and errors only. The plan is in plan.h, the body in lane.h.

#include "speedtorch/kernels/cuda/rows.h"

#include <algorithm>
#include <string>

#include "speedtorch/kernels/cuda/memory_access.cuh"
#include "speedtorch/kernels/cuda/move.h"

namespace speedtorch::kernels {
namespace {

/// Bounded for the largest block, so that a launch with a budget can use it: 64 registers per thread.
template <class FromWord, class ToWord, class Index, Access kAccess>
__global__ void __launch_bounds__(kBudgetBlockThreads) move_rows_kernel(LaneMove<Index> move) {
  constexpr bool kLinked = kAccess == Access::link_read || kAccess == Access::link_write;
  RowMemory<kAccess> memory;
  const Worker worker{thread_number(), thread_count(), blockIdx.y * blockDim.y + threadIdx.y,
                      gridDim.y * blockDim.y};
  move_lane<FromWord, ToWord, kLinked>(move, worker, memory);
}

/// Calls `launch` with a value of the unsigned type of `width` bytes.
template <class Launch>
void with_word(int width, Launch launch) {
  switch (width) {
    case 1:
      return launch(std::uint8_t{});
    case 2:
      return launch(std::uint16_t{});
    case 4:
      return launch(std::uint32_t{});
    case 8:
      return launch(std::uint64_t{});
    default:
      return launch(Word16{});
  }
}

template <class FromWord, class ToWord, Access kAccess, class Index>
void launch_kernel(const LaneMove<Index>& move, const CudaLaunch& launch, cudaStream_t stream) {
  constexpr auto kernel = move_rows_kernel<FromWord, ToWord, Index, kAccess>;
  const LaunchShape shape = plan_launch(move.count * move.plan.lanes(), move.plan.row_items,
                                        device_shape<kernel>(), launch.max_sms);
  kernel<<<dim3(shape.blocks, shape.parts), dim3(shape.threads, shape.block_parts), 0, stream>>>(move);
}

/// The plan's narrower side is accessed by `Word`; the link's side by kLinkWidth bytes if that is wider.
template <class Word, class Index>
void launch_words(const LaneMove<Index>& move, const CudaLaunch& launch, cudaStream_t stream) {
  const LanePlan& plan = move.plan;
  if constexpr (sizeof(Word) < kLinkWidth) {
    using Wide = std::uint32_t;
    static_assert(sizeof(Wide) == kLinkWidth);
    if (plan.from_width > plan.to_width)
      return launch_kernel<Wide, Word, Access::link_read>(move, launch, stream);
    if (plan.to_width > plan.from_width)
      return launch_kernel<Word, Wide, Access::link_write>(move, launch, stream);
  }
  switch (plan.access) {
    case Access::sectors:
      return launch_kernel<Word, Word, Access::sectors>(move, launch, stream);
    case Access::lines:
      return launch_kernel<Word, Word, Access::lines>(move, launch, stream);
    case Access::link_read:
      return launch_kernel<Word, Word, Access::link_read>(move, launch, stream);
    case Access::link_write:
      return launch_kernel<Word, Word, Access::link_write>(move, launch, stream);
  }
}

template <class Word>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    stream_copy_kernel(std::byte* to, const std::byte* from, CopyPlan plan) {
  StreamingMemory memory;
  copy_lane<Word>(to, from, plan, thread_number(), thread_count(), memory);
}

}  // namespace

template <class Index>
void launch_move(const LaneMove<Index>& move, const CudaLaunch& launch, cudaStream_t stream) {
  const int narrow = std::min(move.plan.from_width, move.plan.to_width);
  with_word(narrow, [&](auto word) { launch_words<decltype(word)>(move, launch, stream); });
  check_cuda(cudaGetLastError(), "the launch of move_rows_kernel");
}

template void launch_move(const LaneMove<std::int32_t>&, const CudaLaunch&, cudaStream_t);
template void launch_move(const LaneMove<std::int64_t>&, const CudaLaunch&, cudaStream_t);

template <class Index>
void gather_rows_cuda(ConstRows table, const Index* index, std::int64_t count, Rows out, CUstream_st* stream,
                      const CudaLaunch& launch) {
  check_gather_shapes(table, count, out);
  require_bytes_in_rows(table);
  if (count == 0) return;
  launch_move(plan_move(table, out, index, count, Direction::gather, launch), launch, stream);
}

template <class Index>
void scatter_rows_cuda(ConstRows values, const Index* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch) {
  check_scatter_shapes(values, count, table);
  require_bytes_in_rows(table);
  if (count == 0) return;
  launch_move(plan_move(values, table, index, count, Direction::scatter, launch), launch, stream);
}

#define SPEEDTORCH_ROWS(Index)                                                               \
  template void gather_rows_cuda(ConstRows, const Index*, std::int64_t, Rows, CUstream_st*,  \
                                 const CudaLaunch&);                                         \
  template void scatter_rows_cuda(ConstRows, const Index*, std::int64_t, Rows, CUstream_st*, \
                                  const CudaLaunch&);
SPEEDTORCH_ROWS(std::int32_t)
SPEEDTORCH_ROWS(std::int64_t)
#undef SPEEDTORCH_ROWS

void stream_copy_cuda(std::byte* to, const std::byte* from, std::int64_t bytes, CUstream_st* stream,
                      int max_sms) {
  if (bytes < 0) throw ShapeError("a copy of " + std::to_string(bytes) + " bytes: the count is negative");
  if (bytes == 0) return;
  const CopyPlan plan = plan_copy(to, from, bytes);
  with_word(plan.width, [&](auto word) {
    constexpr auto kernel = stream_copy_kernel<decltype(word)>;
    const LaunchShape shape = plan_launch(plan.words, 1, device_shape<kernel>(), max_sms);
    kernel<<<shape.blocks, shape.threads, 0, stream>>>(to, from, plan);
  });
  check_cuda(cudaGetLastError(), "the launch of stream_copy_kernel");
}

}  // namespace speedtorch::kernels
