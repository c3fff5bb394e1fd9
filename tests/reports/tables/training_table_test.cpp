#include "reports/tables/training_table.h"

#include <gmock/gmock.h>

#include "reports/statistics/statistics.h"
#include "reports/tables/table.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Record trained(const std::string& method, std::int64_t batch, double samples_per_s) {
  Record record;
  record.id = {"infinitybatch",
               "step",
               "libtorch",
               method,
               "cpu",
               "float32",
               "int64",
               "uniform",
               1000,
               256,
               batch,
               2,
               {{"micro_batch", "auto"}, {"model", "mlp"}}};
  record.samples_s = std::vector<double>(11, static_cast<double>(batch) / samples_per_s);
  record.verified_rows = 300;
  record.more = {{"samples_per_s", samples_per_s},
                 {"peak_bytes", std::int64_t{5'000'000}},
                 {"cap_bytes", std::int64_t{6'500'000}},
                 {"gradient_difference", 3e-7},
                 {"plain_difference", 2e-7},
                 {"micro_batch_samples", std::int64_t{750}}};
  summarise(record);
  return record;
}

std::string training_table_of(std::vector<Record> records) {
  derive(records);
  Report report;
  report.records = std::move(records);
  return render_tables(report, Style::plain, tables_of);
}

TEST(TrainingTable, ComparesWithThePlainBatchThatFits) {
  const auto text = training_table_of({trained("plain", 1000, 50'000), trained("infinity", 8000, 49'000)});
  EXPECT_THAT(text,
              HasSubstr("Training mlp (cpu, 2 cores): a plain batch of 1,000 fits under a cap of 6.50 MB\n"));
  EXPECT_THAT(text, HasSubstr("batch 8,000, 8.0 × what fits, micro-batch auto\n"));
  EXPECT_THAT(text, ContainsRegex("plain +750 +20\\.00 +50,000 +1\\.00 +5\\.00 MB +1\\.50\n"));
  EXPECT_THAT(text, ContainsRegex("infinity +750 +163\\.3 +49,000 +0\\.98 +5\\.00 MB +1\\.50\n"));
}

TEST(TrainingTable, ShowsWhoRanOutOfMemoryAmongTheOthersAndWhy) {
  auto plain = trained("plain", 8000, 1);
  plain = unmeasured(plain.id, Status::waived, "out of memory under the cap of 6.5 MB");
  const auto text = training_table_of({plain, trained("infinity", 8000, 49'000)});
  EXPECT_THAT(text, ContainsRegex("plain +out of memory\n"));
  EXPECT_THAT(text, HasSubstr("Not measured here:\n  plain of libtorch on cpu: out of memory under the cap"));
  EXPECT_THAT(
      text,
      ContainsRegex("infinity +750 +163\\.3 +49,000 +5\\.00 MB"));  // no ratio without the plain batch
}

TEST(TrainingTable, SaysWhatIsWrong) {
  auto wrong = trained("infinity", 8000, 49'000);
  wrong.status = Status::wrong, wrong.reason = "gradients 0.1 from those in float64", summarise(wrong);
  const auto text = training_table_of({wrong});
  EXPECT_THAT(text, ContainsRegex("infinity +WRONG\n"));
  EXPECT_THAT(text, HasSubstr("gradients 0.1 from those in float64"));
  EXPECT_THAT(text, Not(HasSubstr("49,000")));
}

}  // namespace
}  // namespace stbench::reports
