/// The operands of a method of the transfer suite: the table, the model tensor, the index sets and the values
/// to write.
///
/// All methods of a cell work on the same operands, so that all of them see the same rows, the same pages and
/// the same allocated tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <typeindex>
#include <vector>

#include "benchmarks/tables/write_log.h"
#include "benchmarks/transfer/transfer_case.h"
#include "harness/sampler.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

/// The rows of one index set as raw bytes, for methods that move them by hand. All tensors are contiguous.
struct RawRows {
  std::byte* table;   ///< the whole table, where index() sees it
  std::byte* model;   ///< `count` rows
  std::byte* values;  ///< `count` rows; null if the case does not write
  std::int64_t count, row_bytes;
  const std::int64_t* index64;  ///< one of these is null
  const std::int32_t* index32;

  /// The table row that position i of the batch names.
  [[nodiscard]] std::int64_t index_at(std::int64_t i) const {
    return index64 != nullptr ? index64[i] : index32[i];
  }
  /// Bytes from the table's start to that row.
  [[nodiscard]] std::int64_t offset_at(std::int64_t i) const { return index_at(i) * row_bytes; }
  [[nodiscard]] std::byte* model_row(std::int64_t i) const { return model + i * row_bytes; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(row_bytes); }
};

class Operands {
 public:
  /// @param indices for each set case.rows_moved() rows
  Operands(const TransferCase& one, std::shared_ptr<speedtorch::Memory> memory, const IndexSets& indices);
  /// Rows `first` to `first + count` of the batches of `whole`, on the same table.
  Operands(Operands& whole, std::int64_t first, std::int64_t count);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  /// [rows, dim] where the rows are moved: on the host, on the device, or the zero-copy alias of pinned
  /// memory.
  at::Tensor& table() { return table_; }
  at::Tensor& host_table() { return host_table_; }
  /// [batch, dim] on the model's device: what `to` writes. Samples rotate over destinations(), so it is not
  /// the same tensor in each.
  at::Tensor& model() { return model_; }
  /// [batch, dim] on the model's device: what `from` reads.
  at::Tensor& values(int set) { return values(Pattern::indexed, set); }
  at::Tensor& values(Pattern pattern, int set) { return values_[values_slot(pattern, set)]; }
  /// [batch], on the table's device and on the host.
  [[nodiscard]] const at::Tensor& index(int set) const { return index_[at(set)]; }
  [[nodiscard]] const at::Tensor& host_index(int set) const { return host_index_[at(set)]; }
  /// The same as raw bytes. Only if table, model and index() are on the host.
  [[nodiscard]] RawRows rows(int set);

  /// The table's memory.
  [[nodiscard]] const std::shared_ptr<speedtorch::Memory>& memory() const { return memory_; }
  /// The descriptor of a mapped table's file; -1 for other tables.
  [[nodiscard]] int table_fd() const { return memory_->file_fd(); }
  /// The byte of that file at which the table begins.
  [[nodiscard]] std::int64_t table_offset() const { return memory_->file_offset(); }
  /// The descriptor of the memory behind one of these tensors; -1 if no other process can map it.
  [[nodiscard]] int shared_fd(const at::Tensor& tensor) const;

  /// A contiguous piece of the table and its place in the model tensor; more than one if the batch wraps
  /// around. `table` is where kernels see it, `host` its host side: the same but for pinned memory, which the
  /// copy engine reads from there.
  struct Piece {
    at::Tensor table, host, model, values;
    at::Tensor staging;  ///< pinned host memory, for CUDA models
  };
  std::vector<Piece>& pieces(int set) { return pieces_[at(set)]; }

  // LibTorch's own way between a host table and a model on a GPU; on one device these cost nothing.
  [[nodiscard]] bool same_device() const { return same_device_; }
  /// [batch, dim] on the table's device: the model tensor itself if that is the same device.
  at::Tensor& gathered() { return same_device_ ? model_ : bounce_; }
  /// Copies `gathered()` to the model tensor if it is another.
  void upload();
  /// The values on the table's device.
  at::Tensor& download(int set);
  /// The result of a method that makes its own tensor.
  void deliver(at::Tensor result);
  /// [batch, dim] pinned host memory, for CUDA models.
  at::Tensor& staging() { return staging_; }
  /// Keeps a T for a method from call to call on these operands. `make()` makes it in the first call, which
  /// is a verified run and not timed.
  template <class T, class Make>
  T& kept(Make make) {
    auto& slot = kept_[std::type_index(typeid(T))];
    if (!slot) slot = std::shared_ptr<T>(new T(make()));
    return *static_cast<T*>(slot.get());
  }
  /// Returns when all work on the model's device is done.
  void finish() const;

  /// The memory of a method that keeps rows.
  [[nodiscard]] std::int64_t cache_bytes() const { return cache_bytes_; }
  /// Gives the set other indices, of as many rows.
  void set_index(int set, const std::vector<std::int64_t>& rows);

  [[nodiscard]] std::int64_t payload_bytes() const { return static_cast<std::int64_t>(model_.nbytes()); }
  [[nodiscard]] std::int64_t index_bytes() const { return static_cast<std::int64_t>(index_[0].nbytes()); }

  /// The number of tensors that model() may be. Two, if the case reads the table and its output has 64 MiB at
  /// most; larger ones would take too much of the memory.
  [[nodiscard]] int destinations() const { return static_cast<int>(models_.size()); }
  /// Makes model() the tensor `number`, outside the timed window.
  void use_destination(int number);

  // For the verifier.
  /// The tensor that the last operation delivered, else the model tensor.
  [[nodiscard]] const at::Tensor& result() const { return delivered_.defined() ? delivered_ : model_; }
  /// Frees the delivered tensor, outside the timed window.
  void forget_result() { delivered_.reset(); }
  /// True if each set and pattern has its own values, so that back-to-back runs can rotate over sets.
  [[nodiscard]] bool rotates_values() const { return values_.size() > 1; }
  [[nodiscard]] std::size_t values_slot(Pattern pattern, int set) const;
  /// A slice's first row in the whole batch.
  [[nodiscard]] std::int64_t first() const { return first_; }
  [[nodiscard]] std::int64_t count() const { return model_.size(0); }

  /// Host bytes that the operands and the verifier of a cell need beside the table; the largest number if
  /// they do not fit 63 bits.
  static std::int64_t working_bytes(const TransferCase& one);

 private:
  static std::size_t at(int set) { return static_cast<std::size_t>(set); }
  at::Tensor allocate(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype);
  void place_indices(const IndexSets& indices, at::ScalarType dtype);
  void place_buffers(const RowShape& shape, const TransferCase& one);
  void place_pieces();

  std::int64_t cache_bytes_ = 0;
  std::int64_t whole_batch_, first_ = 0;  ///< of a slice: the batch that it is a part of, and where
  std::shared_ptr<speedtorch::Memory> memory_;
  std::vector<std::shared_ptr<speedtorch::Memory>> shared_;  ///< blocks of tensors that others can map
  at::Device model_device_;
  bool same_device_;
  at::Tensor table_, host_table_, model_, bounce_, staging_, delivered_;
  std::vector<at::Tensor> models_;  ///< model_ is one of them
  std::vector<at::Tensor> values_;  ///< one per set and pattern if they are small, else one for all
  std::array<at::Tensor, harness::index_sets> index_, host_index_;
  std::array<std::vector<Piece>, harness::index_sets> pieces_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

}  // namespace stbench
