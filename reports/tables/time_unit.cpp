#include "reports/tables/time_unit.h"

#include <algorithm>

#include "reports/style.h"

namespace stbench::reports {

std::string TimeUnit::text(double time_s) const {
  constexpr int kDigits = 4;
  return significant(time_s / seconds, kDigits);
}

TimeUnit time_unit(const std::vector<const Record*>& rows) {
  double longest = 0;
  for (const Record* row : rows) longest = std::max(longest, row->median_s.value_or(0));
  constexpr TimeUnit kSeconds{"s", 1};
  constexpr TimeUnit kMilliseconds{"ms", 1e-3};
  constexpr TimeUnit kMicroseconds{"us", 1e-6};
  if (longest >= kSeconds.seconds) return kSeconds;
  return longest >= kMilliseconds.seconds ? kMilliseconds : kMicroseconds;
}

}  // namespace stbench::reports
