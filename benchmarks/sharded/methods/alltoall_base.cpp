#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "benchmarks/sharded/method.h"
#include "benchmarks/suite/suite.h"
#include "speedtorch/sharded/message_bytes.h"

namespace stbench {
namespace {

/// Three bare calls of alltoall_base with what a gather must exchange at the least: counts, the numbers of
/// the distinct remote rows, and these rows. All buffers are ready and contiguous. As in our gather, a row
/// has its number in its shard, of 4 bytes while those are enough.
class Wire final : public RankGather {
 public:
  explicit Wire(RankCell& cell) : RankGather(cell) {}

  void prepare(int set) override {
    if (std::exchange(set_, set) == set) return;
    list_rows(set);
    const auto ranks = static_cast<std::size_t>(cell().ranks());
    from_ = cell().group().exchange(to_, 1);
    std::int64_t served = 0;
    for (const auto rows : from_) served += rows;
    ids_ = speedtorch::message_bytes(served * id_bytes()).view(asked_ids_.scalar_type());
    counts_ = std::vector<std::int64_t>(ranks);
    exchange_ids();
    wanted_ids_ = ids_.clone();
    send_ = at::empty({served, cell().shape().row_elements}, cell().shape().dtype);
    auto bytes = send_.view(at::kByte);
    fill_rows(bytes, served_rows(), [this](std::int64_t) { return cell().seed(); });
    const auto& shape = cell().shape();
    receive_ = speedtorch::message_bytes(std::ssize(asked_) * shape.row_bytes())
                   .view(shape.dtype)
                   .view({std::ssize(asked_), shape.row_elements});
    poison();
  }

  void run(int /*set*/) override {
    counts_ = cell().group().exchange(to_, 1);
    exchange_ids();
    const auto row_bytes = cell().shape().row_bytes();
    cell()
        .group()
        .start(as_bytes(send_), times(from_, row_bytes), as_bytes(receive_), times(to_, row_bytes))
        .wait();
  }

  [[nodiscard]] Crossed crossed() const override {
    const auto rows = std::ssize(asked_);
    return {rows * id_bytes(), rows * cell().shape().row_bytes()};
  }
  void poison() override {
    if (set_ < 0) return;
    ids_.fill_(-1);
    std::ranges::fill(counts_, -1);
    stbench::poison(receive_);
  }

  /// All rows and row numbers that arrived, wherever a caller wants to look.
  [[nodiscard]] harness::Check check(int /*set*/,
                                     std::span<const std::int64_t> /*positions*/) const override {
    auto found = check_rows(receive_, asked_, cell().shape().row_bytes(), cell().seed(), "received row");
    if (!at::equal(ids_, wanted_ids_) || counts_ != from_)
      merge(found, {1, 1, "the received counts or row numbers differ"});
    return found;
  }

 private:
  /// The distinct rows of the batch that other ranks hold, by rank.
  void list_rows(int set) {
    std::vector<std::vector<std::int64_t>> of_rank(static_cast<std::size_t>(cell().ranks()));
    for (const auto row : cell().rows(set)) {
      const auto holder = cell().owners().place_of(row).rank;
      if (holder != cell().rank()) of_rank[static_cast<std::size_t>(holder)].push_back(row);
    }
    asked_.clear(), to_.clear();
    for (auto& rows : of_rank) {
      std::ranges::sort(rows);
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
      to_.push_back(std::ssize(rows));
      asked_.insert(asked_.end(), rows.begin(), rows.end());
    }
    std::vector<std::int64_t> numbers;
    for (const auto row : asked_) numbers.push_back(cell().owners().place_of(row).row);
    asked_ids_ = at::tensor(numbers, cell().owners().number_bytes() == 4 ? at::kInt : at::kLong);
  }

  /// The rows of the whole table that other ranks ask this one for.
  std::vector<std::int64_t> served_rows() const {
    const auto numbers = wanted_ids_.to(at::kLong);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(numbers.numel()));
    std::transform(numbers.const_data_ptr<std::int64_t>(),
                   numbers.const_data_ptr<std::int64_t>() + rows.size(), rows.begin(),
                   [this](std::int64_t number) {
                     return cell().owners().row_of({cell().rank(), number});
                   });
    return rows;
  }

  [[nodiscard]] std::int64_t id_bytes() const { return static_cast<std::int64_t>(asked_ids_.element_size()); }

  void exchange_ids() {
    cell()
        .group()
        .start(as_bytes(asked_ids_), times(to_, id_bytes()), as_bytes(ids_), times(from_, id_bytes()))
        .wait();
  }

  static std::vector<std::int64_t> times(std::vector<std::int64_t> counts, std::int64_t bytes) {
    for (auto& count : counts) count *= bytes;
    return counts;
  }

  int set_ = -1;                                  ///< that the buffers are ready for
  std::vector<std::int64_t> to_, from_, counts_;  ///< rows asked of each rank, by each rank; as received
  std::vector<std::int64_t> asked_;               ///< rows of the whole table
  at::Tensor asked_ids_, ids_, wanted_ids_;       ///< numbers of rows in their shards
  at::Tensor send_, receive_;
};

const RegisterShardedMethod registration{{
    .name = "alltoall_base",
    .summary = "ceiling: the counts, row numbers and distinct rows that must cross, from ready buffers",
    .role = harness::Role::ceiling,
    .supports =
        [](const reports::Identity& id) {
          return axis<std::int64_t>(id, "ranks") > 1 &&
                 remote_share(axis<std::string>(id, "remote")).value_or(1) > 0;
        },
    .open = opened<Wire>,
}};

}  // namespace
}  // namespace stbench
