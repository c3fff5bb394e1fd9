#include "reports/tables/memory_table.h"

#include <gmock/gmock.h>

#include "reports/tables/table.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kGib = std::int64_t{1} << 30;
constexpr std::int64_t kTable = 5'120'000'000;

Record held(const std::string& placement, const std::string& method, const std::string& device = "cpu") {
  Record record;
  record.id = {"memory", "in",       placement, method, device, "float32",         "",
               "",       10'000'000, 128,       0,      0,      {{"touched", 1.0}}};
  record.verified_rows = 10'000'000;
  record.more = {{"requested_bytes", kTable},       {"resident_bytes", kGib / 8 + kTable},
                 {"peak_bytes", kGib / 4 + kTable}, {"baseline_bytes", kGib / 8},
                 {"overhead_ratio", 1.00039},       {"after_free_bytes", kGib / 16},
                 {"page_table_bytes", kGib / 100}};
  return record;
}

Record without_number(Record record, Status status, const std::string& reason) {
  record.more = {{"requested_bytes", kTable}};
  record.status = status, record.reason = reason;
  return record;
}

std::string table_of(const std::vector<Record>& records) {
  Report report;
  report.axes = {"touched"};
  report.records = records;
  return render_tables(report, Style::plain, tables_of);
}

TEST(MemoryTable, HasTheShapeAndTheGigabytesOfEachRow) {
  const auto text = table_of({held("hugepage", "speedtorch"), held("libtorch", "libtorch")});
  EXPECT_THAT(
      text, HasSubstr("memory: what holding a table costs\n"
                      "  10,000,000 × 128 float32 (5.12 GB, 4.77 GiB); GiB, each in a process of its own\n"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "speedtorch\\(hugepage\\) +4\\.89 +1\\.0004 +0\\.12 +5\\.02 +0\\.062 +0\\.010\n"));
  EXPECT_THAT(text, HasSubstr("libtorch(libtorch)"));
}

TEST(MemoryTable, HasSpeedTorchsFiguresBesideItsKindsOfTensor) {
  auto device = held("device", "libtorch", "cuda:0");
  device.more.emplace_back("device_bytes", 5 * kGib);
  const auto text = table_of({held("pinned", "libtorch", "cuda:0"), device,
                              without_number(held("pinned", "cupy", "cuda:0"), Status::waived, "no GPU")});
  EXPECT_THAT(text, testing::ContainsRegex("libtorch\\(pinned\\) +4\\.89 +6\\.59 +0\\.32 +1\\.0004"));
  EXPECT_THAT(text, testing::ContainsRegex("libtorch\\(device\\) +4\\.89 +1\\.82 +5\\.00 +5\\.09 +1\\.0004"));
  EXPECT_THAT(text, testing::ContainsRegex("cupy\\(pinned\\) +- +9\\.93 +- +0\\.06\n"));
  EXPECT_THAT(text, HasSubstr("Not measured here:\n"));
}

TEST(MemoryTable, HasNoFiguresOfTenMillionRowsBesideOthers) {
  for (const std::int64_t rows : {200'000, 10'000'000}) {
    auto own = held("pageable", "speedtorch");
    auto waived = without_number(held("pinned", "speedtorch", "cuda:0"), Status::waived, "no GPU");
    own.id.rows = waived.id.rows = rows;
    const auto text = table_of({own, waived});
    const bool published = rows == 10'000'000;
    for (const char* part : {"README", "9.93", "README: SpeedTorch's of", "speedtorch(pinned)"}) {
      EXPECT_EQ(text.find(part) != std::string::npos, published) << part << "\n" << text;
    }
    EXPECT_THAT(text, HasSubstr("Not measured here:\n"));
  }
}

TEST(MemoryTable, NamesWhatWasTouchedOnlyInPart) {
  auto part = held("mapped", "speedtorch");
  part.id.axes = {{"touched", 0.25}};
  EXPECT_THAT(table_of({part}), HasSubstr("speedtorch(mapped) 25% "));
  EXPECT_THAT(table_of({held("mapped", "speedtorch")}), Not(HasSubstr("%")));
}

TEST(MemoryTable, SaysWhyARowHasNoNumbersOrDoubtfulOnes) {
  auto wrong = without_number(held("pageable", "speedtorch"), Status::wrong, "row 7 of the table");
  wrong.mismatches = 12;
  auto doubtful = held("mapped", "speedtorch");
  doubtful.status = Status::unstable, doubtful.reason = "only 60.0 % is in memory";
  const auto text =
      table_of({wrong, without_number(held("hugepage", "speedtorch"), Status::failed, "signal 9"), doubtful});
  EXPECT_THAT(text,
              testing::ContainsRegex("speedtorch\\(pageable\\) +WRONG: 12 of 10,000,000 rows differ\n"));
  EXPECT_THAT(text, HasSubstr("  WRONG speedtorch(pageable): row 7 of the table\n"));
  EXPECT_THAT(text, testing::ContainsRegex("speedtorch\\(hugepage\\) +failed\n"));
  EXPECT_THAT(text, HasSubstr("  failed speedtorch(hugepage): signal 9\n"));
  EXPECT_THAT(text, HasSubstr("~4.89"));
}

TEST(MemoryTable, IsOneAShape) {
  auto other = held("pageable", "speedtorch");
  other.id.rows = 5, other.id.dtype = "bytes", other.id.dim = 1000;
  other.more[0].second = std::int64_t{5000};
  const auto text = table_of({held("pageable", "speedtorch"), other});
  EXPECT_THAT(text, HasSubstr("  5 rows of 1,000 bytes (5.00 kB, 0.000 GiB);"));
  EXPECT_THAT(text, HasSubstr("  10,000,000 × 128 float32"));
}

TEST(MemoryTable, NoRowsGiveAnEmptyTable) {
  EXPECT_EQ(memory_tables({}, Style::plain), "");
  const auto waived = without_number(held("pageable", "numpy"), Status::waived, "no NumPy");
  EXPECT_EQ(memory_tables({&waived}, Style::plain), "");
}

}  // namespace
}  // namespace stbench::reports
