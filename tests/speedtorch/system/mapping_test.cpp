#include "speedtorch/system/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "speedtorch/system/pages.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/process_memory.h"

namespace speedtorch {
namespace {

constexpr std::int64_t huge = std::int64_t{2} << 20;
const std::int64_t page = ::sysconf(_SC_PAGESIZE);

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + page - 1) / page * page; }

/// Sizes around a page and around huge pages.
const std::int64_t sizes_in_bytes[] = {
    1, 100, page, page + 1, huge - 1, huge, huge + 1, 3 * huge + page + 5, 32 * huge - 7};

TEST(AlignedMapping, TakesTheBytesToWholePagesAndOnePageOfAddresses) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  for (const auto bytes : sizes_in_bytes) {
    const auto before = test::mapped_bytes();
    const AlignedMapping mapping("test", bytes, PROT_READ | PROT_WRITE);
    EXPECT_EQ(test::mapped_bytes() - before, whole_pages(bytes) + page) << bytes;
  }
}

TEST(AlignedMapping, HasNoMoreInMemoryThanItsPages) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  for (const auto placement : {Placement::pageable, Placement::hugepage}) {
    for (const auto bytes : sizes_in_bytes) {
      (void)test::resident_bytes();  // makes its own pages resident first
      const AlignedMapping mapping("test", bytes, PROT_READ | PROT_WRITE);
      advise_pages(placement, mapping.data(), bytes);
      const auto before = test::resident_bytes();
      std::memset(mapping.data(), 1, static_cast<std::size_t>(bytes));
      const auto taken = test::resident_bytes() - before;
      EXPECT_GE(taken, whole_pages(bytes)) << to_string(placement) << ' ' << bytes;
      EXPECT_LE(taken, whole_pages(bytes) + 4 * page)
          << to_string(placement) << ' ' << bytes;  // the test's own
    }
  }
}

TEST(AlignedMapping, BeginsAtAHugePageWhereOneFits) {
  for (const auto bytes : {huge, huge + 1, 32 * huge - 7}) {
    const AlignedMapping mapping("test", bytes, PROT_READ | PROT_WRITE);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % huge, 0U) << bytes;
  }
}

TEST(AlignedMapping, EndsTheProcessThatWritesBehindIt) {
  for (const auto bytes : {page, 2 * huge}) {
    const AlignedMapping mapping("test", bytes, PROT_READ | PROT_WRITE);
    const auto answer = test::in_child([&] {
      mapping.data()[bytes - 1] = std::byte{1};
      volatile std::byte& behind = mapping.data()[bytes];
      behind = std::byte{1};
      return std::string("nothing happened");
    });
    EXPECT_EQ(answer.find("nothing happened"), std::string::npos);
  }
}

TEST(Prefault, GivesEveryPageAndKeepsWhatIsThere) {
  const std::int64_t bytes = 100 * (std::int64_t{1} << 20) + 5;
  const AlignedMapping mapping("test", bytes, PROT_READ | PROT_WRITE);
  advise_pages(Placement::pageable, mapping.data(), bytes);
  mapping.data()[bytes - 1] = std::byte{7};
  prefault(mapping.data(), bytes);
  EXPECT_DOUBLE_EQ(resident_fraction(mapping.data(), bytes), 1.0);
  EXPECT_EQ(mapping.data()[bytes - 1], std::byte{7});
  EXPECT_EQ(mapping.data()[0], std::byte{0});
}

}  // namespace
}  // namespace speedtorch
