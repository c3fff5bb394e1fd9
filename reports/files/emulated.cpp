#include "reports/files/emulated.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/error.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {

void forget_times(Record& record) {
  if (!has_numbers(record.status)) return;
  record.status = Status::ok;
  record.reason = emulated_reason;
  record.samples_s.clear();
  summarise(record);
  for (auto& [name, value] : record.more)  // times and rates; figures of bytes stay
    if (name.ends_with("_s") && std::holds_alternative<double>(value)) value = std::monostate{};
}

bool lacks_time(const Record& record) {
  if (!has_numbers(record.status) || record.median_s || record.id.suite == "memory") return false;
  return record.status != Status::ok || record.reason != emulated_reason;
}

bool is_emulated(const Report& report) {
  const auto gpu = report.environment.find("gpu");
  if (gpu != report.environment.end() && gpu->is_object()) {
    const auto emulated = gpu->find("emulated");
    if (emulated != gpu->end() && emulated->is_boolean() && emulated->get<bool>()) return true;
  }
  return std::ranges::any_of(report.records,
                             [](const Record& record) { return record.reason == emulated_reason; });
}

void require_timed(const Report& report, const std::string& path) {
  if (!is_emulated(report)) return;
  throw ReportError(fmt::format(
      "{}: was made on an emulated GPU, where nothing is timed; a report of a real one would be right",
      path));
}

}  // namespace stbench::reports
