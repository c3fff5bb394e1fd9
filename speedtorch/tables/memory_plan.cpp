#include "speedtorch/tables/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "speedtorch/cuda.h"
#include "speedtorch/system/limits.h"

namespace speedtorch {
namespace {

std::int64_t bytes_of(const PlannedTable& table) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(table.dtype));
  const bool too_many =
      __builtin_mul_overflow(bytes, table.rows, &bytes) || __builtin_mul_overflow(bytes, table.dim, &bytes);
  if (table.rows < 0 || table.dim < 0 || table.states < 0 || too_many)
    throw ShapeError("'" + table.name + "' of " + std::to_string(table.rows) + " rows of " +
                     std::to_string(table.dim) + " and " + std::to_string(table.states) +
                     " states cannot be");
  if (table.wanted.empty()) throw ShapeError("'" + table.name + "' names no placement that it may have");
  return bytes;
}

/// The budgets that a placement comes out of.
std::vector<std::int64_t*> purses(MemoryBudgets& budgets, Placement placement) {
  switch (placement) {
    case Placement::device:
      return {&budgets.device};
    case Placement::pinned:
      return {&budgets.pinned, &budgets.host};
    case Placement::mapped:
      return {&budgets.file};
    case Placement::libtorch:
    case Placement::pageable:
    case Placement::hugepage:
      break;
  }
  return {&budgets.host};
}

std::int64_t free_for(MemoryBudgets& budgets, Placement placement) {
  std::int64_t free = std::numeric_limits<std::int64_t>::max();
  for (const auto* purse : purses(budgets, placement)) free = std::min(free, *purse);
  return free;
}

void take(MemoryBudgets& left, MemoryBudgets& used, Placement placement, std::int64_t bytes) {
  for (auto* purse : purses(left, placement)) *purse -= bytes;
  for (auto* purse : purses(used, placement)) *purse += bytes;
}

/// A table that looks for a place.
struct Wish {
  std::string name;
  std::int64_t bytes;
  const std::vector<Placement>* wanted;
};

std::vector<Wish> wishes_of(const std::vector<PlannedTable>& tables) {
  std::vector<Wish> wishes;
  for (const auto& table : tables) wishes.push_back({table.name, bytes_of(table), &table.wanted});
  for (const auto& table : tables)
    for (int state = 1; state <= table.states; ++state)
      wishes.push_back({table.name + " state " + std::to_string(state), bytes_of(table), &table.wanted});
  return wishes;
}

/// @throws NameError where a name would not say which of two is meant
void require_names(const std::vector<Wish>& wishes) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& wish : wishes) {
    const auto [other, is_new] = bytes.emplace(wish.name, wish.bytes);
    if (!is_new)
      throw NameError("two tables of the plan are called '" + wish.name + "', one of " +
                      std::to_string(other->second) + " bytes and one of " + std::to_string(wish.bytes) +
                      "; give each a name of its own (a table's states are called 'NAME state 1' and so on)");
  }
}

std::string complaint(const Wish& wish, MemoryBudgets& left) {
  auto text = "'" + wish.name + "' needs " + std::to_string(wish.bytes) + " bytes;";
  for (const auto placement : *wish.wanted)
    text += " " + std::string(to_string(placement)) + " has " + std::to_string(free_for(left, placement)) +
            " left" + (placement == wish.wanted->back() ? "" : ",");
  return text;
}

std::int64_t tightest(const std::vector<Limit>& limits) {
  return limits.empty() ? std::numeric_limits<std::int64_t>::max() : limits.front().free;
}

}  // namespace

MemoryBudgets free_budgets(at::Device device, const std::string& folder) {
  MemoryBudgets budgets;
  budgets.host = tightest(memory_limits(MemoryUse::anonymous));
  budgets.file = tightest(disk_limits(folder));
  if (device.is_cuda() && cuda_status().available) {
    budgets.device = cuda_free_bytes(device);
    budgets.pinned = tightest(memory_limits(MemoryUse::locked));
  }
  return budgets;
}

MemoryPlan plan_memory(const std::vector<PlannedTable>& tables, const MemoryBudgets& budgets) {
  MemoryPlan plan{{}, {}, budgets};
  std::vector<PlannedMemory> homeless;
  std::string complaints;
  const auto wishes = wishes_of(tables);
  require_names(wishes);
  for (const auto& wish : wishes) {
    const auto place = std::ranges::find_if(
        *wish.wanted, [&](Placement placement) { return free_for(plan.left, placement) >= wish.bytes; });
    if (place == wish.wanted->end()) {
      homeless.push_back({wish.name, wish.wanted->front(), wish.bytes});
      complaints += "\n" + complaint(wish, plan.left);
      continue;
    }
    take(plan.left, plan.used, *place, wish.bytes);
    plan.tables.push_back({wish.name, *place, wish.bytes});
  }
  if (!homeless.empty()) throw PlanError("the plan does not fit:" + complaints, std::move(homeless));
  return plan;
}

std::string MemoryPlan::text() const {
  std::string text;
  for (const auto& table : tables)
    text += table.name + ": " + std::to_string(table.bytes) + " bytes, " +
            std::string(to_string(table.placement)) + "\n";
  return text + "in all: device " + std::to_string(used.device) + ", host " + std::to_string(used.host) +
         " (pinned " + std::to_string(used.pinned) + "), file " + std::to_string(used.file) + " bytes\n";
}

Placement MemoryPlan::placement_of(const std::string& name) const {
  const auto table = std::ranges::find(tables, name, &PlannedMemory::name);
  if (table == tables.end()) throw NameError("the plan has no table '" + name + "'");
  if (std::ranges::count(tables, name, &PlannedMemory::name) > 1)
    throw NameError("more than one table of the plan is called '" + name + "'");
  return table->placement;
}

}  // namespace speedtorch
