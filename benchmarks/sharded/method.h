/// Methods of the sharded suite: ways to gather rows that other ranks hold. One file each.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/sharded/rank_cell.h"
#include "benchmarks/tables/row_check.h"
#include "harness/benchmark_case.h"

namespace stbench {

/// The traffic that the last operation of a rank received from other ranks, by the counts that the method
/// gave to the engine.
struct Crossed {
  std::int64_t id_bytes = 0;   ///< of the row numbers that this rank sent to others
  std::int64_t row_bytes = 0;  ///< of the rows that it received from others
};

/// One rank's part of a method. All ranks call the same functions in the same order.
class RankGather {
 public:
  explicit RankGather(RankCell& cell);
  virtual ~RankGather() = default;
  RankGather(const RankGather&) = delete;
  RankGather& operator=(const RankGather&) = delete;

  virtual void prepare(int /*set*/) {}  ///< untimed, before each run
  virtual void run(int set) = 0;        ///< timed: gathers the batch of the set into out()
  [[nodiscard]] virtual Crossed crossed() const { return {}; }  ///< by the last run

  /// Overwrites the destination with a pattern that no row has.
  virtual void poison();
  /// Compares the rows at these positions of the destination with those that they should be.
  [[nodiscard]] virtual harness::Check check(int set, std::span<const std::int64_t> positions) const;
  /// The table row that each position of the destination should hold.
  [[nodiscard]] virtual std::span<const std::int64_t> expected(int set) const { return cell_.rows(set); }

 protected:
  [[nodiscard]] at::Tensor& out() { return out_; }
  [[nodiscard]] RankCell& cell() const { return cell_; }
  /// If rows are added to zeros on their way.
  void compare_as_numbers() { equality_ = Equality::numbers; }

 private:
  RankCell& cell_;
  at::Tensor out_;  ///< [batch, dim]
  Equality equality_ = Equality::bits;
};

struct ShardedMethod {
  std::string name;
  std::string summary;  ///< one line
  harness::Role role = harness::Role::ours;
  bool asked_only = false;
  std::vector<std::string> engines = {"gloo"};
  /// Whether the case exists for the method. The engine is one of `engines`.
  std::function<bool(const reports::Identity&)> supports = [](const reports::Identity&) { return true; };
  /// Why this process cannot have the method; empty if it can.
  std::function<std::string()> refusal = [] { return std::string(); };
  std::function<std::unique_ptr<RankGather>(RankCell&)> open;
};

/// All methods: ours, LibTorch's, then the ceilings, by name.
const std::vector<ShardedMethod>& sharded_methods();

/// Registers a method at start-up: one object per file.
struct RegisterShardedMethod {
  explicit RegisterShardedMethod(ShardedMethod method);
};

/// A method's class as `open`.
template <class Gather>
std::unique_ptr<RankGather> opened(RankCell& cell) {
  return std::make_unique<Gather>(cell);
}

/// The bytes of a contiguous CPU tensor, as RankGroup::start() takes them.
at::Tensor as_bytes(const at::Tensor& tensor);

/// The rank and the row's number there, of each row of an index, by LibTorch's operations: what its users
/// write. For `blocks` and `cyclic`.
struct OwnersByLibTorch {
  at::Tensor rank, row;  ///< int64, of the index's shape
};
OwnersByLibTorch owners_by_libtorch(const at::Tensor& index, const RankCell& cell);
/// Whether there is such an arithmetic for the case's sharding.
bool has_owners_by_libtorch(const reports::Identity& id);

/// Bytes of each rank's part, from its number of items.
std::vector<std::int64_t> splits_of(const at::Tensor& counts, std::int64_t item_bytes);

}  // namespace stbench
