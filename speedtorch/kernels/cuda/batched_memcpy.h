/// The CUDA toolkit's two ways to copy many rows, as peers of the kernels. They do not check indices. Not yet
/// run on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "speedtorch/kernels/row_view.h"

struct CUstream_st;

namespace speedtorch::kernels {

/// Copies rows by cub::DeviceMemcpy::Batched. Pointers and sizes are computed from the index on the fly,
/// which is its best case (arrays of them would be 24 bytes per row). All pointers are the device's. The
/// arguments are those of gather_rows_cuda and scatter_rows_cuda.
/// @param scratch cub_rows_scratch_bytes() bytes
/// @throws CudaError
template <class Index>
void gather_rows_cub(ConstRows table, const Index* index, std::int64_t count, Rows out, std::byte* scratch,
                     std::int64_t scratch_bytes, CUstream_st* stream);
template <class Index>
void scatter_rows_cub(ConstRows values, const Index* index, std::int64_t count, Rows table,
                      std::byte* scratch, std::int64_t scratch_bytes, CUstream_st* stream);

/// The bytes of device memory that these functions need for `count` rows. @throws CudaError
std::int64_t cub_rows_scratch_bytes(std::int64_t count);

/// Copies rows by cudaMemcpyBatchAsync, one copy of the copy engine per row. The index is on the host. Keeps
/// its arrays of pointers between calls.
class MemcpyBatch {
 public:
  /// True if the CUDA runtime of this build has the call in the form used here (13.0).
  static bool built_in();

  /// out[i] = table[index[i]], and table[index[i]] = values[i]; int32 or int64 indices.
  /// @param stream not the legacy default stream, which the call refuses
  /// @throws CudaError
  template <class Index>
  void gather(ConstRows table, const Index* index, std::int64_t count, Rows out, CUstream_st* stream);
  template <class Index>
  void scatter(ConstRows values, const Index* index, std::int64_t count, Rows table, CUstream_st* stream);

 private:
  /// Stores the pointers `from(i)` and `to(i)` of each row.
  template <class From, class To>
  void point(From from, To to, std::int64_t count);
  void run(std::int64_t row_bytes, CUstream_st* stream);
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<std::size_t> sizes_;
};

}  // namespace speedtorch::kernels
