#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "benchmarks/sharded/method.h"
#include "benchmarks/suite/suite.h"
#include "speedtorch/sharded/message_bytes.h"

namespace stbench {
namespace {

constexpr std::int64_t number_bytes = sizeof(std::int64_t);

/// Three bare calls of alltoall_base with what a gather must exchange at the least: counts, the numbers of
/// the distinct remote rows, and these rows. All buffers are ready and contiguous.
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
    wanted_ids_.resize(static_cast<std::size_t>(served));
    ids_ = speedtorch::message_bytes(served * number_bytes).view(at::kLong);
    counts_ = std::vector<std::int64_t>(ranks);
    exchange_ids();
    std::memcpy(wanted_ids_.data(), ids_.const_data_ptr(), ids_.nbytes());
    send_ = at::empty({served, cell().shape().row_elements}, cell().shape().dtype);
    auto bytes = send_.view(at::kByte);
    fill_rows(bytes, wanted_ids_, [this](std::int64_t) { return cell().seed(); });
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
    return {rows * number_bytes, rows * cell().shape().row_bytes()};
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
    const auto* ids = ids_.const_data_ptr<std::int64_t>();
    const auto same =
        static_cast<std::int64_t>(std::ranges::equal(wanted_ids_, std::span(ids, wanted_ids_.size())));
    if (same == 0 || counts_ != from_) merge(found, {1, 1, "the received counts or row numbers differ"});
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
    asked_ids_ = at::empty({std::ssize(asked_)}, at::kLong);
    std::memcpy(asked_ids_.data_ptr(), asked_.data(), asked_ids_.nbytes());
  }

  void exchange_ids() {
    cell()
        .group()
        .start(as_bytes(asked_ids_), times(to_, number_bytes), as_bytes(ids_), times(from_, number_bytes))
        .wait();
  }

  static std::vector<std::int64_t> times(std::vector<std::int64_t> counts, std::int64_t bytes) {
    for (auto& count : counts) count *= bytes;
    return counts;
  }

  int set_ = -1;                                  ///< that the buffers are ready for
  std::vector<std::int64_t> to_, from_, counts_;  ///< rows asked of each rank, by each rank; as received
  std::vector<std::int64_t> asked_, wanted_ids_;  ///< rows of the whole table
  at::Tensor asked_ids_, ids_, send_, receive_;
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
