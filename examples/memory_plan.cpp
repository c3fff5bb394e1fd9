#include <iostream>

#include "speedtorch/tables/memory_plan.h"

int main() {
  using speedtorch::Placement;
  constexpr std::int64_t GiB = std::int64_t{1} << 30;
  const speedtorch::PlannedTable books{.name = "books",
                                       .rows = 2'829'853,
                                       .dim = 496,
                                       .states = 2,  // Adam's
                                       .wanted = {Placement::device, Placement::pinned, Placement::mapped}};
  const speedtorch::MemoryBudgets machine{
      .device = 11 * GiB, .pinned = 4 * GiB, .host = 12 * GiB, .file = 100 * GiB};  // or free_budgets(...)
  std::cout << speedtorch::plan_memory({books}, machine).text();
  try {
    (void)speedtorch::plan_memory({books}, {.device = 12 * GiB});
  } catch (const speedtorch::PlanError& error) {
    std::cout << error.what() << '\n';
  }
  return 0;
}
