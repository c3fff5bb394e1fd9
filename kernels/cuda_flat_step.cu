// The thin part: launch and arithmetic. What a thread does is in flat_lane.h.

#include "kernels/cuda_flat_step.h"

#include <variant>

#include "kernels/cuda_device.h"
#include "kernels/flat_lane.h"

namespace speedtorch::kernels {
namespace {

/// One rounding each: nvcc is not told to approximate.
struct CudaMath {
  static SPEEDTORCH_INLINE float mul_add(float a, float b, float c) { return ::fmaf(a, b, c); }
  static SPEEDTORCH_INLINE double mul_add(double a, double b, double c) { return ::fma(a, b, c); }
  static SPEEDTORCH_INLINE float square_root(float a) { return ::sqrtf(a); }
  static SPEEDTORCH_INLINE double square_root(double a) { return ::sqrt(a); }
};

template <class T, class Update>
__global__ void __launch_bounds__(kBlockThreads)
    flat_step_kernel(FlatLane<T> lane, Update update, typename Update::Now now) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  flat_lane<CudaMath>(lane, update, now, static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                      threads);
}

template <class T, class Update>
void launch(const FlatLane<T>& lane, const Update& update, std::int64_t step, cudaStream_t stream) {
  constexpr auto kernel = flat_step_kernel<T, Update>;
  const LaunchShape shape =
      plan_launch((lane.end - lane.begin) / kLaneElements, 1, device_shape<kernel>(), 0);
  kernel<<<shape.blocks, shape.threads, 0, stream>>>(lane, update, update.at(step));
  check_cuda(cudaGetLastError(), "the launch of flat_step_kernel");
}

}  // namespace

template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>& run, const GradientChange& change,
                    bool zero, CUstream_st* stream) {
  if (run.begin == run.end) return;
  const FlatLane<T> lane{tables, run.begin, run.end, Change<T>(change), zero};
  std::visit([&](const auto& update) { launch(lane, update, run.step, stream); }, *run.update);
}

template void flat_step_cuda(const FlatTables<float>&, const FlatRun<float>&, const GradientChange&, bool,
                             CUstream_st*);
template void flat_step_cuda(const FlatTables<double>&, const FlatRun<double>&, const GradientChange&, bool,
                             CUstream_st*);

}  // namespace speedtorch::kernels
