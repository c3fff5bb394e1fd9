/// The CUDA toolkit's own ways to copy many rows, on the arena of a cell whose rows move on the GPU. Not yet
/// run on a GPU.
#pragma once

#include <memory>

#include "benchmarks/transfer/arena.h"

namespace stbench {

/// cub::DeviceMemcpy::Batched, one buffer a row.
class CubRows {
 public:
  /// Allocates its scratch memory. @throws PlacementError without CUDA
  explicit CubRows(Arena& arena);
  void gather(Arena& arena, int set);
  void scatter(Arena& arena, int set);

 private:
  at::Tensor scratch_;
};

/// cudaMemcpyBatchAsync, one copy a row, with pointers made from the host's index.
class MemcpyBatchRows {
 public:
  /// Makes its stream, since the call refuses the default one. @throws PlacementError without CUDA
  explicit MemcpyBatchRows(Arena& arena);
  void gather(Arena& arena, int set);
  void scatter(Arena& arena, int set);

 private:
  struct Batch;
  std::shared_ptr<Batch> batch_;
};

/// Why this build or driver has no cudaMemcpyBatchAsync, with the cure; empty where it has.
std::string memcpy_batch_skip_reason();

}  // namespace stbench
