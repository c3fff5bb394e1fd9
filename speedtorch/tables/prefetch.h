/// Gathers the rows of the next batches while the caller works on this one.
///
/// A worker thread gathers what the host reaches: tables in memory with the host kernels, tables in files
/// with the batched reader (speedtorch/files/file_rows.h). For a model on a GPU it gathers into staging
/// memory, one per batch in flight, and a side stream copies from there. Kernels on the side stream gather
/// rows of `device` and `pinned` memory. A batch waits only for work that the caller's stream had queued
/// before the batch was submitted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "speedtorch/tables/side_stream.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {

/// How a Prefetcher's rows move, and where its buffers come from. prefetch_setup() knows it; tests pass their
/// own.
struct PrefetchSetup {
  using NewTensor = std::function<at::Tensor(at::IntArrayRef sizes, at::ScalarType dtype)>;
  Route route = Route::host;
  std::unique_ptr<SideStream> side;  ///< null for Route::host
  NewTensor staging;                 ///< for Route::staged
  NewTensor results;
  at::Device index_device = at::kCPU;
};

/// @param depth as in Prefetcher
PrefetchSetup prefetch_setup(const Table& table, at::Device model, std::size_t depth);

/// One thread at a time may use it. The destructor waits for batches in flight. In a forked child each call
/// is an OrderError.
class Prefetcher {
 public:
  /// @param depth the maximum of batches in flight: 1 or more
  /// @throws ShapeError for a depth of 0; PlacementError if there is no such GPU; ThreadError if no thread
  /// can be started
  explicit Prefetcher(const Table& table, at::Device model = at::kCPU, std::size_t depth = 2);
  Prefetcher(const Table& table, PrefetchSetup setup, std::size_t depth);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Starts a batch and returns. Copies the index.
  /// @throws OrderError if `depth` batches are in flight; ShapeError as RowIndex
  void submit(const RowIndex& index);

  /// Waits for the oldest batch in flight and returns it: the index's shape, then the row's, on the model's
  /// device and, on a GPU, ready for the current stream. The tensor belongs to the Prefetcher and stays valid
  /// until the next take().
  /// @throws OrderError if no batch is in flight; what the gather threw (IndexError, FileError), and then
  /// that batch is gone
  at::Tensor take();

  /// Calls scatter_rows() on the table. Batches in flight that contain a row of `index` get the new values:
  /// take() gathers those again that were ready. While batches are in flight, write to the table by this
  /// function only.
  void scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

  [[nodiscard]] std::size_t in_flight() const;
  [[nodiscard]] std::size_t depth() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace speedtorch
