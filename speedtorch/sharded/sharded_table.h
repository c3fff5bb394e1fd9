/// A table whose rows are spread over the processes of a group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/row_index.h"
#include "speedtorch/sharded/rank_group.h"
#include "speedtorch/sharded/row_owners.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

struct ShardedOptions {
  Sharding sharding = Sharding::blocks;
  TableOptions shard = default_table_options();  ///< where this rank holds its rows
  /// Rows travel in chunks of at most this many bytes from one rank to another (or of one row). While a chunk
  /// is on its way, the next is gathered and the last is placed.
  std::int64_t chunk_bytes = std::int64_t{1} << 20;
  /// If true, the ranks of a node map each other's shards. A gather reads their rows there, and asks only
  /// other nodes for rows. New shards are then made in memory that can be shared: `pageable`, `hugepage` or
  /// `mapped`. A gather may return here while other ranks still read this one's rows. So call
  /// group().barrier() before you write the shard by other means than the table's operations.
  bool node_first = false;
  /// Tells nodes of one host apart, such as its NUMA nodes: ranks with the same text share memory.
  /// Needs `node_first`.
  std::string node = {};
};

/// The operations that ranks agree on before anything else travels.
enum class ShardedOperation : std::int64_t { gather, scatter, step };

/// Counts of what the last operation of a rank sent to other ranks and received from them.
struct ExchangeCounts {
  std::int64_t asked_rows = 0;   ///< rows that this rank asked others for, or sent to them
  std::int64_t node_rows = 0;    ///< rows that it read from the memory of other ranks
  std::int64_t served_rows = 0;  ///< rows that others asked this rank for, or sent to it
  std::int64_t chunks = 0;       ///< the most messages of rows between this rank and another, one way
  std::int64_t id_bytes = 0;     ///< of a row number on its way: 4, or 8 for shards of 2^31 rows or more
};

/// A handle, as Table is. Each operation is collective: all ranks of the group call the same operations in
/// the same order, each with its own batch, which may be empty. Not thread-safe. Indices, rows and values are
/// on the CPU.
///
/// If a rank refuses its arguments, no rank does anything: that rank throws what is documented (IndexError
/// and DuplicateError also name it), each other rank throws RankError, and the table stays usable. If ranks
/// call different operations, all throw DisagreementError. If a rank is lost, the others throw GroupError.
class ShardedTable {
 public:
  /// A table whose contents are unspecified. @param sizes of the whole table, the same on each rank
  /// @throws DisagreementError naming two ranks and the values of both if sizes, dtype, sharding, chunk size
  /// or library version differ; OptionError for `chunk_bytes` below 1, or for `node` without `node_first`;
  /// what Table::empty throws; with `node_first` PlacementError on the rank whose shard cannot be shared,
  /// RankError on the others
  static ShardedTable empty(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                            const ShardedOptions& options = {});

  /// A table whose ranks fill their own rows. A `mapped` shard appears under its file's name once it is
  /// whole.
  /// @param fill_of returns what fills this rank's rows; the owners live until they are filled
  /// @throws as empty(); what the fill throws on its rank, RankError on the others
  static ShardedTable filled(const RankGroup& group, at::IntArrayRef sizes, at::ScalarType dtype,
                             const std::function<Fill(const RowOwners&)>& fill_of,
                             const ShardedOptions& options = {});

  /// Spreads an array that each rank has. @throws as empty()
  static ShardedTable from_array(const RankGroup& group, const at::Tensor& array,
                                 const ShardedOptions& options = {});

  /// Takes part in empty(), from_array() or load_sharded() as a rank whose caller refuses the arguments, so
  /// that the others throw RankError with `why` instead of waiting. For bindings of other languages.
  /// @throws as empty()
  static void refuse_new(const RankGroup& group, const std::string& why);

  /// Over this rank's rows, in the order of RowOwners. @param rows of the whole table
  /// @throws ShapeError if the shard has another number of rows than its rank holds; as empty()
  ShardedTable(const RankGroup& group, Table shard, std::int64_t rows, const ShardedOptions& options = {});

  /// Returns table[index] in new memory: [I..., R...] for an index of shape I. Each distinct row travels
  /// once.
  /// @throws IndexError, ShapeError as RowIndex
  at::Tensor gather(const RowIndex& index);
  /// The same into `out`, contiguous, [I..., R...]. @throws ShapeError naming both shapes
  void gather(const RowIndex& index, at::Tensor& out);

  /// Writes table[index] = values, as scatter_rows() would in one process with the batches of all ranks one
  /// after the other: by rank, and within a rank by position. `last` and `accumulate` keep this order, bit
  /// for bit; `reject` refuses a row that two ranks name, too. Each rank takes the values sent to it into
  /// memory at once.
  /// @param values [I..., R...]; @param duplicates the same on each rank
  /// @throws as scatter_rows() (speedtorch/rows/duplicates.h)
  void scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

  /// Sends each gradient to its row's rank. There one step of `optimizer` sums them in the order of scatter()
  /// and updates the rows. Equals, bit for bit, the step of one process with all batches one after the other.
  /// @param optimizer of this rank's shard, over shard().host_tensor()
  /// @param grad [I..., R...] @throws as SparseRows::step()
  void step(SparseRows& optimizer, const RowIndex& index, const at::Tensor& grad);

  /// The same for an optimizer of the caller's own: returns the numbers of this rank's rows that got
  /// gradients, in the order of scatter(), and their gradients. A row may occur several times. Counts as a
  /// step().
  std::pair<at::Tensor, at::Tensor> collect(const RowIndex& index, const at::Tensor& grad);

  /// Takes part in an operation as a rank whose caller refuses the arguments, as refuse_new() does.
  /// @throws DisagreementError, GroupError
  void refuse(ShardedOperation operation, const std::string& why);

  [[nodiscard]] const Table& shard() const;  ///< the rows that this rank holds
  [[nodiscard]] const RowOwners& owners() const;
  [[nodiscard]] const RankGroup& group() const;
  [[nodiscard]] at::IntArrayRef sizes() const;  ///< of the whole table
  [[nodiscard]] std::int64_t rows() const { return sizes().front(); }
  [[nodiscard]] at::ScalarType dtype() const { return shard().dtype(); }
  [[nodiscard]] const ExchangeCounts& last_exchange() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace speedtorch
