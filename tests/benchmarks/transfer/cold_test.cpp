#include "benchmarks/transfer/cold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "speedtorch/system/pages.h"

namespace stbench {
namespace {

using speedtorch::Placement;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t bytes = std::int64_t{4} << 20;

std::shared_ptr<speedtorch::Memory> table(Placement placement, const std::string& folder = {}) {
  auto memory = speedtorch::allocate(placement, bytes, at::kCPU, folder);
  std::memset(memory->data(), 0x5A, bytes);
  return memory;
}

Cold cold_of(const std::shared_ptr<speedtorch::Memory>& memory) {
  return {memory, at::kCPU, std::make_shared<CacheWalk>(1 << 20)};
}

TEST(Cold, EvictRemovesAMappedTableFromMemoryAndMakeWarmReadsIt) {
  const auto memory = table(Placement::mapped);
  cold_of(memory).evict();
  EXPECT_EQ(speedtorch::resident_fraction(memory->data(), bytes), 0);
  EXPECT_EQ(memory->data()[bytes - 1], std::byte{0x5A});
  make_warm(*memory);
  EXPECT_EQ(speedtorch::resident_fraction(memory->data(), bytes), 1);
}

/// The planted fault: an eviction that does nothing.
TEST(Cold, FailedEvictionIsDetectedAndNamesTheCure) {
  const auto memory = table(Placement::mapped);
  ASSERT_EQ(::syscall(SYS_mlock, memory->data(), bytes),
            0);  // past AddressSanitizer, whose mlock() does nothing
  EXPECT_THAT([&] { cold_of(memory).evict(); },
              ThrowsMessage<CannotEvict>(AllOf(HasSubstr("100 % of it stays"), HasSubstr("set TMPDIR"))));
  ::syscall(SYS_munlock, memory->data(), bytes);
  cold_of(memory).evict();
}

/// As pages do that the kernel is moving.
TEST(Cold, EvictWaitsForPagesThatStayForAWhile) {
  const auto memory = table(Placement::mapped);
  ASSERT_EQ(::syscall(SYS_mlock, memory->data(), bytes), 0);
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::syscall(SYS_munlock, memory->data(), bytes);
  });
  EXPECT_NO_THROW(cold_of(memory).evict());
  release.join();
  EXPECT_EQ(speedtorch::resident_fraction(memory->data(), bytes), 0);
}

TEST(Cold, EvictThrowsForAFileInMemory) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const auto memory = table(Placement::mapped, "/dev/shm");
  EXPECT_THAT([&] { cold_of(memory).evict(); }, ThrowsMessage<CannotEvict>(HasSubstr("100 % of it stays")));
}

TEST(Cold, EvictKeepsTheBytesOfOtherMemory) {
  const auto memory = table(Placement::pageable);
  cold_of(memory).evict();
  make_warm(*memory);
  EXPECT_EQ(memory->data()[12345], std::byte{0x5A});
}

}  // namespace
}  // namespace stbench
