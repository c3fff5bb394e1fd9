#include "reports/compare/calibrated_spreads.h"

#include "reports/files/case_join.h"

namespace stbench::reports {

CalibratedSpreads::CalibratedSpreads(const Calibration& calibration) {
  for (const CalibratedCase& row : calibration.cases) {
    if (row.processes < 2) continue;
    const auto freedom = static_cast<double>(row.processes - 1);
    if (row.time) scatters_["time " + join_key(row.id)].add(*row.time, freedom);
    if (row.ceiling) scatters_["ceiling " + join_key(row.id)].add(*row.ceiling, freedom);
  }
}

const Scatter* CalibratedSpreads::find(const Identity& id, const std::string& metric) const {
  const auto found = scatters_.find(metric + " " + join_key(id));
  return found == scatters_.end() ? nullptr : &found->second;
}

bool CalibratedSpreads::is_quieter_by_time(const Identity& id) const {
  const Scatter *const time = find(id, "time"), *const ceiling = find(id, "ceiling");
  return time != nullptr && ceiling != nullptr &&
         time->squares * ceiling->freedom < ceiling->squares * time->freedom;
}

}  // namespace stbench::reports
