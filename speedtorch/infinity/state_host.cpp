#include "speedtorch/infinity/state_host.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/optim/live_states.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/tables/table.h"

namespace speedtorch::infinity {
namespace {

constexpr std::int64_t kLine = 64;  ///< alignment of each state: one cache line

std::int64_t padded(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

/// A state that is to move into a table.
struct StateHost::Wanted {
  at::Tensor like;   ///< its parameter
  at::Tensor value;  ///< its current value; undefined: `begin`
  double begin = 0;
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(like.nbytes()); }
};

bool StateHost::is_here(const at::Tensor& tensor) const {
  return tensor.defined() && here_.contains(tensor.storage().unsafeGetStorageImpl());
}

/// Creates one table for all states, because separate tables would waste pages. Each state has its own
/// storage on it, because LibTorch saves whole storages, and is on its parameter's device, because pinned
/// memory is visible to both.
Tensors StateHost::place(const std::vector<Wanted>& wanted) {
  std::int64_t bytes = 0;
  for (const Wanted& each : wanted) bytes += padded(each.bytes());
  const Table table = Table::empty({std::max(bytes, kLine)}, at::kByte, home_);
  Tensors placed;
  std::int64_t offset = 0;
  for (const Wanted& each : wanted) {
    const bool dense = each.like.is_non_overlapping_and_dense();
    const auto strides = dense ? each.like.strides() : at::empty_like(each.like).strides();
    at::Tensor state = at::from_blob(
        table.memory()->data() + offset, each.like.sizes(), strides, [table](void*) {},
        each.like.options().requires_grad(false), each.like.device());
    if (each.value.defined())
      state.copy_(each.value);
    else
      state.fill_(each.begin);
    placed.push_back(std::move(state));
    offset += padded(each.bytes());
  }
  return placed;
}

/// The states of a parameter, and the `wanted` entries that replace them.
struct StateHost::Change {
  optim::LiveStates live;
  Tensors tables;
  std::vector<std::optional<std::size_t>> wanted;  ///< one per table; empty: it stays
};

/// Skips LibTorch's SGD before its first step, which creates the momentum itself.
void StateHost::plan_states(const Optimizer& optimizer, const at::Tensor& parameter,
                            std::vector<Change>& changes, std::vector<Wanted>& wanted) const {
  if (parameter.is_cuda() ? home_.placement != Placement::pinned : home_.placement == Placement::device)
    throw InfinityBatchError("options.states_home is " + std::string(to_string(home_.placement)) +
                             " memory; states of parameters on " + parameter.device().str() + " can lie in " +
                             (parameter.is_cuda() ? "pinned memory only" : "memory of the host only"));
  Change change{.live = optim::LiveStates(*optimizer.stock(), parameter), .tables = {}, .wanted = {}};
  const auto begins = state_begins(change.live.options());
  change.tables = change.live.tables();
  const bool begun = !change.tables.empty();
  if (!begun && change.live.optimizer_name() == "torch::optim::SGD") return;
  change.tables.resize(begins.size());
  bool all_here = true;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    change.wanted.emplace_back();
    if (is_here(change.tables[i]) && change.tables[i].device() == parameter.device()) continue;
    all_here = false;
    change.wanted.back() = wanted.size();
    wanted.push_back({parameter.detach(), change.tables[i], begins[i].value});
  }
  if (!all_here) changes.push_back(std::move(change));
}

void StateHost::place_states(const Optimizer& optimizer) {
  if (!optimizer.stock())
    throw InfinityBatchError(
        "options.states_home does not apply to a custom optimizer, only to those of LibTorch and of "
        "speedtorch/optim (a ContiguousOptimizer has options.buffers.placement)");
  const at::NoGradGuard no_grad;
  std::vector<Change> changes;
  std::vector<Wanted> wanted;
  for (const at::Tensor& parameter : optimizer.parameters())
    if (parameter.requires_grad()) plan_states(optimizer, parameter, changes, wanted);
  if (changes.empty()) return;
  const Tensors placed = place(wanted);
  for (Change& change : changes) {
    for (std::size_t i = 0; i < change.tables.size(); ++i)
      if (change.wanted[i]) change.tables[i] = placed[*change.wanted[i]];
    const bool begun = !change.live.tables().empty();
    change.live.set(change.tables, change.live.steps().value_or(begun ? 1 : 0), change.live.row_steps());
  }
  std::erase_if(here_, [](const auto& item) { return item.second.use_count() == 1; });
  for (const at::Tensor& state : placed) here_.emplace(state.storage().unsafeGetStorageImpl(), state);
}

std::int64_t StateHost::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [storage, state] : here_)
    if (state.use_count() > 1) bytes += static_cast<std::int64_t>(state.nbytes());
  return bytes;
}

}  // namespace speedtorch::infinity
