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
  EXPECT_EQ(named(read, "cached").bytes, (Bytes{12'000'000, 0, 120'000'000}));
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

TEST(AdviseChoices, ACacheHasAPartOfATableThatFitsAndAllMemoryOfOneThatDoesNot) {
  auto room = roomy();
  const auto question = table(10'000'000, 32, "float32");  // 1.28 GB
  EXPECT_EQ(named(choices_for(question, room), "cached").cache_bytes, 128'000'000);
  room.memory = gb;
  EXPECT_EQ(named(choices_for(question, room), "cached").cache_bytes, gb - (16 << 20) - 100 * 128);
  room.memory = 40'000'000;
  EXPECT_EQ(named(choices_for(question, room), "cached").cache_bytes, 30'000'000);
  room.memory = 1'000;
  EXPECT_THAT(named(choices_for(question, room), "cached").misfit, HasSubstr("has not 1,000 rows"));
  const auto large = table(400'000'000, 32, "float32");
  const auto cached = named(choices_for(large, roomy()), "cached");
  EXPECT_EQ(measured_cache_bytes(large, cached) / 1000, (std::int64_t{2} << 30) / 10 / 1000);
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
  EXPECT_EQ(measured_rows(large), (std::int64_t{2} << 30) / 128);
  EXPECT_EQ(measured_rows(table(400'000'000, 32, "float32", 2)), (std::int64_t{2} << 30) / 384);
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
  ASSERT_EQ(runs.size(), 6U);
  EXPECT_TRUE(has(runs[0], "--cache", "warm") && has(runs[0], "--placement", "libtorch,hugepage"));
  EXPECT_TRUE(has(runs[0], "--cores", "2") && has(runs[0], "--device", "cpu"));
  EXPECT_TRUE(has(runs[1], "--cache", "cold") && has(runs[1], "--placement", "libtorch,hugepage"));
  EXPECT_TRUE(has(runs[2], "--cache", "cold") && has(runs[2], "--placement", "mapped"));
  EXPECT_TRUE(has(runs[2], "--method", "speedtorch,file_rows,row_cache"));
  EXPECT_TRUE(has(runs[2], "--cache-bytes", "38400000"));
  EXPECT_TRUE(has(runs[3], "--suite", "optimizer") && has(runs[3], "--optimizer", "Adam"));
  EXPECT_TRUE(has(runs[3], "--placement", "libtorch") && has(runs[3], "--cache", "warm,cold"));
  EXPECT_TRUE(has(runs[4], "--placement", "hugepage") && has(runs[4], "--cache", "warm,cold"));
  EXPECT_TRUE(has(runs[5], "--method", "row_cache") && has(runs[5], "--cache-bytes", "38400000"));
  const auto reads = table(1'000'000, 32, "float32");
  const auto of_reads = runs_for(reads, choices_for(reads, roomy()), roomy());
  ASSERT_EQ(of_reads.size(), 4U);
  EXPECT_TRUE(has(of_reads[1], "--cache", "warm") && has(of_reads[1], "--placement", "mapped"));
  auto little = roomy();
  little.memory = 1000;
  const auto files = runs_for(question, choices_for(question, little), little);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(has(files[0], "--cache", "cold") && has(files[0], "--placement", "mapped"));
}

TEST(AdviseChoices, RunsMeasureTheRowsOfTheFile) {
  auto question = table(1'000'000, 32, "float32");
  question.table = "models/embed.npy", question.file = "embed.npy";
  auto runs = runs_for(question, choices_for(question, roomy()), roomy());
  for (const auto& words : runs) {
    EXPECT_TRUE(has(words, "--table", "models/embed.npy"));
    for (const char* shape : {"--rows", "--dim", "--dtype"})
      EXPECT_THAT(words, testing::Not(testing::Contains(shape)));
  }
  question.rows = 400'000'000;  // too many to measure all
  runs = runs_for(question, choices_for(question, roomy()), roomy());
  EXPECT_TRUE(has(runs[0], "--rows", std::to_string((std::int64_t{2} << 30) / 128)));
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
