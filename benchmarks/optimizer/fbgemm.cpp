#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "benchmarks/optimizer/peer_row_step.h"
#include "benchmarks/peers/peers.h"

namespace stbench {
namespace {

/// FBGEMM's table-batched embedding on a CPU, whose backward pass steps the rows. The forward pass before it
/// is not timed.
struct FbgemmStep final : PeerRowStep {
  FbgemmStep(const reports::Identity& id, OptimizerFixture& fixture) : PeerRowStep(id, fixture, "fbgemm") {}
};

std::string fbgemm_refusal(const reports::Identity& id) {
  constexpr std::array known{"Adagrad", "SGD"};
  if (std::ranges::find(known, optimizer_of(id)) == known.end())
    return fmt::format("FBGEMM has no {} for tables of a CPU", optimizer_of(id));
  return Peers::of_this_run().refusal("fbgemm");
}

const RegisterStepMethod registration(
    "optimizer", {
                     .name = "fbgemm",
                     .summary = "FBGEMM's table-batched embedding: the backward pass, which steps the rows",
                     .role = harness::Role::peer,
                     .asked_only = true,
                     .supports = on_libtorch_tables,
                     .skip_reason = fbgemm_refusal,
                     .open = step_in<OptimizerFixture, FbgemmStep>,
                 });

}  // namespace
}  // namespace stbench
