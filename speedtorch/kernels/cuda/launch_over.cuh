/// Launches kernels whose threads stride over their work.
#pragma once

#include "speedtorch/kernels/cuda/device.h"

namespace speedtorch::kernels {

/// Launches the kernel with about `threads` threads, within the budget of `launch`. @throws CudaError by
/// `name`
template <auto kKernel, class... Arguments>
void launch_over(std::int64_t threads, const CudaLaunch& launch, cudaStream_t stream, const char* name,
                 Arguments... arguments) {
  const LaunchShape shape = plan_launch(threads, 1, device_shape<kKernel>(), launch.max_sms);
  kKernel<<<shape.blocks, shape.threads, 0, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), name);
}

}  // namespace speedtorch::kernels
