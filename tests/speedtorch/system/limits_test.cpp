#include "speedtorch/system/limits.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using test::in_child;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t MiB = std::int64_t{1} << 20;

/// A machine described by files: 1000 kB of memory, and no limits.
class DescribedMachine : public testing::Test {
 protected:
  void SetUp() override { write_memory(500, 0); }
  void write_memory(int available_kb, int swap_kb, const std::string& more = "") const {
    folder_.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: " + std::to_string(available_kb) +
                                      " kB\nSwapFree: " + std::to_string(swap_kb) + " kB\n" + more);
  }
  [[nodiscard]] std::string refusal(std::int64_t bytes, MemoryUse use = MemoryUse::anonymous) const {
    try {
      require_memory("test memory", bytes, use, SystemFiles(folder_.path()));
    } catch (const LimitError& error) {
      EXPECT_EQ(error.asked(), bytes);
      EXPECT_EQ(error.what(), "cannot allocate " + std::to_string(bytes) +
                                  " bytes of test memory: " + std::to_string(error.free()) +
                                  " bytes are free; the limit is " + error.limit());
      return std::to_string(error.free()) + " " + error.limit();
    }
    return "none";
  }

  TemporaryFolder folder_;
};

TEST_F(DescribedMachine, GivesItsMemoryAndNoMore) {
  EXPECT_EQ(refusal(500 * 1024), "none");
  EXPECT_EQ(refusal(500 * 1024 + 1), "512000 the machine's memory");
}

TEST_F(DescribedMachine, GivesSwapToPagesThatMayBeSwapped) {
  write_memory(500, 200);
  EXPECT_EQ(refusal(700 * 1024), "none");
  EXPECT_EQ(refusal(700 * 1024 + 1), "716800 the machine's memory and swap");
  EXPECT_EQ(refusal(700 * 1024 + 1, MemoryUse::shared), "716800 the machine's memory and swap");
  EXPECT_EQ(refusal(500 * 1024 + 1, MemoryUse::locked), "512000 the machine's memory");
  EXPECT_EQ(refusal(500 * 1024 + 1, MemoryUse::resident), "512000 the machine's memory");
}

TEST_F(DescribedMachine, MapsFilesThatAreLargerThanItsMemory) {
  EXPECT_EQ(refusal(std::int64_t{1} << 40, MemoryUse::file), "none");
}

TEST_F(DescribedMachine, PromisesNoMoreThanItsCommitLimitInModeTwoOnly) {
  write_memory(500, 0, "CommitLimit: 300 kB\nCommitted_AS: 100 kB\n");
  for (const char* mode : {"0\n", "1\n"}) {
    folder_.write("proc/sys/vm/overcommit_memory", mode);
    EXPECT_EQ(refusal(300 * 1024), "none");
  }
  folder_.write("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_EQ(refusal(200 * 1024), "none");
  EXPECT_EQ(refusal(200 * 1024 + 1), "204800 CommitLimit (vm.overcommit_memory is 2)");
  EXPECT_EQ(refusal(200 * 1024 + 1, MemoryUse::resident), "none");  // it was promised when it was mapped
}

TEST_F(DescribedMachine, GivesWhatTheControlGroupOfVersion2Leaves) {
  folder_.write("proc/self/cgroup", "0::/a\n");
  folder_.write("sys/fs/cgroup/a/memory.max", "300000\n");
  folder_.write("sys/fs/cgroup/a/memory.current", "200000\n");
  folder_.write("sys/fs/cgroup/a/memory.stat", "anon 1\nactive_file 20000\ninactive_file 30000\n");
  EXPECT_EQ(refusal(150'000), "none");  // the kernel can reclaim the files' pages
  EXPECT_THAT(refusal(150'001), StartsWith("150000 the control group's memory"));
  write_memory(500, 200);
  folder_.write("sys/fs/cgroup/a/memory.swap.max", "40000\n");
  folder_.write("sys/fs/cgroup/a/memory.swap.current", "10000\n");
  EXPECT_EQ(refusal(180'000), "none");
  EXPECT_THAT(refusal(180'001), StartsWith("180000 the control group's memory"));
  EXPECT_THAT(refusal(150'001, MemoryUse::locked), StartsWith("150000 the control group's memory"));
}

TEST_F(DescribedMachine, GivesWhatTheControlGroupOfVersion1Leaves) {
  write_memory(500, 200);
  folder_.write("proc/self/cgroup", "4:memory:/a\n");
  const std::string group = "sys/fs/cgroup/memory/a/memory.";
  folder_.write(group + "limit_in_bytes", "300000\n");
  folder_.write(group + "usage_in_bytes", "200000\n");
  folder_.write(group + "stat", "total_inactive_file 50000\n");
  folder_.write(group + "memsw.limit_in_bytes", "360000\n");
  folder_.write(group + "memsw.usage_in_bytes", "210000\n");
  EXPECT_EQ(refusal(200'000), "none");  // 150000 of memory, 50000 of swap
  EXPECT_THAT(refusal(200'001), StartsWith("200000 the control group's memory"));
}

TEST_F(DescribedMachine, LimitsNothingIfItReportsNothing) {
  folder_.write("proc/meminfo", "");
  EXPECT_EQ(refusal(std::int64_t{1} << 50), "none");
}

void set_limit(__rlimit_resource resource, std::int64_t bytes) {
  const rlimit limit{static_cast<rlim_t>(bytes), RLIM_INFINITY};
  if (::setrlimit(resource, &limit) != 0) throw std::runtime_error("setrlimit");
}

bool can_map(std::int64_t bytes, int protection) {
  void* mapping = ::mmap(nullptr, static_cast<std::size_t>(bytes), protection,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  ::munmap(mapping, static_cast<std::size_t>(bytes));
  return true;
}

/// Sets the limit to the process's own use plus 64 MiB: mmap() must give what is reported as free, and no
/// more.
std::string free_below(__rlimit_resource resource, const char* used, MemoryUse use, int protection) {
  return in_child([=] {
    set_limit(resource, *SystemFiles().bytes("/proc/self/status", used) + 64 * MiB);
    const auto free = memory_limits(use).front().free;
    require_memory("test memory", free - MiB, use);
    const bool as_said = can_map(free - MiB, protection) && !can_map(free + MiB, protection);
    try {
      require_memory("test memory", 65 * MiB, use);
    } catch (const LimitError& error) {
      return (as_said ? "true: " : "false: ") + std::string(error.what());
    }
    return std::string("not refused");
  });
}

TEST(Limits, TheAddressSpacesLimitIsWhatMmapGives) {
  for (const auto use : {MemoryUse::anonymous, MemoryUse::locked, MemoryUse::shared, MemoryUse::file})
    EXPECT_THAT(free_below(RLIMIT_AS, "VmSize", use, PROT_READ),
                AllOf(StartsWith("true: "), HasSubstr("68157440 bytes"), HasSubstr("RLIMIT_AS")));
}

TEST(Limits, TheLimitOfPrivateDataIsWhatMmapGives) {
  for (const auto use : {MemoryUse::anonymous, MemoryUse::locked})
    EXPECT_THAT(free_below(RLIMIT_DATA, "VmData", use, PROT_READ | PROT_WRITE),
                AllOf(StartsWith("true: "), HasSubstr("68157440 bytes"), HasSubstr("RLIMIT_DATA")));
  EXPECT_EQ(in_child([] {
              set_limit(RLIMIT_DATA, *SystemFiles().bytes("/proc/self/status", "VmData") + MiB);
              require_memory("test memory", 64 * MiB, MemoryUse::shared);
              return std::string("shared memory is no such data");
            }),
            "shared memory is no such data");
}

/// By a system call, because AddressSanitizer's mlock() does nothing.
bool lock(void* pages, std::int64_t bytes) { return ::syscall(SYS_mlock, pages, bytes) == 0; }

TEST(Limits, TheLimitOfLockedMemoryIsWhatMlockGives) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can take the right to lock away again";
  EXPECT_TRUE(locked_memory_limit().empty());
  EXPECT_EQ(in_child([] {
              if (::setresuid(65534, 65534, 65534) != 0) throw std::runtime_error("setresuid");
              const rlimit limit{static_cast<rlim_t>(MiB), static_cast<rlim_t>(MiB)};
              ::setrlimit(RLIMIT_MEMLOCK, &limit);
              const auto limits = locked_memory_limit();
              void* pages =
                  ::mmap(nullptr, 2 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              const bool fits = lock(pages, MiB);
              const auto full = locked_memory_limit();
              return limits.at(0).name + " " + std::to_string(limits.at(0).free) +
                     (fits ? " fits" : " does not fit") +
                     (lock(pages, 2 * MiB) ? ", twice too, then " : ", twice does not, then ") +
                     std::to_string(full.at(0).free);
            }),
            "RLIMIT_MEMLOCK (ulimit -l) 1048576 fits, twice does not, then 0");
}

TEST(Limits, FileSizesBeyondTheLimitAreRefusedWithoutTheSignal) {
  const TemporaryFolder folder;
  const auto refused = in_child([&] {
    set_limit(RLIMIT_FSIZE, MiB);
    require_disk("mapped memory", folder.path().string(), MiB);
    require_disk("mapped memory", folder.path().string(), MiB + 1);
    return std::string("not refused");
  });
  EXPECT_THAT(refused, AllOf(HasSubstr("1048577 bytes of mapped memory"), HasSubstr("1048576 bytes are free"),
                             HasSubstr("RLIMIT_FSIZE (ulimit -f)")));
}

TEST(Limits, ADisksLimitIsItsFreeBytes) {
  const TemporaryFolder folder;
  require_disk("mapped memory", folder.path().string(), 4096);
  EXPECT_THROW(require_disk("mapped memory", folder.path().string(), std::int64_t{1} << 60), LimitError);
  require_disk("mapped memory", "/no/such/folder",
               4096);  // the call that creates the file says why it cannot
}

TEST(Limits, ASmallDisksLimitIsFound) {
  const TemporaryFolder folder;
  const auto answer = in_child([&] {
    const std::string path = folder.path().string();
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") != 0)
      return std::string("skip");
    std::ofstream(path + "/half") << std::string(MiB / 2, 'x');
    require_disk("mapped memory", path, MiB / 2);
    require_disk("mapped memory", path, MiB / 2 + 1);
    return std::string("not refused");
  });
  if (answer == "skip") GTEST_SKIP() << "no file system can be mounted here (that takes root)";
  EXPECT_THAT(answer,
              AllOf(HasSubstr("524288 bytes are free"), HasSubstr("the space on the disk of its folder")));
}

/// A control group below the process's own, removed after the test; none if it cannot be created.
class OwnGroup {
 public:
  OwnGroup() {
    for (const std::string& line : SystemFiles().lines("/proc/self/cgroup")) {
      const bool version2 = line.starts_with("0::");
      const auto at = line.find(":memory:");
      if (!version2 && at == std::string::npos) continue;
      const std::string mount = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
      const auto path =
          mount + line.substr(version2 ? 3 : at + 8) + "/stbench-test-" + std::to_string(::getpid());
      const auto limit = path + (version2 ? "/memory.max" : "/memory.limit_in_bytes");
      std::error_code error;
      if (!std::filesystem::create_directory(path, error)) continue;
      std::ofstream(limit) << 256 * MiB;
      if (SystemFiles().number(limit) == 256 * MiB) {
        path_ = path;
        return;
      }
      std::filesystem::remove(path, error);
    }
  }
  ~OwnGroup() {
    std::error_code ignored;
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  OwnGroup(const OwnGroup&) = delete;
  OwnGroup& operator=(const OwnGroup&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Limits, ARealControlGroupsLimitIsFound) {
  const OwnGroup group;
  if (group.path().empty()) GTEST_SKIP() << "no control group with a limit on memory can be made here";
  const auto answer = in_child([&] {
    std::ofstream(group.path() + "/cgroup.procs") << ::getpid();
    require_memory("pageable memory", 128 * MiB, MemoryUse::anonymous);
    require_memory("pageable memory", 257 * MiB, MemoryUse::anonymous);
    return std::string("not refused");
  });
  EXPECT_THAT(answer,
              AllOf(HasSubstr("269484032 bytes of pageable"), HasSubstr("the control group's memory")));
}

}  // namespace
}  // namespace speedtorch
