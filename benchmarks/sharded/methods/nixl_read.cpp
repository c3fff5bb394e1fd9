#include <fmt/format.h>

#include <cstring>

#include "benchmarks/sharded/method.h"
#include "benchmarks/sharded/nixl.h"

namespace stbench {
namespace {

std::uintptr_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
}

/// Each rank reads the rows that it asks for from the memory of the others, one piece a row, while they do
/// nothing. A row that the batch names twice is read twice.
class NixlRead final : public RankGather {
 public:
  explicit NixlRead(RankCell& cell) : RankGather(cell), nixl_(name_of(cell.rank())) {
    const auto shard = cell.sharded().shard().host_tensor();
    nixl_.add(shard.data_ptr(), shard.nbytes());
    nixl_.add(out().data_ptr(), out().nbytes());
    for (const auto& address : cell.group().gather_texts(std::to_string(address_of(shard))))
      shards_.push_back(std::stoull(address));
    const auto descriptions = cell.group().gather_texts(nixl_.description());
    for (int rank = 0; rank < cell.ranks(); ++rank)
      if (rank != cell.rank()) nixl_.meet(descriptions[static_cast<std::size_t>(rank)]);
    pieces_.resize(shards_.size());
  }

  void run(int set) override {
    const auto bytes = static_cast<std::size_t>(cell().shape().row_bytes());
    find_pieces(set, bytes);
    std::vector<Nixl::Read> reads;
    for (int rank = 0; rank < cell().ranks(); ++rank)
      if (rank != cell().rank() && !pieces_of(rank).empty())
        reads.push_back(nixl_.read(name_of(rank), pieces_of(rank), bytes));
    for (const auto& [there, here] : pieces_of(cell().rank()))
      std::memcpy(reinterpret_cast<void*>(here), reinterpret_cast<const void*>(there), bytes);
    for (auto& read : reads) read.wait(cell().timeout());
  }

  [[nodiscard]] Crossed crossed() const override {
    return {.row_bytes = (cell().batch() - std::ssize(pieces_of(cell().rank()))) * cell().shape().row_bytes()};
  }

 private:
  static std::string name_of(int rank) { return fmt::format("rank {}", rank); }
  [[nodiscard]] const std::vector<Nixl::Piece>& pieces_of(int rank) const {
    return pieces_[static_cast<std::size_t>(rank)];
  }

  void find_pieces(int set, std::size_t bytes) {
    for (auto& pieces : pieces_) pieces.clear();
    const auto [rank, row] = owners_by_libtorch(cell().index(set), cell());
    const auto *its_rank = rank.const_data_ptr<std::int64_t>(), *its_row = row.const_data_ptr<std::int64_t>();
    auto here = address_of(out());
    for (std::int64_t k = 0; k < cell().batch(); ++k, here += bytes) {
      const auto holder = static_cast<std::size_t>(its_rank[k]);
      pieces_[holder].push_back({shards_[holder] + static_cast<std::size_t>(its_row[k]) * bytes, here});
    }
  }

  Nixl nixl_;
  std::vector<std::uintptr_t> shards_;            ///< where each rank's rows begin, in its own memory
  std::vector<std::vector<Nixl::Piece>> pieces_;  ///< of the last batch, by the rank that holds them
};

const RegisterShardedMethod registration{{
    .name = "nixl_read",
    .summary = "one-sided reads by NIXL, one piece a row",
    .role = harness::Role::peer,
    .asked_only = true,
    .supports = has_owners_by_libtorch,
    .refusal = Nixl::refusal,
    .open = opened<NixlRead>,
}};

}  // namespace
}  // namespace stbench
