/// The unit in which a table gives its times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// One unit for a whole table, so that its rows can be compared at a glance.
struct TimeUnit {
  std::string_view name;
  double seconds = 1;

  /// Four significant digits, without the unit; from 10,000 on, all digits of the whole number in groups.
  [[nodiscard]] std::string text(double time_s) const;
};

/// s, ms, us or ns: the largest in which the rows' shortest median is at least 1.
TimeUnit time_unit(const std::vector<const Record*>& rows);

}  // namespace stbench::reports
