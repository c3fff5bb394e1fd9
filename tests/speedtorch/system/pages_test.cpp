#include "speedtorch/system/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"

namespace speedtorch {
namespace {

constexpr std::int64_t pages_bytes = std::int64_t{32} << 20;

std::shared_ptr<Memory> touched(Placement placement) {
  auto memory = allocate(placement, pages_bytes);
  std::memset(memory->data(), 1, static_cast<std::size_t>(pages_bytes));
  return memory;
}

TEST(Pages, PageableMemoryHasSmallPages) {
  const auto memory = touched(Placement::pageable);
  EXPECT_EQ(pages_got(memory->data(), pages_bytes), "4KiB");
  EXPECT_EQ(huge_bytes(memory->data(), pages_bytes), 0);
}

TEST(Pages, MemorySmallerThanAHugePageIsCountedInSmallPages) {
  const auto memory = touched(Placement::hugepage);
  EXPECT_EQ(pages_got(memory->data(), (2 << 20) - 1), "4KiB");
  EXPECT_EQ(huge_bytes(memory->data(), (2 << 20) - 1), 0);
}

TEST(Pages, TheShareOfHugePagesIsOfAllBytes) {
  EXPECT_DOUBLE_EQ(huge_fraction(std::int64_t{2} << 20, std::int64_t{5} << 20), 0.4);
  EXPECT_EQ(huge_fraction(std::int64_t{8} << 20, std::int64_t{5} << 20), 1);  // of mappings that reach beyond
  EXPECT_EQ(huge_fraction(-1, 5), 0);
  EXPECT_EQ(huge_fraction(std::int64_t{0}, 0), 0);
}

TEST(Pages, HugePagesAreReportedWhereTheKernelGivesThem) {
  std::string mode;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), mode);
  if (mode.empty() || mode.find("[never]") != std::string::npos)
    GTEST_SKIP() << "transparent huge pages are off: " << mode;
  const auto memory = touched(Placement::hugepage);
  EXPECT_EQ(pages_got(memory->data(), pages_bytes).substr(0, 4), "2MiB");
  EXPECT_GT(huge_bytes(memory->data(), pages_bytes), pages_bytes / 2);
}

TEST(Pages, AMappedFileIsResidentOnceItWasWritten) {
  const auto memory = touched(Placement::mapped);
  EXPECT_EQ(pages_got(memory->data(), pages_bytes), "4KiB");
  EXPECT_DOUBLE_EQ(resident_fraction(memory->data(), pages_bytes), 1.0);
}

TEST(Pages, UntouchedAnonymousMemoryIsNotResident) {
  const auto memory = allocate(Placement::pageable, pages_bytes);
  EXPECT_DOUBLE_EQ(resident_fraction(memory->data(), pages_bytes), 0.0);
  memory->data()[0] = std::byte{1};
  EXPECT_NEAR(resident_fraction(memory->data(), pages_bytes), 4096.0 / pages_bytes, 1e-9);
}

TEST(Pages, AnUnmappedRangeIsAnError) {
  const auto* nowhere = reinterpret_cast<const std::byte*>(std::uintptr_t{4096});
  EXPECT_THROW((void)resident_fraction(nowhere, 4096), MemoryError);
}

}  // namespace
}  // namespace speedtorch
