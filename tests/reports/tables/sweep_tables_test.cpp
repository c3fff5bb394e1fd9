#include "reports/tables/sweep_tables.h"

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "reports/statistics/statistics.h"
#include "reports/tables/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

Record of_width(std::int64_t width, const std::string& method, double seconds) {
  auto record = measured("to", "hugepage", method, seconds);
  record.id.dtype = "bytes", record.id.dim = width, record.id.rows = 5'000'000'000 / width;
  record.payload_bytes = width * record.id.batch;
  return record;
}

Record of_batch(std::int64_t batch, const std::string& method, double median, double last) {
  auto record = of_width(160, method, median * 1.1);
  record.id.batch = batch;
  record.payload_bytes = 160 * batch;
  record.more.emplace_back("latency_p50_s", median);
  record.more.emplace_back("latency_p99_s", last);
  record.more.emplace_back("latency_runs", std::int64_t{2000});
  record.more.emplace_back("latency_clock_s", 25e-9);
  return record;
}

Rows pointers(const std::vector<Record>& records) {
  Rows rows;
  for (const auto& record : records) rows.push_back(&record);
  return rows;
}

std::vector<Record> widths() {
  std::vector<Record> records;
  for (const std::int64_t width : {512, 16, 4096, 264}) {
    const double seconds = 131'072e-9 * static_cast<double>(width);  // 1 GB/s
    records.push_back(of_width(width, "speedtorch", seconds / 4));
    records.push_back(of_width(width, "index_select", seconds / 2));
    records.push_back(of_width(width, "copy", seconds / 8));
  }
  derive(records);
  return records;
}

std::vector<Record> batches() {
  std::vector<Record> records;
  for (const std::int64_t batch : {1536, 1, 24}) {
    records.push_back(of_batch(batch, "index_select", 3e-6, 9e-6));
    records.push_back(of_batch(batch, "advanced", 2e-6, 5e-6));
    records.push_back(of_batch(batch, "speedtorch", 1e-6, 4e-6));
    records.push_back(of_batch(batch, "copy", 1e-7, 2e-7));
  }
  derive(records);
  return records;
}

/// The words of the line that starts with these.
std::vector<std::string> line(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    std::istringstream words(one);
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    std::string joined;
    for (const auto& word : found) joined += word + " ";
    if (joined.starts_with(start + " ")) return found;
  }
  return {};
}

using Words = std::vector<std::string>;

TEST(SweepTables, ARowAWidthInOrderWithASpeedAMethod) {
  const auto records = widths();
  const auto text = width_tables(pointers(records), Style::plain);
  EXPECT_EQ(line(text, "row bytes"), (Words{"row", "bytes", "speedtorch", "of", "ceiling", "against",
                                            "LibTorch", "index_select", "copy"}));
  EXPECT_EQ(line(text, "16"), (Words{"16", "4.00", "50%", "2.0×", "faster", "2.00", "8.00"}));
  EXPECT_EQ(line(text, "4,096"), (Words{"4,096", "4.00", "50%", "2.0×", "faster", "2.00", "8.00"}));
  EXPECT_LT(text.find(" 16 "), text.find(" 264 "));
  EXPECT_LT(text.find(" 512 "), text.find(" 4,096 "));
  EXPECT_NE(text.find("5.00 GB"), std::string::npos) << text;
}

TEST(SweepTables, MissingAndDoubtfulNumbersAreMarked) {
  auto records = widths();
  records[0].status = Status::unstable, records[0].reason = "noise";
  records[1].status = Status::wrong, records[1].reason = "two rows differ";
  summarise(records[1]);
  records[1].gb_per_s.reset();
  const auto text = width_tables(pointers(records), Style::plain);
  EXPECT_EQ(line(text, "512")[1], "~4.00");
  EXPECT_NE(text.find("WRONG"), std::string::npos);
  EXPECT_NE(text.find("two rows differ"), std::string::npos);
  EXPECT_NE(text.find("noise"), std::string::npos);
}

TEST(SweepTables, OneTablePerDirectionPlacementCoresAndIndexType) {
  auto records = widths(), more = widths();
  for (auto& record : more) record.id.index_dtype = "int32";
  records.insert(records.end(), more.begin(), more.end());
  const auto text = width_tables(pointers(records), Style::plain);
  EXPECT_NE(text.find("int64 indices"), std::string::npos);
  EXPECT_NE(text.find("int32 indices"), std::string::npos);
}

TEST(SweepTables, LatenciesAreARowABatchInMicroseconds) {
  const auto records = batches();
  const auto text = latency_tables(pointers(records), Style::plain);
  EXPECT_TRUE(text.starts_with("Latency of small batches\n"));
  EXPECT_NE(text.find("up to 2000 single operations"), std::string::npos);
  EXPECT_NE(text.find("25 ns"), std::string::npos);
  EXPECT_EQ(line(text, "160 24"), (Words{"160", "24", "1.00", "/", "4.00", "3.00", "/", "9.00", "2.00", "/",
                                         "5.00", "2.0×", "faster"}));
  EXPECT_EQ(text.find("copy"), std::string::npos) << "a ceiling is no way to look rows up";
  EXPECT_LT(text.find("160      1 "), text.find("160     24 "));
  EXPECT_EQ(latency_tables(pointers(widths()), Style::plain), "") << "there are no single runs";
}

TEST(SweepTables, OnlySweepsLeaveTheOrdinaryTables) {
  auto records = widths();
  for (auto& record : batches()) records.push_back(record);
  records.push_back(measured("to", "hugepage", "speedtorch", 0.001));
  const auto split = split_sweeps(pointers(records));
  EXPECT_EQ(split.widths.size(), 12U);
  EXPECT_EQ(split.batches.size(), 12U);
  ASSERT_EQ(split.others.size(), 1U);
  EXPECT_EQ(split.others[0]->id.dtype, "float32");

  auto with_sums = batches();
  for (auto record : batches()) {
    record.id.direction = "sum", record.more.clear();
    with_sums.push_back(record);
  }
  EXPECT_EQ(split_sweeps(pointers(with_sums)).others.size(), batches().size()) << "a sum has no latency";

  std::vector<Record> two;
  for (const auto& record : widths()) {
    if (record.id.dim > 264) two.push_back(record);
  }
  EXPECT_EQ(split_sweeps(pointers(two)).others.size(), two.size()) << "two widths are no sweep";

  auto there_and_back = batches();
  for (auto& record : there_and_back) record.id.direction = "round_trip";
  EXPECT_EQ(split_sweeps(pointers(there_and_back)).trips.size(), there_and_back.size());
  EXPECT_TRUE(split_sweeps(pointers(there_and_back)).batches.empty());

  auto budgets = widths();
  for (const char* method : {"speedtorch_8sm", "speedtorch_24sm"})
    budgets.push_back(of_width(512, method, 1e-3));
  const auto with_budgets = split_sweeps(pointers(budgets));
  EXPECT_EQ(with_budgets.others.size(), 2U) << "a table of their own";
  EXPECT_EQ(with_budgets.widths.size(), 12U);
}

TEST(SweepTables, FitTheScreenAndStandInTheWholeReport) {
  Report report;
  report.axes = {"cache", "callers", "index_home", "isa"};
  report.records = widths();
  for (auto& record : batches()) report.records.push_back(record);
  const auto text = render_tables(report, Style::plain, tables_of);
  EXPECT_NE(text.find("GB/s to (cpu), hugepage, 2 cores, int64 indices"), std::string::npos);
  EXPECT_NE(text.find("Latency of small batches"), std::string::npos);
  EXPECT_EQ(text.find("verified rows"), std::string::npos) << "no ordinary table is left";
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) EXPECT_LE(display_width(one), kScreenWidth) << one;
}

TEST(RoundTrips, AreCountedASecondWithTheirLatencies) {
  std::vector<Record> records;
  for (const std::int64_t rows : {6, 12, 20}) {
    for (const auto& [method, seconds] :
         {std::pair{"index_select", 10e-6}, {"speedtorch", 4e-6}, {"copy", 2e-6}}) {
      auto record = of_batch(rows, method, seconds * 1.5, seconds * 3);
      record.id.direction = "round_trip", record.id.dtype = "float64", record.id.dim = 3,
      record.id.rows = rows;
      record.samples_s = std::vector<double>(11, seconds);
      summarise(record);
      records.push_back(record);
    }
  }
  derive(records);
  const auto text = round_trip_tables(pointers(records), Style::plain);
  EXPECT_NE(text.find("Round trips of small tables"), std::string::npos) << text;
  EXPECT_NE(text.find("round_trip (cpu), float64, 2 cores, int64 indices"), std::string::npos) << text;
  std::istringstream lines(text);
  std::vector<std::string> ours;
  std::string size;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("all of ") != std::string::npos) size = line.substr(line.find("all of "));
    if (line.find("speedtorch(") != std::string::npos && size.starts_with("all of 12×3"))
      ours.push_back(line);
  }
  ASSERT_EQ(ours.size(), 1U) << text;
  std::istringstream words(ours[0]);
  std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
  EXPECT_EQ(cells, (std::vector<std::string>{"speedtorch(hugepage)", "250,000", "6.00", "12.0", "2.5×",
                                             "faster", "2.0×", "slower"}))
      << text;
  EXPECT_TRUE(round_trip_tables(pointers(batches()), Style::plain).empty()) << "nothing went back";
}

TEST(RoundTrips, AreNoLatencyOfOneWay) {
  auto records = batches();
  for (auto& record : records) record.id.direction = "round_trip";
  EXPECT_TRUE(latency_tables(pointers(records), Style::plain).empty());
}

}  // namespace
}  // namespace stbench::reports
