#include "benchmarks/advise/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "benchmarks/program/command_line.h"

namespace stbench::advise {
namespace {

using testing::HasSubstr;

constexpr std::int64_t gb = 1'000'000'000;

Question table(std::int64_t rows, std::int64_t dim, const char* dtype, int states = 0) {
  Question one;
  one.rows = rows, one.dim = dim, one.dtype = dtype, one.batch = 100, one.step_s = 0.01;
  one.states = states, one.optimizer = states > 0 ? "Adam" : "";
  return one;
}

Room roomy() { return {100 * gb, 0, 100 * gb, "--memory", "--device-memory", "the disk", "no GPU", 2}; }

const Choice& named(const std::vector<Choice>& choices, const std::string& name) {
  return *std::ranges::find(choices, name, &Choice::name);
}

TEST(AdviseChoices, CountTheBytesOfTableAndStates) {
  // 3,000,000 × 20 × 2 bytes; with two states 360 MB.
  const auto read = choices_for(table(3'000'000, 20, "float16"), roomy());
  EXPECT_EQ(named(read, "hugepage").bytes, (Bytes{120'000'000, 0, 0}));
  EXPECT_EQ(named(read, "file").bytes, (Bytes{0, 0, 120'000'000}));
  EXPECT_EQ(named(read, "mapped").bytes, (Bytes{120'000'000, 0, 120'000'000}));
  EXPECT_EQ(named(read, "pinned").bytes, (Bytes{120'000'000, 0, 0}));
  EXPECT_EQ(named(read, "device").bytes, (Bytes{0, 120'000'000, 0}));
  const auto trains = choices_for(table(3'000'000, 10, "float32", 2), roomy());
  EXPECT_EQ(named(trains, "libtorch").bytes, (Bytes{360'000'000, 0, 0}));
}

TEST(AdviseChoices, SayWhatDoesNotFit) {
  auto room = roomy();
  room.memory = gb;
  const auto choices = choices_for(table(10'000'000, 32, "float32"), room);
  EXPECT_EQ(named(choices, "hugepage").misfit, "needs 1.28 GB of memory, 280 MB more than --memory");
  EXPECT_TRUE(named(choices, "file").misfit.empty());
  room.disk = gb;
  EXPECT_THAT(named(choices_for(table(10'000'000, 32, "float32"), room), "file").misfit,
              HasSubstr("needs 1.28 GB of disk"));
}

TEST(AdviseChoices, ATableOfAFileTakesNoMoreDisk) {
  auto room = roomy();
  room.disk = gb;
  auto question = table(10'000'000, 32, "float32");
  question.file = "table.npy";
  EXPECT_TRUE(named(choices_for(question, room), "file").misfit.empty());
  question.states = 2, question.optimizer = "Adam";
  EXPECT_THAT(named(choices_for(question, room), "file").misfit, HasSubstr("needs 2.56 GB of disk"));
}

TEST(AdviseChoices, ToTheLastByte) {
  auto room = roomy();
  room.memory = 1'280'000'000;
  EXPECT_TRUE(named(choices_for(table(10'000'000, 32, "float32"), room), "hugepage").misfit.empty());
  --room.memory;
  EXPECT_FALSE(named(choices_for(table(10'000'000, 32, "float32"), room), "hugepage").misfit.empty());
}

TEST(AdviseChoices, AGpuThatIsNotThereIsPlannedWhereItsMemoryIsGiven) {
  auto question = table(1'000'000, 32, "float32");
  EXPECT_EQ(named(choices_for(question, roomy()), "device").unmeasured, "no GPU");
  EXPECT_TRUE(named(choices_for(question, roomy()), "device").misfit.empty());
  question.device_memory = 1000;
  auto room = roomy();
  room.device = 1000;
  EXPECT_THAT(named(choices_for(question, room), "device").misfit, HasSubstr("more than --device-memory"));
}

TEST(AdviseChoices, MeasureAPartOfALargeTable) {
  EXPECT_EQ(measured_rows(table(1000, 32, "float32")), 1000);
  const auto large = table(400'000'000, 32, "float32");
  EXPECT_EQ(measured_rows(large), (std::int64_t{1} << 30) / 128);
  EXPECT_EQ(measured_rows(table(400'000'000, 32, "float32", 2)), (std::int64_t{1} << 30) / 384);
  auto trace = large;
  trace.distribution = "file:some";
  EXPECT_EQ(measured_rows(trace), 400'000'000);
  auto wide = table(400'000'000, 32, "float32");
  wide.batch = 100'000'000;  // unique rows of a look-up need as many rows
  EXPECT_EQ(measured_rows(wide), 100'000'000);
}

bool has(const RunWords& words, const std::string& option, const std::string& value) {
  const auto found = std::ranges::find(words, option);
  return found != words.end() && found + 1 != words.end() && *(found + 1) == value;
}

TEST(AdviseChoices, RunsMeasureWhatDecides) {
  const auto question = table(1'000'000, 32, "float32", 2);
  const auto runs = runs_for(question, choices_for(question, roomy()), roomy());
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_TRUE(has(runs[0], "--cache", "warm") && has(runs[0], "--placement", "libtorch,hugepage"));
  EXPECT_TRUE(has(runs[1], "--cache", "warm") && has(runs[1], "--placement", "mapped"));
  EXPECT_TRUE(has(runs[0], "--cores", "2") && has(runs[0], "--device", "cpu"));
  EXPECT_TRUE(has(runs[2], "--cache", "cold") && has(runs[2], "--placement", "mapped,libtorch,hugepage"));
  EXPECT_TRUE(has(runs[3], "--suite", "optimizer") && has(runs[3], "--optimizer", "Adam"));
  auto little = roomy();
  little.memory = 1000;
  const auto files = runs_for(question, choices_for(question, little), little);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(has(files[0], "--cache", "cold") && has(files[0], "--placement", "mapped"));
}

/// The program takes the words as a user's: it refuses none.
TEST(AdviseChoices, RunsAreCommandLines) {
  const auto question = table(1'000'000, 32, "float32", 2);
  for (const auto& words : runs_for(question, choices_for(question, roomy()), roomy())) {
    EXPECT_TRUE(parse_command_line(words).measures);
  }
}

}  // namespace
}  // namespace stbench::advise
