/// Gathers from pinned memory to a GPU in two ways at once. Kernels read most rows in place. The host gathers
/// the rest into staging memory for the copy engine, which uses the rest of the link's bandwidth.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "speedtorch/rows/hybrid_split.h"

namespace speedtorch {

/// Owns the staging memory (two pieces of at most 4 MiB), a stream, and the measured split between the two
/// ways. The constructor measures for some tenths of a second. One gather at a time. A gather cannot be
/// captured in a CUDA graph, because the host takes part in it. The destructor waits for the copies in
/// flight. Not yet run on a GPU.
class HybridGather {
 public:
  /// @param table [rows, ...] on cuda:N: the zero-copy alias of pinned memory, contiguous
  /// @param host_table the same memory as a CPU tensor
  /// @param batch the maximum number of rows per gather
  /// @param share the share of each gather's rows that uses the copy engine, 0 to 1; measured if absent
  /// @throws PlacementError if the tensors are not the two views of one pinned memory, or without CUDA;
  /// ShapeError if the table or the batch has no row; OptionError for a share out of range; MemoryError,
  /// CudaError
  HybridGather(const at::Tensor& table, const at::Tensor& host_table, std::int64_t batch,
               std::optional<double> share = {});
  ~HybridGather();
  HybridGather(const HybridGather&) = delete;
  HybridGather& operator=(const HybridGather&) = delete;

  /// out[i, ...] = table[index[i], ...], on the current stream of the table's device. Returns when the host's
  /// part is done. The rest follows on the stream.
  /// @param index int32 or int64 on the table's device, contiguous
  /// @param host_index the same numbers on the host, contiguous
  /// @param out contiguous, [index.numel(), ...] on the table's device, apart from the table's memory
  /// @throws ShapeError; PlacementError; IndexError with the position in `host_index`, for rows of the host's
  /// part (check_index_errors() reports the others): all before it enqueues anything
  /// @throws CudaError; then the stream still waits for what was enqueued
  void gather(const at::Tensor& index, const at::Tensor& host_index, at::Tensor& out);

  [[nodiscard]] const HybridRates& rates() const;  ///< as measured; zeros if a share was given
  /// The share of a batch's rows that uses the copy engine. If it was measured, smaller batches use a smaller
  /// share.
  [[nodiscard]] double share() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace speedtorch
