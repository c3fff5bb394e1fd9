// The thin part of the CUDA kernels: launches and errors. The plan is in cuda_plan.h, the body in
// cuda_lane.h.

#include "kernels/cuda_rows.h"

#include <string>

#include "kernels/cuda_device.h"
#include "kernels/cuda_lane.h"
#include "kernels/cuda_memory_access.cuh"
#include "kernels/cuda_move.cuh"

namespace speedtorch::kernels {
namespace {

template <class Word>
__global__ void __launch_bounds__(kBudgetBlockThreads)
    stream_copy_kernel(std::byte* to, const std::byte* from, CopyPlan plan) {
  StreamingMemory memory;
  copy_lane<Word>(to, from, plan, thread_number(), thread_count(), memory);
}

template <class Index>
void gather(ConstRows table, const Index* index, std::int64_t count, Rows out, cudaStream_t stream,
            const CudaLaunch& launch) {
  check_gather_shapes(table, count, out);
  if (count == 0) return;
  launch_move(plan_move(table, out, index, count, Direction::gather, launch), launch, stream);
}

template <class Index>
void scatter(ConstRows values, const Index* index, std::int64_t count, Rows table, cudaStream_t stream,
             const CudaLaunch& launch) {
  check_scatter_shapes(values, count, table);
  if (count == 0) return;
  launch_move(plan_move(values, table, index, count, Direction::scatter, launch), launch, stream);
}

}  // namespace

void gather_rows_cuda(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, const CudaLaunch& launch) {
  gather(table, index, count, out, stream, launch);
}

void gather_rows_cuda(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, const CudaLaunch& launch) {
  gather(table, index, count, out, stream, launch);
}

void scatter_rows_cuda(ConstRows values, const std::int32_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch) {
  scatter(values, index, count, table, stream, launch);
}

void scatter_rows_cuda(ConstRows values, const std::int64_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch) {
  scatter(values, index, count, table, stream, launch);
}

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
