/// The rows of the next batches, gathered while the caller works on this one.
///
/// A worker thread gathers what the host reaches: tables in memory by the host kernels, tables in files by
/// the batched reader (speedtorch/files/file_rows.h). For a model on a GPU it gathers into staging memory of
/// which each batch in flight has its own, and a side stream copies from there; rows in `device` and `pinned`
/// memory are gathered by kernels on the side stream. No batch waits for the caller's stream longer than
/// until what was queued there when the batch was submitted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "speedtorch/tables/side_stream.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {

/// How a Prefetcher's rows go, and what its buffers are made of. prefetch_setup() knows it; tests give their
/// own.
struct PrefetchSetup {
  using NewTensor = std::function<at::Tensor(at::IntArrayRef sizes, at::ScalarType dtype)>;
  Route route = Route::host;
  std::unique_ptr<SideStream> side;  ///< null for Route::host
  NewTensor staging;                 ///< for Route::staged
  NewTensor results;
  at::Device index_device = at::kCPU;
};

/// @param depth as the Prefetcher's
PrefetchSetup prefetch_setup(const Table& table, at::Device model, std::size_t depth);

/// Used by one thread at a time. Its end waits for what is in flight. In a process that is forked from its
/// own, each call is an OrderError.
class Prefetcher {
 public:
  /// @param depth batches in flight at most: 1 or more
  /// @throws ShapeError for a depth of 0; PlacementError for a GPU that is not there; ThreadError where no
  /// thread can be started
  explicit Prefetcher(const Table& table, at::Device model = at::kCPU, std::size_t depth = 2);
  Prefetcher(const Table& table, PrefetchSetup setup, std::size_t depth);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Begins a batch and returns. The index is copied.
  /// @throws OrderError where `depth` batches are in flight; ShapeError as RowIndex
  void submit(const RowIndex& index);

  /// The oldest batch that was submitted, waited for: of the index's shape before the row's, on the model's
  /// device and, on a GPU, for use on the current stream. The tensor is the Prefetcher's: it stays as it is
  /// until the next take().
  /// @throws OrderError where none is in flight; what the gather threw (IndexError, FileError): that batch is
  /// gone then
  at::Tensor take();

  /// scatter_rows() into the table. Batches in flight that name a row of `index` get the new values: those
  /// that are gathered already are gathered again by take(). A table that a Prefetcher reads is written in no
  /// other way while batches are in flight.
  void scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

  [[nodiscard]] std::size_t in_flight() const;
  [[nodiscard]] std::size_t depth() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace speedtorch
