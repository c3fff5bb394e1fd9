#include "reports/tables/step_tables.h"

#include <gmock/gmock.h>

#include "reports/statistics/statistics.h"
#include "reports/tables/table.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Record stepped(const std::string& suite, const std::string& method, double seconds, Columns axes) {
  Record record;
  record.id = {suite,     "step", "libtorch", method, "cpu", "float32",      "int64",
               "uniform", 1000,   8,          100,    2,     std::move(axes)};
  record.samples_s = std::vector<double>(11, seconds);
  record.payload_bytes = 100'000;
  record.verified_rows = 300;
  summarise(record);
  return record;
}

std::string step_table_of(std::vector<Record> records) {
  derive(records);
  Report report;
  report.records = std::move(records);
  return render_tables(report, Style::plain, tables_of);
}

TEST(StepTables, CompareWithTheFastestOfLibTorch) {
  const Columns axes{{"optimizer", "SGD"}};
  const auto text = step_table_of(
      {stepped("optimizer", "sparse_rows", 0.001, axes), stepped("optimizer", "dense", 0.004, axes)});
  EXPECT_THAT(text,
              HasSubstr("step: a step of the optimizer (cpu)\n"
                        "  100 of 1,000 × 8 float32 rows (100 kB), uniform int64 indices, optimizer=SGD\n"));
  EXPECT_THAT(text,
              ContainsRegex("sparse_rows\\(libtorch\\) +1\\.000 +±0\\.0% +0\\.100 +4\\.0× faster +300"));
  EXPECT_THAT(text, HasSubstr("LibTorch's best"));
  EXPECT_THAT(text, Not(HasSubstr("Does it learn?")));
}

TEST(StepTables, NameTheOptimizerAlsoWhereItIsTheUsualOne) {
  EXPECT_THAT(step_table_of({stepped("optimizer", "dense", 0.001, {{"optimizer", "Adam"}})}),
              HasSubstr(", optimizer=Adam\n"));
}

TEST(StepTables, ModelTableNamesItsTensors) {
  auto record = stepped("contiguous", "flat", 0.001, {{"shape", "linears"}});
  record.id.batch = 0, record.id.index_dtype.clear(), record.id.distribution.clear();
  EXPECT_THAT(step_table_of({record}), HasSubstr("  1,000 tensors of 8 float32 (100 kB), shape=linears\n"));
}

TEST(StepTables, SayWhatWasLearned) {
  auto record = stepped("embedding", "fused", 0.001, {{"optimizer", "Adamax"}});
  record.more = {{"steps_per_s", 301.4083},
                 {"words_per_s", 1234567.8},
                 {"heldout_loss", 2.5},
                 {"zero_loss", 4.15888},
                 {"unigram_loss", 2.65}};
  const auto text = step_table_of({record});
  EXPECT_THAT(text, ContainsRegex("who +steps/s +words/s +loss +all zero +unigram\n"));
  EXPECT_THAT(text, ContainsRegex("fused\\(libtorch\\) +301\\.4 +1,234,567 +2\\.500 +4\\.159 +2\\.650\n"));
}

}  // namespace
}  // namespace stbench::reports
