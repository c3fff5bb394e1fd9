/// Gather from pinned memory to a GPU on both ways at once: kernels read most rows in place, and the host
/// gathers the rest into staging memory for the copy engine, which takes what the kernels leave of the link.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "speedtorch/rows/hybrid_split.h"

namespace speedtorch {

/// Owns the staging memory (two pieces of at most 4 MiB) and a stream, and knows the machine's split: its
/// construction measures it, for some tenths of a second. One gather at a time; not to be captured in a CUDA
/// graph, for the host has work in it. Its end waits for the copies that it still owes. Not yet run on a GPU.
class HybridGather {
 public:
  /// @param table      [rows, ...] on cuda:N: the zero-copy alias of pinned memory, contiguous
  /// @param host_table the same memory as a CPU tensor
  /// @param batch      rows of a gather at most
  /// @param share      of the rows of each gather that go by the copy engine, 0 to 1; without one it is
  /// measured
  /// @throws PlacementError where the tensors are not the two views of one pinned memory, or without CUDA;
  /// ShapeError where the table or the batch has no row; OptionError for another share; MemoryError,
  /// CudaError
  HybridGather(const at::Tensor& table, const at::Tensor& host_table, std::int64_t batch,
               std::optional<double> share = {});
  ~HybridGather();
  HybridGather(const HybridGather&) = delete;
  HybridGather& operator=(const HybridGather&) = delete;

  /// out[i, ...] = table[index[i], ...], on the current stream of the table's device. Returns when the host's
  /// part is done; the rest follows in the stream.
  /// @param index      int32 or int64 on the table's device, contiguous
  /// @param host_index the same numbers on the host, contiguous
  /// @param out        contiguous, [index.numel(), ...] on the table's device, none of it the table's memory
  /// @throws ShapeError, PlacementError; IndexError with the position in `host_index` for the rows of the
  /// host's part (those of the other are told by check_index_errors): all three before anything is enqueued.
  /// CudaError, after which the stream still waits for what was enqueued
  void gather(const at::Tensor& index, const at::Tensor& host_index, at::Tensor& out);

  [[nodiscard]] const HybridRates& rates() const;  ///< as measured; zeros where a share was given
  /// Of the rows of a batch that go by the copy engine; of one that was measured, fewer of a smaller batch.
  [[nodiscard]] double share() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace speedtorch
