#include "benchmarks/suite/sums.h"

#include <algorithm>
#include <variant>

#include "reports/statistics/role.h"

namespace stbench {
namespace {

using reports::Record;
using reports::Status;

/// The sum of the two medians: no samples of its own, the worse status, the smaller number of verified rows.
Record sum_of(const Record& to, const Record& from) {
  Record sum;
  sum.id = to.id;
  sum.id.direction = "sum";
  sum.status = reports::worse(to.status, from.status);
  sum.reason = to.status == sum.status ? to.reason : from.reason;
  if (to.median_s && from.median_s) sum.median_s = *to.median_s + *from.median_s;
  sum.payload_bytes = to.payload_bytes + from.payload_bytes;
  sum.index_bytes = to.index_bytes + from.index_bytes;
  sum.verified_rows = std::min(to.verified_rows, from.verified_rows);
  sum.mismatches = to.mismatches + from.mismatches;
  sum.more = {{"repeat", std::monostate{}}, {"pages_got", std::monostate{}}, {"throttled", std::monostate{}}};
  for (const char* latency : {"latency_p50_s", "latency_p99_s", "latency_runs", "latency_clock_s", "latency_curve"})
    sum.more.emplace_back(latency, std::monostate{});
  reports::set_role(sum, reports::role_of(to));
  return sum;
}

}  // namespace

void add_sums(std::vector<Record>& records, const std::string& suite) {
  std::vector<Record> sums;
  for (const auto& to : records) {
    if (to.id.suite != suite || to.id.direction != "to" || to.status == Status::waived) continue;
    auto twin = to.id;
    twin.direction = "from";
    const auto from =
        std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.id == twin; });
    if (from != records.end() && from->status != Status::waived) sums.push_back(sum_of(to, *from));
  }
  records.insert(records.end(), sums.begin(), sums.end());
}

}  // namespace stbench
