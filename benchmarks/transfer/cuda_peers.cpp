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
#include "speedtorch/rows/row_operands.h"
#endif

namespace stbench {

#ifdef SPEEDTORCH_HAS_CUDA

namespace {

namespace kernels = speedtorch::kernels;

/// The rows that an operation reads, and those that it writes.
struct Sides {
  kernels::Rows from, to;
  Sides(Way way, Operands& operands, int set)
      : from(speedtorch::rows_of(way == Way::gather ? operands.table() : operands.values(set), "the source")),
        to(speedtorch::rows_of(way == Way::gather ? operands.model() : operands.table(), "the target")) {}
};

}  // namespace

CubRows::CubRows(Operands& operands) {
  const c10::cuda::CUDAGuard guard(operands.model().device());
  const auto bytes = kernels::cub_rows_scratch_bytes(operands.model().size(0));
  scratch_ = at::empty({bytes}, operands.model().options().dtype(at::kByte));
}

void CubRows::move(Way way, Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(scratch_.device());
  const Sides rows(way, operands, set);
  speedtorch::with_index(operands.index(set), [&]<class Index>(const Index* index) {
    const auto copy = way == Way::gather ? kernels::gather_rows_cub<Index> : kernels::scatter_rows_cub<Index>;
    copy(rows.from, index, operands.count(), rows.to, static_cast<std::byte*>(scratch_.data_ptr()),
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

void MemcpyBatchRows::move(Way way, Operands& operands, int set) {
  const c10::cuda::CUDAGuard guard(batch_->device);
  const Sides rows(way, operands, set);
  speedtorch::with_index(operands.host_index(set), [&](const auto* index) {
    auto& copies = batch_->copies;
    if (way == Way::gather)
      copies.gather(rows.from, index, operands.count(), rows.to, batch_->stream);
    else
      copies.scatter(rows.from, index, operands.count(), rows.to, batch_->stream);
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
void CubRows::move(Way, Operands&, int) {}
MemcpyBatchRows::MemcpyBatchRows(Operands&) {
  throw speedtorch::PlacementError(speedtorch::cuda_refusal("cudaMemcpyBatchAsync"));
}
void MemcpyBatchRows::move(Way, Operands&, int) {}
std::string memcpy_batch_skip_reason() { return speedtorch::cuda_refusal("cudaMemcpyBatchAsync"); }

#endif

}  // namespace stbench
