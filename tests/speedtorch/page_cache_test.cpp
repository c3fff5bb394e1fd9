#include "speedtorch/page_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "speedtorch/memory.h"
#include "speedtorch/pages.h"

namespace speedtorch {
namespace {

constexpr std::int64_t cached_bytes = (std::int64_t{8} << 20) + 4096;

MappedBytes file_of(const Memory& memory) { return {memory.data(), memory.bytes(), memory.file_fd()}; }

/// A file on a disk with something in it.
std::shared_ptr<Memory> written_file() {
  auto memory = allocate(Placement::mapped, cached_bytes);
  for (std::int64_t at = 0; at < cached_bytes; ++at)
    memory->data()[at] = static_cast<std::byte>(at * 31 >> 5);
  return memory;
}

TEST(PageCache, AnEvictedFileIsNotInMemoryAndKeepsWhatWasWritten) {
  const auto memory = written_file();
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
  evict(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 0);
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < cached_bytes; ++at)
    wrong += memory->data()[at] != static_cast<std::byte>(at * 31 >> 5);
  EXPECT_EQ(wrong, 0);
}

TEST(PageCache, AFileThatWasMadeResidentIsInMemoryAsAWhole) {
  const auto memory = written_file();
  evict(file_of(*memory));
  make_resident(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
}

TEST(PageCache, PagesThatAnotherMappingHasTouchedStay) {
  const auto memory = written_file();
  auto* other = static_cast<volatile std::byte*>(
      ::mmap(nullptr, static_cast<std::size_t>(cached_bytes), PROT_READ, MAP_SHARED, memory->file_fd(), 0));
  ASSERT_NE(other, MAP_FAILED);
  for (std::int64_t at = 0; at < cached_bytes; at += 4096) static_cast<void>(other[at]);
  evict(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
  ::munmap(const_cast<std::byte*>(other), static_cast<std::size_t>(cached_bytes));
  evict(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 0);
}

}  // namespace
}  // namespace speedtorch
