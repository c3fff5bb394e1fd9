#include "benchmarks/sharded/methods/sorted_exchange.h"
#include "benchmarks/sharded/mpi.h"

namespace stbench {
namespace {

/// As `all_to_all`, through MPI instead of LibTorch's engine.
class MpiAllToAll final : public SortedExchange {
 public:
  explicit MpiAllToAll(RankCell& cell)
      : SortedExchange(cell), mpi_(Mpi::started(cell.rank(), cell.ranks())) {}

 private:
  void exchange(const at::Tensor& send, const std::vector<std::int64_t>& to, at::Tensor receive,
                const std::vector<std::int64_t>& from) override {
    mpi_.all_to_all(send.const_data_ptr(), to, receive.mutable_data_ptr(), from);
  }

  Mpi& mpi_;
};

const RegisterShardedMethod registration{{
    .name = "mpi_alltoallv",
    .summary = "all_to_all through MPI, where MPI started the ranks",
    .role = harness::Role::peer,
    .asked_only = true,
    .supports = has_owners_by_libtorch,
    .refusal = Mpi::refusal,
    .open = opened<MpiAllToAll>,
}};

}  // namespace
}  // namespace stbench
