#include "benchmarks/transfer/arena.h"

#include <ATen/ops/index_select.h>
#include <gtest/gtest.h>

#include <cstring>

#include "harness/fill.h"

namespace stbench {
namespace {

using speedtorch::Placement;

reports::Identity cell(const std::string& dtype, std::int64_t rows, std::int64_t dim, std::int64_t batch,
                       const std::string& index_dtype = "int64") {
  reports::Identity id;
  id.suite = "transfer", id.direction = "round_trip", id.placement = "pageable", id.device = "cpu",
  id.dtype = dtype;
  id.index_dtype = index_dtype, id.distribution = "unique", id.rows = rows, id.dim = dim, id.batch = batch,
  id.cores = 1;
  return id;
}

/// Set s names rows s, s + 3, s + 6 ...
std::shared_ptr<const IndexSets> every_third(std::int64_t rows, std::int64_t batch) {
  auto sets = std::make_shared<IndexSets>();
  for (std::size_t s = 0; s < sets->size(); ++s) {
    for (std::int64_t i = 0; i < batch; ++i)
      (*sets)[s].push_back((static_cast<std::int64_t>(s) + 3 * i) % rows);
  }
  return sets;
}

constexpr std::uint64_t seed = 42;

/// The named rows and all others.
harness::Check check_table(Arena& arena, Pattern pattern, int set, std::uint64_t generation) {
  auto check = arena.check_named(pattern, set, generation);
  merge(check, arena.check_others(pattern, set));
  return check;
}

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> arena_of(const reports::Identity& id) {
    memory_ = store_.filled(Placement::pageable, shape_of(id).bytes(), at::kCPU);
    return std::make_unique<Arena>(id, memory_, every_third(id.rows, id.batch), seed);
  }

  TableStore store_{seed};
  std::shared_ptr<speedtorch::Memory> memory_;
};

TEST_F(ArenaTest, TheTableHoldsTheFillAtEveryByte) {
  const auto arena = arena_of(cell("int8", 101, 13, 20));
  for (std::int64_t byte = 0; byte < 101 * 13; ++byte) {
    const auto word = harness::word(seed, static_cast<std::uint64_t>(byte) / 8);
    EXPECT_EQ(std::to_integer<unsigned>(memory_->data()[byte]), (word >> (8 * (byte % 8))) & 0xFF) << byte;
  }
}

TEST_F(ArenaTest, AGatherDoneByLibTorchPassesForEveryTypeAndWidth) {
  for (const char* dtype : {"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "bytes"}) {
    for (const std::int64_t dim : {1, 3, 129}) {
      for (const char* index_dtype : {"int64", "int32"}) {
        const auto arena = arena_of(cell(dtype, 300, dim, 40, index_dtype));
        for (const int set : {0, 7}) {
          arena->poison_model();
          EXPECT_EQ(arena->check_model(Pattern::indexed, set, 0).mismatches, 40) << dtype << dim;
          at::index_select_out(arena->model(), arena->table(), 0, arena->index(set));
          const auto check = arena->check_model(Pattern::indexed, set, 0);
          EXPECT_EQ(check.mismatches, 0) << dtype << dim << check.first;
          EXPECT_EQ(check.rows, 40);
        }
      }
    }
  }
}

TEST_F(ArenaTest, BytesRowsAreTheWidestIntegersThatDivideThem) {
  EXPECT_EQ(shape_of(cell("bytes", 1, 512, 1)).dtype, at::kLong);
  EXPECT_EQ(shape_of(cell("bytes", 1, 516, 1)).dtype, at::kInt);
  EXPECT_EQ(shape_of(cell("bytes", 1, 90, 1)).dtype, at::kShort);
  EXPECT_EQ(shape_of(cell("bytes", 1, 129, 1)).dtype, at::kByte);
  for (const std::int64_t width : {512, 516, 90, 129})
    EXPECT_EQ(shape_of(cell("bytes", 1, width, 1)).row_bytes(), width);
}

TEST_F(ArenaTest, AScatterIsCheckedInItsRowsBesideThemAndElsewhere) {
  const auto arena = arena_of(cell("float32", 300, 8, 40));
  arena->prepare_values(Pattern::indexed, 2, 1);
  arena->poison_rows(Pattern::indexed, 2);
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 2, 1).mismatches, 40);
  arena->table().index_copy_(0, arena->index(2), arena->values(2));
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 2, 1).mismatches, 0);
  EXPECT_GT(check_table(*arena, Pattern::indexed, 2, 1).rows,
            250);  // 40 touched ones, their neighbours, a sample of all

  memory_->data()[32 * 1 + 5] ^= std::byte{1};  // row 1 is touched by no operation on set 2
  const auto stray = check_table(*arena, Pattern::indexed, 2, 1);
  EXPECT_GT(stray.mismatches, 0);
  EXPECT_NE(stray.first.find("not named"), std::string::npos);
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 2, 1).mismatches, 0) << "what differed was mended";
}

TEST_F(ArenaTest, UnexplainedDamageIsOfTheLastCheckUnlessACaseIsKnownToBeWrong) {
  for (const bool trusted : {true, false}) {
    const auto arena = arena_of(cell("float32", 300, 8, 40));
    arena->remember({10, 3, "table row 7"});
    EXPECT_EQ(arena->close(trusted, false).mismatches, trusted ? 3 : 0);
    EXPECT_EQ(arena->close(true, true).mismatches, 0) << "and of no later one";
  }
}

TEST_F(ArenaTest, StaleValuesOfAnEarlierEpochDoNotPass) {
  const auto arena = arena_of(cell("float32", 300, 8, 40));
  arena->prepare_values(Pattern::indexed, 0, 1);
  arena->table().index_copy_(0, arena->index(0), arena->values(0));
  arena->prepare_values(Pattern::indexed, 0, 2);
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 0, 1).mismatches, 0);
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 0, 2).mismatches, 40);
}

TEST_F(ArenaTest, ClosingChecksTheWholeTableAndFillsItAgain) {
  const auto id = cell("float32", 1000, 8, 40);
  auto arena = arena_of(id);
  arena->prepare_values(Pattern::indexed, 0, 1);
  arena->table().index_copy_(0, arena->index(0), arena->values(0));
  const auto clean = arena->close(true, true);
  EXPECT_EQ(clean.mismatches, 0) << clean.first;
  EXPECT_EQ(clean.rows, 1000);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);

  memory_->data()[999 * 32 + 31] ^= std::byte{0x80};  // the last byte
  EXPECT_EQ(arena->close(true, true).mismatches, 1);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);
}

TEST_F(ArenaTest, ALargeTableIsCheckedInTheRowsThatWereWrittenAndFilledAgainThere) {
  const auto arena = arena_of(cell("float32", 1000, 8, 40));
  arena->prepare_values(Pattern::indexed, 0, 1);
  arena->table().index_copy_(0, arena->index(0), arena->values(0));
  EXPECT_EQ(arena->close(true, false).rows, 40);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);
  memory_->data()[999 * 32] ^= std::byte{1};
  EXPECT_EQ(arena->close(true, false).mismatches, 0) << "the whole table is looked at later";
  EXPECT_EQ(arena->close(false, false).mismatches, 1) << "but at once where a case failed";
}

TEST_F(ArenaTest, ValuesOfEpochZeroLeaveTheTableAsItWasFilled) {
  const auto arena = arena_of(cell("float32", 300, 8, 40));
  for (const auto pattern : {Pattern::indexed, Pattern::contiguous}) {
    arena->prepare_values(pattern, 2, 0);
    arena->poison_rows(pattern, 2);
    EXPECT_EQ(check_table(*arena, pattern, 2, 0).mismatches, 40) << "nothing was written yet";
    arena->prepare_values(pattern, 2, 0);
    if (pattern == Pattern::indexed) {
      arena->table().index_copy_(0, arena->index(2), arena->values(2));
    } else {
      for (const auto& piece : arena->pieces(2)) piece.table.copy_(piece.values);
    }
    EXPECT_EQ(check_table(*arena, pattern, 2, 0).mismatches, 0);
  }
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 300 * 32, seed), -1);
}

TEST_F(ArenaTest, AStrayWriteIntoARowThatAnotherSetWroteIsSeen) {
  const auto arena = arena_of(cell("float32", 1000, 8, 40));
  for (const int set : {0, 1}) {
    arena->prepare_values(Pattern::indexed, set, 1);
    arena->table().index_copy_(0, arena->index(set), arena->values(set));
  }
  memory_->data()[1 * 32] ^= std::byte{1};  // row 1 is of set 1
  EXPECT_EQ(check_table(*arena, Pattern::indexed, 0, 1).mismatches, 1);
  memory_->data()[4 * 32] ^= std::byte{1};
  EXPECT_EQ(arena->close(true, true).mismatches, 1);
}

TEST_F(ArenaTest, WhereACaseFailedOnlyRowsThatNobodyWroteAreJudged) {
  const auto arena = arena_of(cell("float32", 1000, 8, 40));
  arena->prepare_values(Pattern::indexed, 0, 1);
  arena->poison_rows(Pattern::indexed, 0);  // and then it broke off
  const auto check = arena->close(false, true);
  EXPECT_EQ(check.mismatches, 0);
  EXPECT_EQ(check.rows, 1000 - 40);
}

TEST_F(ArenaTest, AResultOfAnotherShapeOrTypeIsWrongInEveryRow) {
  const auto arena = arena_of(cell("float32", 300, 8, 40));
  const auto right = arena->table().index_select(0, arena->index(0));
  for (const auto& wrong : {right.narrow(1, 0, 4).contiguous(), right.narrow(1, 0, 0), right.narrow(0, 0, 39),
                            right.view(at::kInt)}) {
    arena->deliver(wrong);
    EXPECT_EQ(arena->check_model(Pattern::indexed, 0, 0).mismatches, 40);
  }
}

TEST_F(ArenaTest, PiecesCoverTheBatchAndWrapRoundATableThatIsSmaller) {
  auto id = cell("float32", 30, 8, 100);
  id.distribution = "uniform";
  const auto arena = arena_of(id);
  for (int set = 0; set < harness::index_sets; ++set) {
    arena->poison_model();
    for (const auto& piece : arena->pieces(set)) piece.model.copy_(piece.table);
    EXPECT_EQ(arena->check_model(Pattern::contiguous, set, 0).mismatches, 0);
  }
}

TEST_F(ArenaTest, LargeValuesShareOneBufferAndAreMadeAnewForEachSet) {
  const auto arena = arena_of(cell("float32", 40'000, 128, 10'000));  // 5 MB a set
  EXPECT_EQ(arena->values(0).data_ptr(), arena->values(7).data_ptr());
  for (const int set : {0, 5}) {
    arena->prepare_values(Pattern::indexed, set, 1);
    arena->table().index_copy_(0, arena->index(set), arena->values(set));
    EXPECT_EQ(check_table(*arena, Pattern::indexed, set, 1).mismatches, 0);
  }
}

TEST_F(ArenaTest, ADeliveredTensorIsWhatIsChecked) {
  const auto arena = arena_of(cell("float32", 300, 8, 40));
  arena->poison_model();
  arena->deliver(arena->table().index_select(0, arena->index(1)));
  EXPECT_EQ(arena->check_model(Pattern::indexed, 1, 0).mismatches, 0);
  arena->prepare_values(Pattern::indexed, 1, 0);  // before the next sample the old result is gone
  EXPECT_EQ(arena->check_model(Pattern::indexed, 1, 0).mismatches, 40);
}

TEST_F(ArenaTest, OneFilledBlockServesEveryShapeThatFits) {
  const auto large = store_.filled(Placement::pageable, 1 << 20, at::kCPU);
  EXPECT_EQ(store_.filled(Placement::pageable, 1000, at::kCPU).get(), large.get());
  EXPECT_NE(store_.filled(Placement::hugepage, 1000, at::kCPU).get(), large.get());
  EXPECT_EQ(harness::first_mismatch(large->data(), 0, 1 << 20, seed), -1);
}

/// Neither moved nor copied, as what a method keeps may be.
struct Kept {
  explicit Kept(int number) : value(number) {}
  Kept(const Kept&) = delete;
  int value;
};

TEST_F(ArenaTest, WhatAMethodKeepsIsMadeOnce) {
  const auto arena = arena_of(cell("float32", 40, 4, 10));
  int made = 0;
  const auto keep = [&]() -> Kept& { return arena->kept<Kept>([&] { return Kept(++made); }); };
  keep().value += 10;
  EXPECT_EQ(keep().value, 11);
  EXPECT_EQ(arena->kept<long>([] { return 5L; }), 5) << "another type, another place";
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace stbench
