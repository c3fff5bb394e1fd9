/// Buffers of aligned views: their allocation, sums of squares, and steps on a GPU. Internal to contiguous
/// parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "speedtorch/kernels/steps/flat_step.h"
#include "speedtorch/placement.h"
#include "speedtorch/threads.h"

namespace speedtorch {

inline bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

inline kernels::Half half_of(at::ScalarType dtype) {
  if (dtype == at::kHalf) return kernels::Half::float16;
  return dtype == at::kBFloat16 ? kernels::Half::bfloat16 : kernels::Half::none;
}

/// The dtype in which an update is computed: float32 for float16 and bfloat16, else the dtype itself.
inline at::ScalarType update_dtype(at::ScalarType dtype) { return is_half(dtype) ? at::kFloat : dtype; }

constexpr std::int64_t kBufferAlignment = 256;  ///< bytes, of each view

/// A view occupies a multiple of this many elements, a power of two. So the next view begins at a multiple of
/// 256 bytes.
inline std::int64_t padding_unit(at::ScalarType dtype) {
  return std::max(kBufferAlignment / static_cast<std::int64_t>(c10::elementSize(dtype)), kernels::kFlatUnit);
}

/// The number of elements that a view of `count` elements occupies.
inline std::int64_t padded(std::int64_t count, std::int64_t unit) { return (count + unit - 1) & -unit; }
inline std::int64_t padded(std::int64_t count, at::ScalarType dtype) {
  return padded(count, padding_unit(dtype));
}

/// Returns a zeroed buffer [elements] that begins at a multiple of 256 bytes. Host buffers of at least 2 MiB
/// lie in `placement`. @throws what allocate() throws
at::Tensor new_buffer(std::int64_t elements, at::ScalarType dtype, at::Device device, Placement placement);

/// Returns a tensor on the elements of `buffer` from `begin` on. It has its own version counter; views of one
/// tensor share theirs.
at::Tensor place_in(const at::Tensor& buffer, std::int64_t begin, at::IntArrayRef sizes,
                    at::IntArrayRef strides);

/// True if the tensor begins at element `begin` of `buffer`. Called for each parameter and gradient in each
/// step.
inline bool lies_in(const c10::TensorImpl& tensor, const at::Tensor& buffer, std::int64_t begin) {
  const auto* const whole = buffer.unsafeGetTensorImpl();
  return tensor.unsafe_storage().unsafeGetStorageImpl() == whole->unsafe_storage().unsafeGetStorageImpl() &&
         tensor.storage_offset() == whole->storage_offset() + begin;
}

inline std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

/// Calls body(k) for each k < count, on one more thread per 256 tensors.
template <class Body>
void for_each_tensor(std::size_t count, const Body& body) {
  constexpr std::int64_t of_a_thread = 256;
  parallel_for(static_cast<std::int64_t>(count), of_a_thread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) body(static_cast<std::size_t>(k));
  });
}

/// @throws OptionError if a clipping limit is negative or NaN
void check_limit(const char* name, double limit);

/// The kernel's tables with only the gradients of a bucket set. T is double for float64, else float.
template <class T>
kernels::FlatTables<T> gradient_tables(const at::Tensor& gradient) {
  kernels::FlatTables<T> tables{};
  tables.half = half_of(gradient.scalar_type());
  if (tables.half == kernels::Half::none)
    tables.grad = static_cast<T*>(gradient.data_ptr());
  else
    tables.half_grad = static_cast<std::uint16_t*>(gradient.data_ptr());
  return tables;
}

/// Partial sums. They grow as needed and are reused.
struct SumScratch {
  std::vector<double> host;
  at::Tensor device;  ///< float64, on the GPU of the last gradient
};

/// Returns the sum of squares of a bucket's gradients, after unscaling and clamping as `change` says. Waits
/// for a GPU.
double square_sum(const at::Tensor& gradient, const kernels::GradientChange& change, SumScratch& scratch);

/// The same for gradients on a GPU.
double square_sum_on_gpu(const at::Tensor& gradient, const kernels::GradientChange& change,
                         SumScratch& scratch);

/// The kernel's arguments to step one bucket. T is the dtype in which the update is computed.
template <class T>
struct FlatPlan {
  kernels::FlatTables<T> tables{};
  std::vector<kernels::AnyUpdate<T>> updates = {};  ///< one per group
  std::vector<kernels::FlatRun<T>> runs = {};       ///< of this step; reserved for one run per parameter
};

/// Steps the runs of a bucket on a GPU, on its current stream.
/// @throws CudaError; PlacementError in a build without CUDA
template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& plan, const kernels::GradientChange& change,
                 bool zero);

}  // namespace speedtorch
