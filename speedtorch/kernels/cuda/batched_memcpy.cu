#include "speedtorch/kernels/cuda/batched_memcpy.h"

#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_memcpy.cuh>

#include "speedtorch/kernels/cuda/device.h"

namespace speedtorch::kernels {
namespace {

/// Row `i` of the side that the index selects.
template <class Index>
struct NamedRow {
  std::byte* data;
  std::int64_t stride;
  const Index* index;
  __host__ __device__ void* operator()(std::int64_t i) const { return data + index[i] * stride; }
};

/// Row `i` of the side that lists the rows.
struct ListedRow {
  std::byte* data;
  std::int64_t stride;
  __host__ __device__ void* operator()(std::int64_t i) const { return data + i * stride; }
};

template <class From, class To>
void run_batched(void* scratch, std::size_t& scratch_bytes, From from, To to, std::int64_t row_bytes,
                 std::int64_t count, cudaStream_t stream) {
  const thrust::counting_iterator<std::int64_t> number(0);
  check_cuda(cub::DeviceMemcpy::Batched(scratch, scratch_bytes, thrust::make_transform_iterator(number, from),
                                        thrust::make_transform_iterator(number, to),
                                        thrust::make_constant_iterator(row_bytes), count, stream),
             "cub::DeviceMemcpy::Batched");
}

/// The iterators' types read and write through `void*`; the source is never written.
std::byte* readable(const std::byte* data) { return const_cast<std::byte*>(data); }

}  // namespace

template <class Index>
void gather_rows_cub(ConstRows table, const Index* index, std::int64_t count, Rows out, std::byte* scratch,
                     std::int64_t scratch_bytes, CUstream_st* stream) {
  auto bytes = static_cast<std::size_t>(scratch_bytes);
  run_batched(scratch, bytes, NamedRow<Index>{readable(table.data), table.stride_bytes, index},
              ListedRow{out.data, out.stride_bytes}, table.row_bytes, count, stream);
}

template <class Index>
void scatter_rows_cub(ConstRows values, const Index* index, std::int64_t count, Rows table,
                      std::byte* scratch, std::int64_t scratch_bytes, CUstream_st* stream) {
  auto bytes = static_cast<std::size_t>(scratch_bytes);
  run_batched(scratch, bytes, ListedRow{readable(values.data), values.stride_bytes},
              NamedRow<Index>{table.data, table.stride_bytes, index}, values.row_bytes, count, stream);
}

std::int64_t cub_rows_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  const NamedRow<std::int64_t> named{nullptr, 1, nullptr};
  run_batched(nullptr, bytes, named, ListedRow{nullptr, 1}, 1, count, nullptr);
  return static_cast<std::int64_t>(bytes);
}

bool MemcpyBatch::built_in() { return CUDART_VERSION >= 13000; }

template <class From, class To>
void MemcpyBatch::point(From from, To to, std::int64_t count) {
  from_.resize(static_cast<std::size_t>(count));
  to_.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    from_[static_cast<std::size_t>(i)] = from(i);
    to_[static_cast<std::size_t>(i)] = to(i);
  }
}

template <class Index>
void MemcpyBatch::gather(ConstRows table, const Index* index, std::int64_t count, Rows out,
                         CUstream_st* stream) {
  point(NamedRow<Index>{readable(table.data), table.stride_bytes, index},
        ListedRow{out.data, out.stride_bytes}, count);
  run(table.row_bytes, stream);
}

template <class Index>
void MemcpyBatch::scatter(ConstRows values, const Index* index, std::int64_t count, Rows table,
                          CUstream_st* stream) {
  point(ListedRow{readable(values.data), values.stride_bytes},
        NamedRow<Index>{table.data, table.stride_bytes, index}, count);
  run(values.row_bytes, stream);
}

void MemcpyBatch::run(std::int64_t row_bytes, CUstream_st* stream) {
  if (to_.empty()) return;
  sizes_.assign(to_.size(), static_cast<std::size_t>(row_bytes));
#if CUDART_VERSION >= 13000
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  check_cuda(cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), to_.size(), &attributes, &first, 1,
                                  stream),
             "cudaMemcpyBatchAsync");
#else
  throw CudaError("cudaMemcpyBatchAsync", "cudaErrorNotSupported", "built with a CUDA runtime before 13.0");
#endif
}

#define SPEEDTORCH_COPIES(Index)                                                                        \
  template void gather_rows_cub(ConstRows, const Index*, std::int64_t, Rows, std::byte*, std::int64_t,  \
                                CUstream_st*);                                                          \
  template void scatter_rows_cub(ConstRows, const Index*, std::int64_t, Rows, std::byte*, std::int64_t, \
                                 CUstream_st*);                                                         \
  template void MemcpyBatch::gather(ConstRows, const Index*, std::int64_t, Rows, CUstream_st*);         \
  template void MemcpyBatch::scatter(ConstRows, const Index*, std::int64_t, Rows, CUstream_st*);
SPEEDTORCH_COPIES(std::int32_t)
SPEEDTORCH_COPIES(std::int64_t)
#undef SPEEDTORCH_COPIES

}  // namespace speedtorch::kernels
