// docs/schema.md against the code: its columns are the columns, its examples can be read and say the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "reports/files/csv.h"
#include "reports/files/file.h"
#include "reports/files/json.h"
#include "reports/statistics/statistics.h"
#include "tests/paths.h"
#include "tests/reports/random_report.h"

namespace stbench::reports {
namespace {

std::string document() { return read_file(stbench::test::source_folder() + "/docs/schema.md"); }

/// The indented lines from the first that starts so, without their indent.
std::string example(const std::string& start, const std::string& line_end) {
  const std::string indent = "    ";
  std::istringstream lines(document());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool wanted = text.empty() ? line.starts_with(indent + start) : line.starts_with(indent);
    if (wanted) text += line.substr(indent.size()) + line_end;
    if (!wanted && !text.empty()) break;
  }
  return text;
}

std::string schema_header() {
  return fmt::format(
      "{},cache,cache_bytes,callers,index_home,isa,role,repeat,pages_got,huge_fraction,resident_fraction,"
      "throttled,latency_p50_s,latency_p99_s,latency_"
      "runs,"
      "latency_clock_s,latency_curve,group\r\n",
      fmt::join(kSchemaColumns, ","));
}

TEST(Schema, DocumentNamesEveryColumnInItsOrder) {
  const std::string text = document();
  std::size_t at = 0;
  for (const std::string& name : kSchemaColumns) {
    const std::size_t found = text.find("`" + name + "`", at);
    ASSERT_NE(found, std::string::npos) << name;
    at = found;
  }
}

TEST(Schema, ItsExamplesAreReadAndSayTheSame) {
  const Report csv = from_csv(schema_header() + example("transfer,to,", ""), "schema.md");
  const Report empty;
  std::string json = to_json(empty);
  json.replace(json.find("\"axes\": []"), 10,
               R"("axes": ["cache", "cache_bytes", "callers", "index_home", "isa"])");
  json.replace(json.find("\"cases\": []"), 11, "\"cases\": [" + example("{\"suite\"", "\n") + "]");
  const Report object = from_json(json, "schema.md");
  ASSERT_EQ(csv.records.size(), 1U);
  EXPECT_EQ(dump_cases(csv), dump_cases(object));
  EXPECT_EQ(object.records.front().samples_s.size(), 11U);
}

TEST(Schema, ItsExampleHasTheFiguresOfItsSamples) {
  const Report csv = from_csv(schema_header() + example("transfer,to,", ""), "schema.md");
  Record record = csv.records.front();
  for (int i = 0; i < 11; ++i) record.samples_s.push_back((190 + 2 * i) / 1e5);
  summarise(record);
  std::vector<Record> records = {record};
  derive(records);
  const Record& written = csv.records.front();
  EXPECT_EQ(record.median_s, written.median_s);
  EXPECT_EQ(record.ci_low_s, written.ci_low_s);
  EXPECT_EQ(record.ci_high_s, written.ci_high_s);
  EXPECT_EQ(record.min_s, written.min_s);
  EXPECT_DOUBLE_EQ(record.p05_s.value(), written.p05_s.value());
  EXPECT_DOUBLE_EQ(record.p95_s.value(), written.p95_s.value());
  EXPECT_DOUBLE_EQ(records.front().gb_per_s.value(), written.gb_per_s.value());
}

}  // namespace
}  // namespace stbench::reports
