#include "harness/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>

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
  [[nodiscard]] ProcessMemory read() const {
    return read_process_memory(speedtorch::SystemFiles(folder()), 42);
  }

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

TEST_F(FakeProcess, OlderKernelLeavesFieldsEmpty) {
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

TEST_F(FakeProcess, MissingProcessThrows) {
  EXPECT_THROW(static_cast<void>(read()), std::runtime_error);
  write("42/smaps_rollup", "");
  write("42/status", "Name:\tstbench\nState:\tZ (zombie)\n");
  EXPECT_THROW(static_cast<void>(read()), std::runtime_error);
}

TEST_F(FakeProcess, IsCountedAmongTheKilledOnes) {
  EXPECT_EQ(out_of_memory_kills(speedtorch::SystemFiles(folder())), 0);
  write("vmstat", "oom_kill_disable 9\noom_kill 3\nnuma_hit 5\n");
  EXPECT_EQ(out_of_memory_kills(speedtorch::SystemFiles(folder())), 3);
}

/// Pages of this process. The kernel touches them, so that a sanitizer keeps no shadow of them.
class Pages {
 public:
  Pages(std::size_t bytes, bool touched) : bytes_(bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (touched ? MAP_POPULATE : 0);
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::int64_t kBytes = 64 << 20, kNoise = 4 << 20;

ProcessMemory own_memory() { return read_process_memory(speedtorch::SystemFiles(), ::getpid()); }

testing::AssertionResult is_about(std::int64_t found, std::int64_t expected) {
  if (std::abs(found - expected) < kNoise) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << " instead of " << expected;
}

TEST(ProcessMemoryTest, GrowsByWhatIsTouchedAndShrinksWithIt) {
  const auto before = own_memory();
  {
    const Pages untouched(kBytes, false);
    EXPECT_TRUE(is_about(own_memory().resident, before.resident));
    const Pages touched(kBytes / 2, true);
    EXPECT_TRUE(is_about(own_memory().resident, before.resident + kBytes / 2));
  }
  const auto after = own_memory();
  EXPECT_TRUE(is_about(after.resident, before.resident));
  ASSERT_TRUE(after.peak.has_value());
  EXPECT_GE(*after.peak, before.resident + kBytes / 2 - kNoise);
}

TEST(ProcessMemoryTest, PeakBeginsAnewWhereTheKernelLetsIt) {
  if (!reset_peak(::getpid())) GTEST_SKIP() << "this kernel does not let /proc/PID/clear_refs be written";
  { const Pages touched(kBytes, true); }
  const auto high = own_memory();
  ASSERT_TRUE(high.peak.has_value());
  ASSERT_TRUE(reset_peak(::getpid()));
  EXPECT_LT(*own_memory().peak, *high.peak - kBytes / 2);
}

TEST(ProcessMemoryTest, AProcessCanBeTheFirstToEndForMemory) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  EXPECT_TRUE(end_first_for_memory(child));
  EXPECT_EQ(speedtorch::SystemFiles().number("/proc/" + std::to_string(child) + "/oom_score_adj"), 1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(end_first_for_memory(child));
}

}  // namespace
}  // namespace stbench::harness
