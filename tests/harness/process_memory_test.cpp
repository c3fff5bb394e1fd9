#include "harness/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/harness/temporary_folder.h"

namespace stbench::harness {
namespace {

/// A /proc of one process, 42.
class FakeProcess : public testing::Test {
 protected:
  FakeProcess() { std::filesystem::create_directories(folder() / "proc/42"); }

  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder() / "proc" / name) << text;
  }
  [[nodiscard]] ProcessMemory read() const { return read_process_memory(SystemFiles(folder()), 42); }

  test::TemporaryFolder folder_;
};

constexpr const char* kRollup =
    "5581a0000000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:             5120000 kB\nPss:             5100000 kB\nPss_Dirty:       5000000 kB\n"
    "AnonHugePages:    204800 kB\nShmemPmdMapped:     2048 kB\nFilePmdMapped:      4096 kB\n"
    "Locked:                0 kB\n";
constexpr const char* kStatus =
    "Name:\tstbench\nVmPeak:\t 9999999 kB\nVmSize:\t 9999999 kB\nVmLck:\t      12 kB\nVmPin:\t     300 kB\n"
    "VmHWM:\t 5130000 kB\nVmRSS:\t 5119900 kB\nRssAnon:\t 5000000 kB\nRssFile:\t  119000 kB\n"
    "RssShmem:\t     900 kB\nVmPTE:\t   10240 kB\nThreads:\t3\n";

TEST_F(FakeProcess, IsReadFromTheExactFileAndTheStatus) {
  write("42/smaps_rollup", kRollup);
  write("42/status", kStatus);
  const auto memory = read();
  EXPECT_EQ(memory.resident, 5'120'000LL * 1024);
  EXPECT_EQ(memory.peak, 5'130'000LL * 1024);
  EXPECT_EQ(memory.locked, 312 * 1024);
  EXPECT_EQ(memory.page_tables, 10'240 * 1024);
  EXPECT_EQ(memory.shared, 119'900LL * 1024);
  EXPECT_EQ(memory.huge, (204'800LL + 2048 + 4096) * 1024);
}

TEST_F(FakeProcess, OfAnOlderKernelTellsWhatItCan) {
  write("42/status", "Name:\tstbench\nVmRSS:\t     100 kB\n");
  const auto memory = read();
  EXPECT_EQ(memory.resident, 100 * 1024);
  EXPECT_EQ(memory.peak, std::nullopt);
  EXPECT_EQ(memory.locked, std::nullopt);
  EXPECT_EQ(memory.page_tables, std::nullopt);
  EXPECT_EQ(memory.shared, std::nullopt);
  EXPECT_EQ(memory.huge, 0);
}

TEST_F(FakeProcess, HasNoPeakBelowWhatIsResident) {
  write("42/smaps_rollup", kRollup);
  write("42/status", "VmHWM:\t 5119000 kB\n");
  EXPECT_EQ(read().peak, 5'120'000LL * 1024);
}

TEST_F(FakeProcess, ThatIsGoneIsAnError) {
  EXPECT_THROW(read(), std::runtime_error);
  write("42/smaps_rollup", "");
  write("42/status", "Name:\tstbench\nState:\tZ (zombie)\n");
  EXPECT_THROW(read(), std::runtime_error);
}

TEST_F(FakeProcess, IsCountedAmongTheKilledOnes) {
  EXPECT_EQ(out_of_memory_kills(SystemFiles(folder())), 0);
  write("vmstat", "oom_kill_disable 9\noom_kill 3\nnuma_hit 5\n");
  EXPECT_EQ(out_of_memory_kills(SystemFiles(folder())), 3);
}

TEST(ProcessMemoryTest, GrowsByWhatIsTouchedAndShrinksWithoutTheBytes) {
  constexpr std::int64_t bytes = 64 << 20, noise = 4 << 20;
  const SystemFiles files;
  const auto before = read_process_memory(files, ::getpid());
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_LT(read_process_memory(files, ::getpid()).resident, before.resident + noise);
  std::memset(memory, 1, bytes / 2);
  const auto half = read_process_memory(files, ::getpid());
  EXPECT_NEAR(half.resident - before.resident, bytes / 2, noise);
  std::memset(memory, 1, bytes);
  EXPECT_NEAR(read_process_memory(files, ::getpid()).resident - before.resident, bytes, noise);
  ::munmap(memory, bytes);
  const auto after = read_process_memory(files, ::getpid());
  EXPECT_LT(after.resident, before.resident + noise);
  EXPECT_GE(after.peak, before.resident + bytes - noise);
}

TEST(ProcessMemoryTest, PeakBeginsAnewWhereTheKernelLetsIt) {
  if (!reset_peak(::getpid())) GTEST_SKIP() << "this kernel does not let /proc/PID/clear_refs be written";
  constexpr std::int64_t bytes = 64 << 20;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, bytes);
  ::munmap(memory, bytes);
  const SystemFiles files;
  const auto high = read_process_memory(files, ::getpid());
  ASSERT_TRUE(reset_peak(::getpid()));
  EXPECT_LT(read_process_memory(files, ::getpid()).peak, *high.peak - bytes / 2);
}

}  // namespace
}  // namespace stbench::harness
