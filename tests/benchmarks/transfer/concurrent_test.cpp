#include "benchmarks/transfer/concurrent.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index_select.h>
#include <gtest/gtest.h>

#include "benchmarks/tables/table_store.h"
#include "harness/fill.h"

namespace stbench::concurrent_test {
namespace {

constexpr std::uint64_t seed = 42;
constexpr std::int64_t rows = 300, batch = 41;

TransferCase bidirectional_cell() {
  return {.direction = Direction::both,
          .placement = speedtorch::Placement::pageable,
          .distribution = "unique",
          .rows = rows,
          .dim = 5,
          .batch = batch,
          .cores = 1};
}

/// Set s names rows s, s + 7, s + 14 ...: distinct ones, since 41 sevens are fewer than the rows.
std::shared_ptr<const IndexSets> every_seventh() {
  auto sets = std::make_shared<IndexSets>();
  for (std::size_t s = 0; s < sets->size(); ++s) {
    for (std::int64_t i = 0; i < batch; ++i)
      (*sets)[s].push_back((static_cast<std::int64_t>(s) + 7 * i) % rows);
  }
  return sets;
}

/// On the host the two halves run one after the other: streams are a GPU's.
class BidirectionalTest : public testing::Test {
 protected:
  /// Checks what a run of the method leaves, as the suite does.
  harness::Check check_of(const Method& method, int set) {
    Bidirectional both(fixture_, method);
    both.poison(set);
    fixture_.prepare_values(method.pattern, set, 0);
    both.run(set);
    return both.verify(set);
  }

  TableStore store_{seed};
  std::shared_ptr<speedtorch::Memory> memory_ =
      store_.filled(speedtorch::Placement::pageable, rows * 20, at::kCPU);
  TransferFixture fixture_{bidirectional_cell(), memory_, every_seventh(), seed};
};

Method by_libtorch() {
  Method method;
  method.name = "by_libtorch", method.role = harness::Role::libtorch;
  method.to = [](Operands& operands, int set) {
    at::index_select_out(operands.model(), operands.table(), 0, operands.index(set));
  };
  method.from = [](Operands& operands, int set) {
    operands.table().index_copy_(0, operands.index(set), operands.values(set));
  };
  return method;
}

TEST_F(BidirectionalTest, SlicesCoverTheBatch) {
  ASSERT_EQ(fixture_.slices.size(), 2U);
  auto& whole = fixture_.operands;
  auto &there = *fixture_.slices.front(), &back = *fixture_.slices.back();
  EXPECT_EQ(there.model().size(0), batch / 2);
  EXPECT_EQ(back.model().size(0), batch - batch / 2);
  for (int set = 0; set < harness::index_sets; ++set) {
    EXPECT_TRUE(at::equal(at::cat({there.index(set), back.index(set)}), whole.index(set)));
    EXPECT_EQ(back.values(set).data_ptr(), whole.values(set)[batch / 2].data_ptr());
  }
  EXPECT_EQ(there.payload_bytes() + back.payload_bytes(), whole.payload_bytes());
}

TEST_F(BidirectionalTest, HonestMethodPassesAndLeavesTheTableUnchanged) {
  for (const int set : {0, 3, 7}) {
    const auto check = check_of(by_libtorch(), set);
    EXPECT_EQ(check.mismatches, 0) << check.first;
    EXPECT_EQ(check.rows, batch / 2 + batch);
  }
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, rows * 20, seed), -1);
}

TEST_F(BidirectionalTest, PiecesOfTheCeilingAreHalvesToo) {
  auto method = by_libtorch();
  method.pattern = Pattern::contiguous;
  method.to = [](Operands& operands, int set) {
    for (auto& piece : operands.pieces(set)) piece.model.copy_(piece.table);
  };
  method.from = [](Operands& operands, int set) {
    for (auto& piece : operands.pieces(set)) piece.table.copy_(piece.values);
  };
  for (int set = 0; set < harness::index_sets; ++set) EXPECT_EQ(check_of(method, set).mismatches, 0) << set;
}

TEST_F(BidirectionalTest, VerifierDetectsSkippedHalf) {
  auto method = by_libtorch();
  method.to = [](Operands&, int) {};
  EXPECT_EQ(check_of(method, 1).mismatches, batch / 2);
  method = by_libtorch();
  method.from = [](Operands&, int) {};
  EXPECT_EQ(check_of(method, 1).mismatches, batch - batch / 2);
  EXPECT_EQ(check_of(by_libtorch(), 1).mismatches, 0) << "what differed was repaired";
}

TEST_F(BidirectionalTest, VerifierDetectsAWriteToRowsThatAreOnlyRead) {
  auto method = by_libtorch();
  const auto honest = method.to;
  method.to = [honest](Operands& operands, int set) {
    honest(operands, set);
    operands.table()[operands.index(set)[3].item<std::int64_t>()].zero_();
  };
  EXPECT_EQ(check_of(method, 2).mismatches, 1);
}

TEST_F(BidirectionalTest, DeliveredResultIsChecked) {
  auto method = by_libtorch();
  method.to = [](Operands& operands, int set) {
    operands.deliver(operands.table().index_select(0, operands.index(set)));
  };
  EXPECT_EQ(check_of(method, 0).mismatches, 0);
  fixture_.forget_results();
  method.to = [](Operands&, int) {};
  EXPECT_EQ(check_of(method, 0).mismatches, batch / 2);
}

}  // namespace
}  // namespace stbench::concurrent_test
