#include "speedtorch/system/page_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "speedtorch/memory/memory.h"
#include "speedtorch/system/pages.h"
#include "tests/speedtorch/files/evicted.h"

namespace speedtorch {
namespace {

constexpr std::int64_t cached_bytes = (std::int64_t{8} << 20) + 4096;

MappedBytes file_of(const Memory& memory) { return {memory.data(), memory.bytes(), memory.file_fd()}; }

std::byte cached_byte(std::int64_t at) { return static_cast<std::byte>(at * 31 >> 5 & 0xFF); }

/// Reads a byte of each page.
void touch(const std::byte* bytes) {
  const volatile std::byte* data = bytes;
  for (std::int64_t at = 0; at < cached_bytes; at += 4096) static_cast<void>(data[at]);
}

/// A file on a disk with some content.
std::shared_ptr<Memory> written_file() {
  auto memory = allocate(Placement::mapped, cached_bytes);
  for (std::int64_t at = 0; at < cached_bytes; ++at) memory->data()[at] = cached_byte(at);
  return memory;
}

TEST(PageCache, AnEvictedFileIsNotInMemoryAndKeepsWhatWasWritten) {
  const auto memory = written_file();
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
  EXPECT_EQ(test::evicted(*memory), 0);
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < cached_bytes; ++at) wrong += memory->data()[at] != cached_byte(at);
  EXPECT_EQ(wrong, 0);
}

TEST(PageCache, AFileThatWasMadeResidentIsInMemoryAsAWhole) {
  const auto memory = written_file();
  evict(file_of(*memory));
  make_resident(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
}

/// A second mapping of the file with each page touched.
class OtherMapping {
 public:
  OtherMapping(int fd, int flags)
      : data_(static_cast<std::byte*>(
            ::mmap(nullptr, static_cast<std::size_t>(cached_bytes), PROT_READ | PROT_WRITE, flags, fd, 0))) {
    if (data_ == MAP_FAILED) throw std::runtime_error("mmap");
    touch(data_);
  }
  ~OtherMapping() { ::munmap(data_, static_cast<std::size_t>(cached_bytes)); }
  OtherMapping(const OtherMapping&) = delete;
  OtherMapping& operator=(const OtherMapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

/// FileRows has such a mapping: its pages stayed, and cold cases failed.
TEST(PageCache, PagesThatAnotherMappingHasTouchedAreEvicted) {
  const auto memory = written_file();
  const OtherMapping other(memory->file_fd(), MAP_SHARED);
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
  EXPECT_EQ(test::evicted(*memory), 0);
  EXPECT_EQ(other.data()[cached_bytes - 1], cached_byte(cached_bytes - 1));
}

TEST(PageCache, WritesOfAPrivateMappingSurvive) {
  const auto memory = written_file();
  const OtherMapping other(memory->file_fd(), MAP_PRIVATE);
  other.data()[4096] = std::byte{0x77};
  evict(file_of(*memory));
  EXPECT_EQ(other.data()[4096], std::byte{0x77});
  EXPECT_EQ(memory->data()[4096], cached_byte(4096));
}

TEST(PageCache, PagesThatAnotherProcessHasMappedStay) {
  const auto memory = written_file();
  std::array<int, 2> touched{}, ended{};
  ASSERT_EQ(::pipe(touched.data()) + ::pipe(ended.data()), 0);
  const auto child = ::fork();
  if (child == 0) {  // only system calls, because this program has threads
    touch(memory->data());
    char byte = 0;
    ::close(ended[1]);
    ::_exit(::write(touched[1], &byte, 1) == 1 && ::read(ended[0], &byte, 1) == 0 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(touched[0], &byte, 1), 1);
  evict(file_of(*memory));
  EXPECT_EQ(resident_fraction(memory->data(), cached_bytes), 1);
  for (const int fd : {touched[0], touched[1], ended[0], ended[1]}) ::close(fd);
  int status = 1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(test::evicted(*memory), 0);
}

}  // namespace
}  // namespace speedtorch
