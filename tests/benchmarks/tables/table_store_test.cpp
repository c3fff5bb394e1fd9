#include "benchmarks/tables/table_store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "harness/fill.h"

namespace stbench::table_store_test {
namespace {

using speedtorch::Placement;

constexpr std::uint64_t seed = 7;
constexpr std::int64_t bytes = 100'000;  // no whole number of pages

std::vector<reports::Identity> user(const std::string& method) {
  reports::Identity id;
  id.method = method;
  return {id};
}

class TableStoreTest : public testing::Test {
 protected:
  std::shared_ptr<speedtorch::Memory> used_by(const std::string& method,
                                              Placement placement = Placement::pageable) {
    auto memory = store_.filled(placement, bytes, at::kCPU);
    store_.use(*memory, user(method));
    return memory;
  }

  TableStore store_{seed};
};

TEST_F(TableStoreTest, CorruptionFailsEveryCaseThatUsedTheTable) {
  used_by("before");
  store_.check_all();
  EXPECT_TRUE(store_.take_damage().empty());
  const auto memory = used_by("first");
  used_by("second");
  memory->data()[50'000] ^= std::byte{1};
  store_.check_all();
  const auto damage = store_.take_damage();
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].check.mismatches, 1);
  ASSERT_EQ(damage[0].users.size(), 2U);
  EXPECT_EQ(damage[0].users[0].method, "first");
  EXPECT_EQ(damage[0].users[1].method, "second");
  EXPECT_TRUE(store_.take_damage().empty()) << "it is told once";
}

TEST(LargeFileTest, CheckSamplesPagesOfAFileLargerThanMemory) {
  TableStore store(seed, /*most_whole=*/0);
  constexpr std::int64_t pages = 40;
  auto memory = store.filled(Placement::mapped, pages * 4096, at::kCPU);
  for (const std::int64_t byte : {std::int64_t{0}, std::int64_t{17 * 4096 + 5}, pages * 4096 - 1}) {
    store.use(*memory, user("one"));
    memory->data()[byte] ^= std::byte{1};
    store.check_all();
    EXPECT_EQ(store.take_damage().size(), 1U) << byte;
    memory->data()[byte] ^= std::byte{1};
  }
  store.use(*memory, user("one"));
  store.check_all();
  EXPECT_TRUE(store.take_damage().empty());
}

TEST_F(TableStoreTest, CheckCoversEveryByte) {
  for (const std::int64_t byte : {std::int64_t{0}, std::int64_t{4095}, std::int64_t{98'303}, bytes - 1}) {
    const auto memory = used_by("one");
    memory->data()[byte] ^= std::byte{0x80};
    store_.check_all();
    EXPECT_EQ(store_.take_damage().size(), 1U) << byte;
    memory->data()[byte] ^= std::byte{0x80};
  }
}

TEST_F(TableStoreTest, EveryReleaseChecksTheTableFirst) {
  used_by("kept", Placement::hugepage);
  used_by("freed")->data()[5] ^= std::byte{1};
  store_.keep_only(Placement::hugepage);
  ASSERT_EQ(store_.take_damage().size(), 1U);

  used_by("replaced")->data()[5] ^= std::byte{1};
  store_.filled(Placement::pageable, 2 * bytes, at::kCPU);
  ASSERT_EQ(store_.take_damage().size(), 1U);

  used_by("cleared")->data()[5] ^= std::byte{1};
  store_.clear();
  EXPECT_EQ(store_.take_damage().size(), 1U) << "the kept one is as it was filled";
}

TEST_F(TableStoreTest, SharedMemoryReplacesPrivateMemoryAfterACheck) {
  used_by("private")->data()[5] ^= std::byte{1};
  const auto shared = store_.filled(Placement::pageable, bytes, at::kCPU, /*shared=*/true);
  EXPECT_GE(shared->shared_fd(), 0);
  EXPECT_EQ(harness::first_mismatch(shared->data(), 0, bytes, seed), -1);
  ASSERT_EQ(store_.take_damage().size(), 1U);
  EXPECT_EQ(store_.filled(Placement::pageable, bytes, at::kCPU, /*shared=*/true), shared);

  store_.use(*shared, user("shared"));
  shared->data()[5] ^= std::byte{1};
  EXPECT_LT(store_.filled(Placement::pageable, bytes, at::kCPU)->shared_fd(), 0);
  const auto damage = store_.take_damage();
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].users[0].method, "shared");
}

TEST_F(TableStoreTest, WholeTableIsNotCheckedTwice) {
  const auto memory = used_by("checked");
  store_.checked(*memory, bytes, {25, 0, {}});
  memory->data()[5] ^= std::byte{1};
  store_.check_all();
  EXPECT_TRUE(store_.take_damage().empty());

  used_by("of a smaller shape");
  store_.checked(*memory, bytes / 2, {12, 0, {}});
  store_.check_all();
  EXPECT_EQ(store_.take_damage().size(), 1U) << "the rest of the block was not looked at";
}

TEST_F(TableStoreTest, CorruptionFailsEarlierUsersToo) {
  used_by("before");
  const auto memory = used_by("finder");
  store_.checked(*memory, bytes, {25, 3, "row 5"});
  const auto damage = store_.take_damage();
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].users.size(), 2U);
  EXPECT_EQ(damage[0].check.first, "row 5");
}

TEST_F(TableStoreTest, OnlyLargeTablesAreCheckedLate) {
  EXPECT_TRUE(store_.is_small(*store_.filled(Placement::pageable, bytes, at::kCPU)));
}

}  // namespace
}  // namespace stbench::table_store_test
