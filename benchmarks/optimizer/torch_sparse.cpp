#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "benchmarks/optimizer/peer_row_step.h"
#include "benchmarks/peers/peers.h"

namespace stbench {
namespace {

/// Python torch's optimizer on a sparse gradient. The gradient is not coalesced yet, as autograd returns it.
/// The time is that of step().
struct TorchSparseStep final : PeerRowStep {
  TorchSparseStep(const reports::Identity& id, OptimizerFixture& fixture)
      : PeerRowStep(id, fixture, "torch_sparse") {}
};

std::string torch_sparse_refusal(const reports::Identity& id) {
  constexpr std::array known{"SparseAdam", "Adagrad", "SGD"};
  if (std::ranges::find(known, optimizer_of(id)) == known.end())
    return fmt::format("Python torch's {} takes no sparse gradients", optimizer_of(id));
  return Peers::of_this_run().refusal("torch_sparse");
}

const RegisterStepMethod registration("optimizer",
                                      {
                                          .name = "torch_sparse",
                                          .summary = "Python torch's optimizer on a sparse gradient",
                                          .role = harness::Role::peer,
                                          .asked_only = true,
                                          .supports = on_libtorch_tables,
                                          .skip_reason = torch_sparse_refusal,
                                          .open = step_in<OptimizerFixture, TorchSparseStep>,
                                      });

}  // namespace
}  // namespace stbench
