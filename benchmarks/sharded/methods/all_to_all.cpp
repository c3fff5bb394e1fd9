#include "benchmarks/sharded/methods/sorted_exchange.h"

namespace stbench {
namespace {

class AllToAll final : public SortedExchange {
 public:
  using SortedExchange::SortedExchange;

 private:
  void exchange(const at::Tensor& send, const std::vector<std::int64_t>& to, at::Tensor receive,
                const std::vector<std::int64_t>& from) override {
    cell().group().start(send, to, receive, from).wait();
  }
};

const RegisterShardedMethod registration{{
    .name = "all_to_all",
    .summary = "LibTorch by hand: all-to-all of row numbers, then of rows",
    .role = harness::Role::libtorch,
    .supports = has_owners_by_libtorch,
    .open = opened<AllToAll>,
}};

}  // namespace
}  // namespace stbench
