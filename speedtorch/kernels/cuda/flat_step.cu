// Launches and errors only. flat_lane.h has the work of a thread.

#include "speedtorch/kernels/cuda/flat_step.h"

#include <cub/block/block_reduce.cuh>
#include <type_traits>
#include <variant>

#include "speedtorch/kernels/cuda/device.h"
#include "speedtorch/kernels/cuda/flat_lane.h"
#include "speedtorch/kernels/cuda/fused_math.h"

namespace speedtorch::kernels {
namespace {

template <class T, class Update>
__global__ void __launch_bounds__(kBlockThreads)
    flat_step_kernel(const __grid_constant__ FlatLane<T, Update> lane) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  flat_lane<FusedMath>(lane, static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, threads);
}

template <class T, class Update>
void launch(const FlatLane<T, Update>& lane, cudaStream_t stream) {
  constexpr std::size_t most_of_arguments = 4096;
  static_assert(sizeof(lane) <= most_of_arguments, "take fewer runs a launch");
  if (lane.elements == 0) return;
  constexpr auto kernel = flat_step_kernel<T, Update>;
  const LaunchShape shape = plan_launch(lane.elements / kLaneElements, 1, device_shape<kernel>(), 0);
  kernel<<<shape.blocks, shape.threads, 0, stream>>>(lane);
  check_cuda(cudaGetLastError(), "the launch of flat_step_kernel");
}

/// One thread block per block of elements.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    flat_square_sums_kernel(const FlatTables<T> tables, std::int64_t n, const Change<T> change,
                            double* sums) {
  using Reduce = cub::BlockReduce<double, kBlockThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const double sum = Reduce(storage).Sum(
      square_sum_lane<FusedMath>(tables, n, change, blockIdx.x, threadIdx.x, kBlockThreads));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                    const GradientChange& change, bool zero, CUstream_st* stream) {
  for (std::int64_t n = 0; count > 0; runs += n, count -= n) {
    n = runs_of_launch(runs, count);
    std::visit(
        [&](const auto& update) {
          using Update = std::decay_t<decltype(update)>;
          launch(flat_lane_of<T, Update>(tables, runs, n, change, zero), stream);
        },
        *runs->update);
  }
}

template <class T>
void flat_square_sums_cuda(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                           double* sums, CUstream_st* stream) {
  if (n == 0) return;
  flat_square_sums_kernel<T>
      <<<static_cast<unsigned>(flat_sums(n)), kBlockThreads, 0, stream>>>(tables, n, Change<T>(change), sums);
  check_cuda(cudaGetLastError(), "the launch of flat_square_sums_kernel");
}

template void flat_square_sums_cuda(const FlatTables<float>&, std::int64_t, const GradientChange&, double*,
                                    CUstream_st*);
template void flat_square_sums_cuda(const FlatTables<double>&, std::int64_t, const GradientChange&, double*,
                                    CUstream_st*);
template void flat_step_cuda(const FlatTables<float>&, const FlatRun<float>*, std::int64_t,
                             const GradientChange&, bool, CUstream_st*);
template void flat_step_cuda(const FlatTables<double>&, const FlatRun<double>*, std::int64_t,
                             const GradientChange&, bool, CUstream_st*);

}  // namespace speedtorch::kernels
