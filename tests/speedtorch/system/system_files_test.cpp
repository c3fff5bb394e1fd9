#include "speedtorch/system/system_files.h"

#include <gmock/gmock.h>

#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::ElementsAre;
using testing::Eq;
using testing::Optional;

TEST(SystemFiles, ReadsBelowItsRoot) {
  const TemporaryFolder folder;
  folder.write("proc/a", "12 30\nsecond\n");
  folder.write("proc/empty", "");
  const SystemFiles files(folder.path());
  EXPECT_THAT(files.text("/proc/a"), Optional(Eq("12 30\nsecond\n")));
  EXPECT_THAT(files.first_line("/proc/a"), Optional(Eq("12 30")));
  EXPECT_THAT(files.number("/proc/a"), Optional(12));
  EXPECT_THAT(files.lines("/proc/a"), ElementsAre("12 30", "second"));
  EXPECT_EQ(files.first_line("/proc/empty"), std::nullopt);
  EXPECT_EQ(files.text("/proc/none"), std::nullopt);
  EXPECT_EQ(files.text("/proc"), std::nullopt);
  EXPECT_TRUE(files.lines("/proc/none").empty());
}

TEST(SystemFiles, FindsValuesByKey) {
  const TemporaryFolder folder;
  folder.write(
      "m",
      "MemTotalOther: 1 kB\nMemTotal:       16 kB\nmodel name\t: Some CPU\ninactive 7\nP=\"x y\"\nempty:\n");
  const SystemFiles files(folder.path());
  EXPECT_THAT(files.bytes("m", "MemTotal"), Optional(16 * 1024));
  EXPECT_THAT(files.value("m", "model name"), Optional(Eq("Some CPU")));
  EXPECT_THAT(files.bytes("m", "inactive"), Optional(7));
  EXPECT_THAT(files.value("m", "P"), Optional(Eq("\"x y\"")));
  EXPECT_THAT(files.value("m", "empty"), Optional(Eq("")));
  EXPECT_EQ(files.bytes("m", "model name"), std::nullopt);
  EXPECT_EQ(files.value("m", "Mem"), std::nullopt);
}

TEST(SystemFiles, NameTheProcessorsDesign) {
  const TemporaryFolder folder;
  const SystemFiles files(folder.path());
  EXPECT_EQ(processor_design(files), std::nullopt);
  folder.write(
      "proc/cpuinfo",
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n");
  EXPECT_THAT(processor_design(files), Optional(Eq("family 25, model 1")));
  folder.write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
  EXPECT_THAT(processor_design(files), Optional(Eq("implementer 0x41, part 0xd40")));
}

TEST(SystemFiles, ListsFolders) {
  const TemporaryFolder folder;
  folder.write("sys/b/inside", "");
  folder.write("sys/a", "");
  const SystemFiles files(folder.path());
  EXPECT_THAT(files.names("/sys"), ElementsAre("a", "b"));
  EXPECT_TRUE(files.names("/sys/none").empty());
  EXPECT_TRUE(files.names("/sys/a").empty());
}

TEST(SystemFiles, FindsTheChoiceInBrackets) {
  const TemporaryFolder folder;
  folder.write("a", "always [madvise] never\n");
  folder.write("b", "never\n");
  const SystemFiles files(folder.path());
  EXPECT_THAT(files.choice("a"), Optional(Eq("madvise")));
  EXPECT_EQ(files.choice("b"), std::nullopt);
  EXPECT_EQ(files.choice("c"), std::nullopt);
}

TEST(NumberList, IsTheKernels) {
  EXPECT_THAT(number_list("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(number_list("5\n"), ElementsAre(5));
  EXPECT_TRUE(number_list("").empty());
  EXPECT_TRUE(number_list("none").empty());
  EXPECT_LE(number_list("0-99999999999").size(), 65537U);
}

TEST(LeadingNumber, RefusesSignsAndText) {
  EXPECT_THAT(leading_number("15 rest"), Optional(15));
  for (const char* text : {"", "-1", "max", " 1", "99999999999999999999"})
    EXPECT_EQ(leading_number(text), std::nullopt);
}

}  // namespace
}  // namespace speedtorch
