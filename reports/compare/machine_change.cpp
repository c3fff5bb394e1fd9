#include "reports/compare/machine_change.h"

#include <cmath>
#include <span>
#include <vector>

#include "reports/compare/metric.h"
#include "reports/files/case_join.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {

std::optional<double> machine_change(const Report& first, const Report& second) {
  const auto joined = join_cases(std::span(&first, 1), std::span(&second, 1));
  std::vector<double> changes;
  const auto measured = measured_cases(joined, "time");
  for (std::size_t i = 0; i < joined.size(); ++i) {
    const auto& [part, metric, base, now] = measured[i];
    const bool is_libtorchs =
        part == Part::control || (part == Part::ceiling && joined[i].id.method == "copy");
    if (is_libtorchs && !base.empty() && !now.empty())
      changes.push_back(now.front().value - base.front().value);
  }
  if (changes.empty()) return std::nullopt;
  return std::exp(median(changes));
}

}  // namespace stbench::reports
