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
                     " states is impossible");
  if (table.wanted.empty())
    throw ShapeError("'" + table.name + "' names no placement; `wanted` needs at least one");
  return bytes;
}

/// The budgets that a placement draws on.
std::vector<std::int64_t*> budgets_of(MemoryBudgets& budgets, Placement placement) {
  if (placement == Placement::device) return {&budgets.device};
  if (placement == Placement::pinned) return {&budgets.pinned, &budgets.host};
  if (placement == Placement::mapped) return {&budgets.file};
  return {&budgets.host};
}

std::int64_t free_for(MemoryBudgets& budgets, Placement placement) {
  std::int64_t free = std::numeric_limits<std::int64_t>::max();
  for (const auto* budget : budgets_of(budgets, placement)) free = std::min(free, *budget);
  return free;
}

void take(MemoryBudgets& left, MemoryBudgets& used, Placement placement, std::int64_t bytes) {
  for (auto* budget : budgets_of(left, placement)) *budget -= bytes;
  for (auto* budget : budgets_of(used, placement)) *budget += bytes;
}

/// A table that needs a placement.
struct Request {
  std::string name;
  std::int64_t bytes;
  const std::vector<Placement>* wanted;
};

std::vector<Request> requests_of(const std::vector<PlannedTable>& tables) {
  std::vector<Request> requests;
  for (const auto& table : tables) requests.push_back({table.name, bytes_of(table), &table.wanted});
  for (const auto& table : tables)
    for (int state = 1; state <= table.states; ++state)
      requests.push_back({table.name + " state " + std::to_string(state), bytes_of(table), &table.wanted});
  return requests;
}

/// @throws NameError if two tables have one name
void require_names(const std::vector<Request>& requests) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& request : requests) {
    const auto [other, is_new] = bytes.emplace(request.name, request.bytes);
    if (!is_new)
      throw NameError("two tables of the plan are called '" + request.name + "', one of " +
                      std::to_string(other->second) + " bytes and one of " + std::to_string(request.bytes) +
                      "; give each its own name (a table's states are called 'NAME state 1' and so on)");
  }
}

std::string shortage(const Request& request, MemoryBudgets& left) {
  auto text = "'" + request.name + "' needs " + std::to_string(request.bytes) + " bytes;";
  for (const auto placement : *request.wanted)
    text += " " + std::string(to_string(placement)) + " has " + std::to_string(free_for(left, placement)) +
            " left" + (placement == request.wanted->back() ? "" : ",");
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
  std::vector<PlannedMemory> unplaced;
  std::string shortages;
  const auto requests = requests_of(tables);
  require_names(requests);
  for (const auto& request : requests) {
    const auto place = std::ranges::find_if(*request.wanted, [&](Placement placement) {
      return free_for(plan.left, placement) >= request.bytes;
    });
    if (place == request.wanted->end()) {
      unplaced.push_back({request.name, request.wanted->front(), request.bytes});
      shortages += "\n" + shortage(request, plan.left);
      continue;
    }
    take(plan.left, plan.used, *place, request.bytes);
    plan.tables.push_back({request.name, *place, request.bytes});
  }
  if (!unplaced.empty()) throw PlanError("the plan does not fit:" + shortages, std::move(unplaced));
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
