#include "speedtorch/memory/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/system/pages.h"

namespace speedtorch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t shared_bytes = (std::int64_t{8} << 20) + 5;

TEST(SharedMemory, AnotherMappingSeesTheSameBytes) {
  for (const auto placement : {Placement::pageable, Placement::hugepage}) {
    const auto memory = allocate_shared(placement, shared_bytes);
    EXPECT_EQ(memory->placement(), placement);
    EXPECT_EQ(memory->bytes(), shared_bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % (2U << 20), 0U);
    std::memset(memory->data(), 7, static_cast<std::size_t>(shared_bytes));
    void* other = ::mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->shared_fd(), 0);
    ASSERT_NE(other, MAP_FAILED);
    EXPECT_EQ(static_cast<const char*>(other)[shared_bytes - 1], 7);
    static_cast<char*>(other)[shared_bytes - 2] = 9;
    EXPECT_EQ(std::to_integer<int>(memory->data()[shared_bytes - 2]), 9);
    ::munmap(other, shared_bytes);
  }
}

TEST(SharedMemory, AnotherProcessWritesIt) {
  const auto memory = allocate_shared(Placement::pageable, shared_bytes);
  const pid_t child = ::fork();
  if (child == 0) {
    memory->data()[shared_bytes - 1] = std::byte{42};
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(std::to_integer<int>(memory->data()[shared_bytes - 1]), 42);
}

TEST(SharedMemory, ItsDescriptorClosesWithItsLastTensor) {
  auto memory = allocate_shared(Placement::pageable, 4096);
  const int fd = memory->shared_fd();
  auto tensor = memory->tensor({1024}, at::kFloat);
  memory.reset();
  EXPECT_EQ(::lseek(fd, 0, SEEK_END), 4096);
  tensor.reset();
  EXPECT_EQ(::lseek(fd, 0, SEEK_END), -1);
}

TEST(SharedMemory, PrivateMemoryHasNoDescriptor) {
  EXPECT_EQ(allocate(Placement::pageable, 10)->shared_fd(), -1);
  EXPECT_EQ(allocate(Placement::libtorch, 10)->shared_fd(), -1);
}

TEST(SharedMemory, PagesAreReportedAsTheyAre) {
  const auto small = allocate_shared(Placement::pageable, shared_bytes);
  std::memset(small->data(), 1, static_cast<std::size_t>(shared_bytes));
  EXPECT_EQ(pages_got(small->data(), shared_bytes), "4KiB");
  const auto asked = allocate_shared(Placement::hugepage, shared_bytes);
  std::memset(asked->data(), 1, static_cast<std::size_t>(shared_bytes));
  EXPECT_EQ(pages_got(asked->data(), shared_bytes).substr(0, 4),
            huge_shared_pages_refusal().empty() ? "2MiB" : "4KiB");
}

TEST(SharedMemory, RefusalsSayWhy) {
  EXPECT_THAT([] { allocate_shared(Placement::pageable, 0); },
              ThrowsMessage<MemoryError>(HasSubstr("at least 1")));
  EXPECT_THAT([] { allocate_shared(Placement::pageable, std::int64_t{1} << 62); },
              ThrowsMessage<MemoryError>(HasSubstr("4611686018427387904 bytes of shared pageable")));
  EXPECT_THAT([] { allocate_shared(Placement::mapped, 10); },
              ThrowsMessage<PlacementError>(HasSubstr("mapped")));
}

TEST(SharedMemory, TheKernelsSettingDecidesOnHugePages) {
  const auto path = std::filesystem::temp_directory_path() / ("shmem_enabled." + std::to_string(::getpid()));
  const auto refusal = [&](const char* setting) {
    std::ofstream(path) << setting << '\n';
    return huge_shared_pages_refusal(path);
  };
  EXPECT_EQ(refusal("always within_size [advise] never deny force"), "");
  EXPECT_EQ(refusal("[always] within_size advise never deny force"), "");
  EXPECT_THAT(refusal("always within_size advise [never] deny force"),
              HasSubstr("(never); as root: echo advise >"));
  EXPECT_THAT(refusal("always within_size advise never [deny] force"), HasSubstr("(deny)"));
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("no huge pages"), HasSubstr("pageable memory can be shared")));
  std::filesystem::remove(path);
  EXPECT_THAT(huge_shared_pages_refusal(path), HasSubstr("no huge pages"));
}

}  // namespace
}  // namespace speedtorch
