#include "reports/tables/time_unit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "reports/style.h"

namespace stbench::reports {

std::string TimeUnit::text(double time_s) const {
  constexpr int kDigits = 4;
  constexpr double kGrouped = 1e4, kMost = 1e15;
  const double value = time_s / seconds;
  if (value >= kGrouped && value < kMost) return grouped(std::llround(value));
  return significant(value, kDigits);
}

TimeUnit time_unit(const std::vector<const Record*>& rows) {
  constexpr std::array kUnits = {TimeUnit{"s", 1}, TimeUnit{"ms", 1e-3}, TimeUnit{"us", 1e-6},
                                 TimeUnit{"ns", 1e-9}};
  std::optional<double> shortest;
  for (const Record* row : rows) {
    if (row->median_s && *row->median_s > 0)
      shortest = std::min(shortest.value_or(*row->median_s), *row->median_s);
  }
  const auto suits = [&](const TimeUnit& unit) { return shortest.value_or(1e-6) >= unit.seconds; };
  const auto unit = std::ranges::find_if(kUnits, suits);
  return unit == kUnits.end() ? kUnits.back() : *unit;
}

}  // namespace stbench::reports
