#include <ATen/ops/index_select.h>

#include "benchmarks/sharded/method.h"

namespace stbench {
namespace {

/// LibTorch's gather from the shared table.
class IndexSelect final : public RankGather {
 public:
  using RankGather::RankGather;
  void run(int set) override {
    at::index_select_out(out(), cell().shared().host_tensor(), 0, cell().index(set));
  }
};

const RegisterShardedMethod registration{{
    .name = "index_select",
    .summary = "LibTorch: index_select from the shared table",
    .role = harness::Role::libtorch,
    .engines = {"shared"},
    .open = opened<IndexSelect>,
}};

}  // namespace
}  // namespace stbench
