/// What one cell of the transfer suite moves between: the table, the model tensor, the index sets, ready
/// outputs.
///
/// Every method of the cell works on the same arena, so that all of them see the same rows, the same pages
/// and the same ready tensors. A method reads its operands here; checking and refreshing them is the suite's
/// part.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <memory>
#include <typeindex>
#include <vector>

#include "benchmarks/tables/row_check.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/tables/write_log.h"
#include "harness/benchmark_case.h"
#include "harness/sampler.h"
#include "reports/record.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

/// True where one set of kernels sees both sides: host memories with a CPU model, pinned and device memory
/// with a GPU's.
bool rows_move_on_the_model_device(const reports::Identity& id);
/// The same with a GPU's model.
bool rows_move_on_a_gpu(const reports::Identity& id);
/// A GPU reads and writes rows of pinned memory, over the link.
bool rows_cross_the_link(const reports::Identity& id);

/// How many threads call at once, 1 where the case says nothing.
std::int64_t callers_of(const reports::Identity& id);

/// Rows that all callers of a case move together; the largest number where they do not fit 63 bits.
std::int64_t rows_moved(const reports::Identity& id);

/// The row shape of a case. `bytes` rows become the widest integers that divide them: so LibTorch gets its
/// best.
RowShape shape_of(const reports::Identity& id);

class Arena {
 public:
  /// @param cell any case of the cell @param indices of rows_moved() rows each, shared by all cells of the
  /// same shape: each caller's are consecutive
  Arena(const reports::Identity& cell, std::shared_ptr<speedtorch::Memory> memory,
        std::shared_ptr<const IndexSets> indices, std::uint64_t seed);

  // Operands, for the methods.
  /// [rows, dim] where the rows are moved: on the host, on the device, or the zero-copy alias of pinned
  /// memory.
  at::Tensor& table() { return table_; }
  at::Tensor& host_table() { return host_table_; }
  /// [batch, dim] on the model's device: what `to` writes.
  at::Tensor& model() { return model_; }
  /// [batch, dim] on the model's device: what `from` reads.
  at::Tensor& values(int set) { return buffer(Pattern::indexed, set); }
  /// The descriptor of the memory behind one of these tensors or the table; -1 where no other process can map
  /// it.
  [[nodiscard]] int shared_fd(const at::Tensor& tensor) const;
  /// Of the table.
  [[nodiscard]] const std::shared_ptr<speedtorch::Memory>& memory() const { return memory_; }
  /// The descriptor of a mapped table's file, whose first byte is the table's; -1 for other tables.
  [[nodiscard]] int table_fd() const { return memory_->file_fd(); }
  /// [batch], on the table's device and on the host.
  const at::Tensor& index(int set) const { return index_[at(set)]; }
  const at::Tensor& host_index(int set) const { return host_index_[at(set)]; }

  /// A contiguous piece of the table and its place in the model tensor; more than one where the batch wraps
  /// round. `table` is where kernels see it, `host` its host side: the same but for pinned memory, which the
  /// copy engine reads from there.
  struct Piece {
    at::Tensor table, host, model, values;
    at::Tensor staging;  ///< pinned host memory, for CUDA models
  };
  std::vector<Piece>& pieces(int set) { return pieces_[at(set)]; }

  // LibTorch's own way between a host table and a model on a GPU; on one device these cost nothing.
  [[nodiscard]] bool same_device() const { return same_device_; }
  /// [batch, dim] on the table's device: the model tensor itself where that is the same device.
  at::Tensor& gathered() { return same_device_ ? model_ : bounce_; }
  /// Of a cell whose operation is several at once: the arena of each, whose batch is one of the consecutive
  /// parts of this one's, on the same table. Empty elsewhere.
  std::vector<std::unique_ptr<Arena>>& parts() { return parts_; }
  /// Copies `gathered()` to the model tensor where it is another.
  void upload();
  /// The values on the table's device.
  at::Tensor& download(int set);
  /// The result of a method that makes its own tensor.
  void deliver(at::Tensor result);
  /// [batch, dim] pinned host memory, for CUDA models.
  at::Tensor& staging() { return staging_; }
  /// What a method keeps from call to call on this arena: made by `make()`, a T, at its first call, which is
  /// a verified run and not timed.
  template <class T, class Make>
  T& kept(Make make) {
    auto& slot = kept_[std::type_index(typeid(T))];
    if (!slot) slot = std::shared_ptr<T>(new T(make()));
    return *static_cast<T*>(slot.get());
  }
  /// Returns when all work on the model's device is done.
  void finish() const;

  // The suite's part, all of it untimed.
  /// Frees the result of a method that made its own, outside the timed window.
  void forget_result();
  /// The values for `from` on this set, computed anew where `generation` or the set changed: of generation 0
  /// what the table was filled with, so that a right scatter leaves it as it was.
  void prepare_values(Pattern pattern, int set, std::uint64_t generation);
  void poison_model();
  void poison_rows(Pattern pattern, int set);
  /// After `to`: the model tensor holds the table's rows as they were filled, or as `from` left them in
  /// `generation`.
  harness::Check check_model(Pattern pattern, int set, std::uint64_t generation,
                             Equality equality = Equality::bits);
  /// After `from`: the rows of the set hold the generation's values. What differs is mended.
  harness::Check check_named(Pattern pattern, int set, std::uint64_t generation);
  /// The neighbours of the set's rows and a sample of the others hold what was last written to them. What
  /// differs is mended, so that no other case is blamed for it.
  harness::Check check_others(Pattern pattern, int set);
  /// Damage that the case which found it did not do: a matter of the last check, unless another case is found
  /// guilty.
  void remember(const harness::Check& damage) { merge(unexplained_, damage); }
  /// Writes what the rows of the set should hold after `from`: for a case that broke off.
  void repair(Pattern pattern, int set);
  /// The last check: no damage is unexplained, and every row that `from` wrote, and where `whole` or not
  /// `trusted` every row of the table, holds what was last written to it. Afterwards the table is as it was
  /// filled.
  /// @param trusted false where a case of the cell is known to have failed: then rows that were written to
  /// are not judged
  harness::Check close(bool trusted, bool whole);
  /// True where back-to-back runs can rotate over sets: each has values of its own.
  [[nodiscard]] bool rotates_values() const { return values_.size() > 1; }

  [[nodiscard]] std::int64_t payload_bytes() const { return static_cast<std::int64_t>(model_.nbytes()); }
  [[nodiscard]] std::int64_t index_bytes() const { return static_cast<std::int64_t>(index_[0].nbytes()); }

  /// Host bytes that a cell needs beside its table; the largest number where they do not fit 63 bits.
  static std::int64_t working_bytes(const reports::Identity& cell);

 private:
  /// Rows `first` to `first + count` of the batches of `whole`.
  Arena(Arena& whole, std::int64_t first, std::int64_t count);
  static std::size_t at(int set) { return static_cast<std::size_t>(set); }
  at::Tensor ready(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype);
  void place_indices();
  void share_indices();
  void place_buffers(bool writes);
  void place_pieces();
  void place_parts(std::int64_t count);
  /// Each has its own result.
  harness::Check check_parts(Pattern pattern, int set, std::uint64_t generation, Equality equality);
  at::Tensor& buffer(Pattern pattern, int set);
  const std::vector<std::int64_t>& rows_of(Pattern pattern, int set) const;
  [[nodiscard]] std::uint64_t seed_of(std::uint64_t generation) const;
  std::vector<std::int64_t> others_than(std::vector<std::int64_t> rows) const;
  [[nodiscard]] SeedOf last_written();
  harness::Check check_whole(bool trusted);
  void repair_all();

  harness::Check unexplained_;
  RowShape shape_;
  std::int64_t batch_;
  std::int64_t whole_batch_, first_of_batch_ = 0;  ///< of a part: what it is a part of, and where
  std::uint64_t seed_;
  std::shared_ptr<speedtorch::Memory> memory_;
  std::vector<std::shared_ptr<speedtorch::Memory>>
      shared_;  ///< the ready tensors' blocks that others can map
  RowBytes bytes_;
  at::Device model_device_;
  bool same_device_;
  std::shared_ptr<const IndexSets> indexed_, contiguous_;
  WriteLog ledger_;
  at::Tensor table_, host_table_, model_, bounce_, staging_, delivered_;
  std::array<at::Tensor, harness::index_sets> index_, host_index_;
  std::array<std::vector<Piece>, harness::index_sets> pieces_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
  std::vector<std::unique_ptr<Arena>> parts_;

  /// Values: one buffer a set and pattern where they are small, else one for all, made anew before each
  /// sample.
  struct Values {
    at::Tensor tensor;
    std::uint64_t generation = 0;
    int set = -1;
    Pattern pattern = Pattern::indexed;
  };
  std::vector<Values> values_;
  Values& values_of(Pattern pattern, int set);
};

}  // namespace stbench
