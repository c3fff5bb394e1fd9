#include "speedtorch/files/cache_misses.h"

#include <algorithm>

namespace speedtorch {

std::vector<MissedRow> missed_rows(std::vector<Missed>& missed) {
  std::ranges::sort(missed, {}, &Missed::row);
  std::vector<MissedRow> rows;
  for (std::size_t k = 0; k < missed.size(); ++k) {
    if (!rows.empty() && rows.back().row == missed[k].row) {
      rows.back().last = k + 1;
    } else {
      rows.push_back({missed[k].row, missed[k].version, k, k + 1, 0});
    }
  }
  return rows;
}

}  // namespace speedtorch
