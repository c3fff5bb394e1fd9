#include "tests/reports/sample_report.h"

#include <cstddef>

#include "reports/statistics/statistics.h"

namespace stbench::reports {

Record measured(const std::string& direction, const std::string& placement, const std::string& method,
                double seconds) {
  Record record;
  record.id = {"transfer", direction, placement, method, "cpu",   "float32",
               "int64",    "unique",  1'000'000, 128,    131'072, 2};
  record.id.axes = {
      {"cache", "warm"}, {"callers", std::int64_t{1}}, {"index_home", "ready"}, {"isa", "best"}};
  for (int round = 0; round < 11; ++round) record.samples_s.push_back(seconds * (0.95 + 0.01 * round));
  record.payload_bytes = 131'072 * 128 * 4;
  record.index_bytes = 131'072 * 8;
  record.verified_rows = 131'072;
  record.more = {{"repeat", std::int64_t{1}},
                 {"pages_got", "huge"},
                 {"throttled", std::int64_t{0}},
                 {"group", std::int64_t{0}}};
  summarise(record);
  return record;
}

namespace {

Record sample_without_number(Record record, Status status, const std::string& reason) {
  record.status = status;
  record.reason = reason;
  summarise(record);
  return record;
}

Record waived(const std::string& placement, const std::string& reason) {
  Record record = sample_without_number(measured("to", placement, "", 1), Status::waived, reason);
  record.id.device = "cuda:0";
  record.verified_rows = 0;
  return record;
}

void add_direction(Report& report, const std::string& direction, std::int64_t cores) {
  const double scale = (direction == "to" ? 1.0 : 1.5) / static_cast<double>(cores);
  for (const std::string placement : {"libtorch", "hugepage"}) {
    const double pages = placement == "hugepage" ? 0.5 : 1.0;
    for (Record record : {measured(direction, placement, "index_select", 0.010 * scale * pages),
                          measured(direction, placement, "advanced", 0.040 * scale * pages),
                          measured(direction, placement, "speedtorch", 0.008 * scale * pages),
                          measured(direction, placement, "copy", 0.005 * scale * pages)}) {
      record.id.cores = cores;
      report.records.push_back(record);
    }
  }
}

}  // namespace

Report sample_report() {
  Report report;
  report.program = "stbench 0.1.0";
  report.argv = {"stbench", "--suite", "transfer"};
  report.seed = 18'446'744'073'709'551'615U;
  report.started_at = "2025-06-01T12:00:00Z";
  report.environment = {{"cpu", {{"model", "A CPU"}, {"cores", 2}}},
                        {"gpu", nlohmann::ordered_json::object()}};
  report.axes = {"cache", "callers", "index_home", "isa"};
  for (const std::int64_t cores : {2, 1}) {
    for (const std::string direction : {"from", "to"}) add_direction(report, direction, cores);
  }
  report.records[0].status = Status::unstable;
  report.records[0].reason = "interval half-width 14% of the median";
  report.records[1] = sample_without_number(report.records[1], Status::wrong, "row 7 holds row 8");
  report.records[1].mismatches = 12;
  report.records[5] =
      sample_without_number(report.records[5], Status::failed, "no end after 10 s (--timeout)");
  const std::string no_driver = "no NVIDIA driver was found; install one to measure it";
  report.records.push_back(waived("pinned", no_driver));
  report.records.push_back(waived("device", no_driver));
  derive(report.records);
  return report;
}

std::string without_colour(std::string text) {
  for (std::size_t at = text.find('\033'); at != std::string::npos; at = text.find('\033', at)) {
    text.erase(at, text.find('m', at) - at + 1);
  }
  return text;
}

}  // namespace stbench::reports
