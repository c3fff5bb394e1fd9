#include "benchmarks/transfer/cuda_peers.h"

#include <fmt/format.h>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "speedtorch/kernels/cuda/batched_memcpy.h"
#include "speedtorch/kernels/cuda/device.h"
#endif

namespace stbench {

#ifdef SPEEDTORCH_HAS_CUDA

namespace {

namespace kernels = speedtorch::kernels;

kernels::Rows rows_of(const at::Tensor& tensor) {
  const auto row_bytes = static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.size(0), row_bytes, row_bytes};
}

/// Calls `move` with a pointer to the index of its dtype.
template <class Move>
void with_index(const at::Tensor& index, Move move) {
  if (index.scalar_type() == at::kInt) {
    move(index.const_data_ptr<std::int32_t>());
  } else {
    move(index.const_data_ptr<std::int64_t>());
  }
}

}  // namespace

CubRows::CubRows(Operands& operands) {
  const c10::cuda::CUDAGuard guard(operands.model().device());
  const auto bytes = kernels::cub_rows_scratch_bytes(operands.model().size(0));
  scratch_ = at::empty({bytes}, operands.model().options().dtype(at::kByte));
}

void CubRows::gather(Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(scratch_.device());
  with_index(operands.index(set), [&](const auto* index) {
    kernels::gather_rows_cub(rows_of(operands.table()), index, operands.model().size(0),
                             rows_of(operands.model()), static_cast<std::byte*>(scratch_.data_ptr()),
                             scratch_.numel(), c10::cuda::getCurrentCUDAStream());
  });
}

void CubRows::scatter(Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(scratch_.device());
  with_index(operands.index(set), [&](const auto* index) {
    kernels::scatter_rows_cub(rows_of(operands.values(set)), index, operands.model().size(0),
                              rows_of(operands.table()), static_cast<std::byte*>(scratch_.data_ptr()),
                              scratch_.numel(), c10::cuda::getCurrentCUDAStream());
  });
}

/// A blocking stream: it and the default stream of the other methods wait for each other.
struct MemcpyBatchRows::Batch {
  explicit Batch(at::Device on) : device(on) {
    const c10::cuda::CUDAGuard guard(device);
    kernels::check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  }
  ~Batch() { cudaStreamDestroy(stream); }
  Batch(const Batch&) = delete;

  at::Device device;
  cudaStream_t stream = nullptr;
  kernels::MemcpyBatch copies;
};

MemcpyBatchRows::MemcpyBatchRows(Operands& operands)
    : batch_(std::make_shared<Batch>(operands.model().device())) {}

void MemcpyBatchRows::gather(Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(batch_->device);
  with_index(operands.host_index(set), [&](const auto* index) {
    batch_->copies.gather(rows_of(operands.table()), index, operands.model().size(0),
                          rows_of(operands.model()), batch_->stream);
  });
}

void MemcpyBatchRows::scatter(Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(batch_->device);
  with_index(operands.host_index(set), [&](const auto* index) {
    batch_->copies.scatter(rows_of(operands.values(set)), index, operands.model().size(0),
                           rows_of(operands.table()), batch_->stream);
  });
}

std::string memcpy_batch_skip_reason() {
  constexpr int first_driver = 12080;
  if (!kernels::MemcpyBatch::built_in())
    return "built with a CUDA runtime before 13.0, without cudaMemcpyBatchAsync; build with CUDA 13";
  const int driver = speedtorch::cuda_status().driver_version;
  if (driver >= first_driver) return "";
  return fmt::format(
      "the driver is one for CUDA {}.{}, cudaMemcpyBatchAsync needs 12.8; install a newer driver",
      driver / 1000, driver % 1000 / 10);
}

#else

struct MemcpyBatchRows::Batch {};

CubRows::CubRows(Operands&) {
  throw speedtorch::PlacementError(speedtorch::cuda_refusal("cub::DeviceMemcpy"));
}
void CubRows::gather(Operands&, int) {}
void CubRows::scatter(Operands&, int) {}
MemcpyBatchRows::MemcpyBatchRows(Operands&) {
  throw speedtorch::PlacementError(speedtorch::cuda_refusal("cudaMemcpyBatchAsync"));
}
void MemcpyBatchRows::gather(Operands&, int) {}
void MemcpyBatchRows::scatter(Operands&, int) {}
std::string memcpy_batch_skip_reason() { return speedtorch::cuda_refusal("cudaMemcpyBatchAsync"); }

#endif

}  // namespace stbench
