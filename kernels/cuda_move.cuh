/// The kernel of a planned movement and its launch, for the sources that launch one.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda_device.h"
#include "kernels/cuda_lane.h"
#include "kernels/cuda_memory_access.cuh"

namespace speedtorch::kernels {

/// Bounds of the largest block, so that a launch with a budget can use it: 64 registers a thread.
template <class FromWord, class ToWord, class Index, Access kAccess>
__global__ void __launch_bounds__(kBudgetBlockThreads) move_rows_kernel(LaneMove<Index> move) {
  constexpr bool kLinked = kAccess == Access::link_read || kAccess == Access::link_write;
  RowMemory<kAccess> memory;
  move_lane<FromWord, ToWord, kLinked>(move, {thread_number(), thread_count(), blockIdx.y, gridDim.y},
                                       memory);
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
  kernel<<<dim3(shape.blocks, shape.parts), shape.threads, 0, stream>>>(move);
}

/// The accesses of a plan's narrower side go by `Word`; the link's side by kLinkWidth bytes where it is
/// wider.
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

/// @throws CudaError when the launch fails.
template <class Index>
void launch_move(const LaneMove<Index>& move, const CudaLaunch& launch, cudaStream_t stream) {
  const int narrow = std::min(move.plan.from_width, move.plan.to_width);
  with_word(narrow, [&](auto word) { launch_words<decltype(word)>(move, launch, stream); });
  check_cuda(cudaGetLastError(), "the launch of move_rows_kernel");
}

template <class Index>
LaneMove<Index> plan_move(ConstRows from, Rows to, const Index* index, std::int64_t count,
                          Direction direction, const CudaLaunch& launch) {
  const LanePlan plan = plan_lanes(from, to, link_of(launch, from.data, to.data));
  return {from, to, index, count, direction, plan, launch.errors, launch.check_indices};
}

}  // namespace speedtorch::kernels
