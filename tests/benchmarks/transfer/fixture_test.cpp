#include "benchmarks/transfer/fixture.h"

#include <ATen/ops/index_select.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "benchmarks/tables/table_store.h"
#include "harness/fill.h"

namespace stbench {
namespace {

using speedtorch::Placement;

TransferCase cell(std::optional<at::ScalarType> dtype, std::int64_t rows, std::int64_t dim,
                  std::int64_t batch, at::ScalarType index_dtype = at::kLong) {
  return {.direction = Direction::round_trip,
          .placement = Placement::pageable,
          .dtype = dtype,
          .index_dtype = index_dtype,
          .distribution = "unique",
          .rows = rows,
          .dim = dim,
          .batch = batch,
          .cores = 1};
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
harness::Check check_table(TransferFixture& fixture, Pattern pattern, int set, std::uint64_t generation) {
  auto check = fixture.verifier.check_named(pattern, set, generation);
  merge(check, fixture.verifier.check_others(pattern, set));
  return check;
}

void scatter_values(TransferFixture& fixture, int set) {
  auto& operands = fixture.operands;
  operands.table().index_copy_(0, operands.index(set), operands.values(set));
}

class TransferFixtureTest : public testing::Test {
 protected:
  std::unique_ptr<TransferFixture> fixture_of(const TransferCase& one) {
    memory_ = store_.filled(Placement::pageable, one.shape().bytes(), at::kCPU);
    return std::make_unique<TransferFixture>(one, memory_, every_third(one.rows, one.batch), seed);
  }

  TableStore store_{seed};
  std::shared_ptr<speedtorch::Memory> memory_;
};

TEST_F(TransferFixtureTest, TableHoldsTheFillAtEveryByte) {
  const auto fixture = fixture_of(cell(at::kChar, 101, 13, 20));
  for (std::int64_t byte = 0; byte < 101 * 13; ++byte) {
    const auto word = harness::word(seed, static_cast<std::uint64_t>(byte) / 8);
    EXPECT_EQ(std::to_integer<unsigned>(memory_->data()[byte]), (word >> (8 * (byte % 8))) & 0xFF) << byte;
  }
}

TEST_F(TransferFixtureTest, LibTorchsGatherPassesForEveryDtypeAndWidth) {
  for (const char* name : {"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "bytes"}) {
    for (const std::int64_t dim : {1, 3, 129}) {
      for (const auto index_dtype : {at::kLong, at::kInt}) {
        const auto fixture = fixture_of(cell(dtype_named(name), 300, dim, 40, index_dtype));
        for (const int set : {0, 7}) {
          fixture->poison_model();
          EXPECT_EQ(fixture->check_model(Pattern::indexed, set, 0).mismatches, 40) << name << dim;
          at::index_select_out(fixture->operands.model(), fixture->operands.table(), 0,
                               fixture->operands.index(set));
          const auto check = fixture->check_model(Pattern::indexed, set, 0);
          EXPECT_EQ(check.mismatches, 0) << name << dim << check.first;
          EXPECT_EQ(check.rows, 40);
        }
      }
    }
  }
}

TEST_F(TransferFixtureTest, RowsOfBytesUseTheWidestIntegersThatDivideThem) {
  EXPECT_EQ(cell(std::nullopt, 1, 512, 1).shape().dtype, at::kLong);
  EXPECT_EQ(cell(std::nullopt, 1, 516, 1).shape().dtype, at::kInt);
  EXPECT_EQ(cell(std::nullopt, 1, 90, 1).shape().dtype, at::kShort);
  EXPECT_EQ(cell(std::nullopt, 1, 129, 1).shape().dtype, at::kByte);
  for (const std::int64_t width : {512, 516, 90, 129})
    EXPECT_EQ(cell(std::nullopt, 1, width, 1).shape().row_bytes(), width);
}

/// A gather of all rows of a set, seen by the checks after it.
struct Gathered {
  harness::Check spots, whole;
};

TEST_F(TransferFixtureTest, VariedRowsMakeEarlierAnswersWrongAndAreRestored) {
  auto one = cell(at::kFloat, 3000, 8, 900);
  one.direction = Direction::to;
  const auto fixture = fixture_of(one);
  auto& operands = fixture->operands;
  const auto checks = [&] {
    return Gathered{fixture->check_spots(one, Pattern::indexed, 2, 0, Equality::bits),
                    fixture->check_model(Pattern::indexed, 2, 0)};
  };
  const auto gather = [&] {
    at::index_select_out(operands.model(), operands.table(), 0, operands.index(2));
    return operands.model().clone();
  };
  fixture->vary(one, Pattern::indexed, 2, false);
  const auto first = gather();
  EXPECT_EQ(checks().spots.mismatches, 0);
  EXPECT_EQ(checks().whole.mismatches, 0);
  for (int use = 0; use < 5; ++use) {
    fixture->vary(one, Pattern::indexed, 2, false);
    operands.model().copy_(first);
    const auto replayed = checks();
    EXPECT_GE(replayed.spots.mismatches, 3) << "three rows changed, and three were changed back";
    EXPECT_GE(replayed.whole.mismatches, 3);
    EXPECT_LE(replayed.whole.mismatches, 6);
    gather();
    EXPECT_EQ(checks().spots.mismatches, 0);
    EXPECT_EQ(checks().whole.mismatches, 0);
  }
  const auto close = fixture->verifier.close(true, true);
  EXPECT_EQ(close.mismatches, 0) << close.first;
}

TEST_F(TransferFixtureTest, WriteToAVariedRowIsFoundWhenItIsRestored) {
  auto one = cell(at::kFloat, 3000, 8, 10);
  one.direction = Direction::to;
  const auto fixture = fixture_of(one);
  fixture->vary(one, Pattern::indexed, 2, false);
  fixture->verifier.poison_rows(fixture->operands, Pattern::indexed, 2);
  EXPECT_GT(fixture->verifier.close(true, false).mismatches, 0);
}

TEST_F(TransferFixtureTest, RowsThatAScatterSkipsAreFoundAmongThoseVaried) {
  const auto one = cell(at::kFloat, 3000, 8, 900);
  const auto fixture = fixture_of(one);
  fixture->prepare_values(Pattern::indexed, 2, 1);
  scatter_values(*fixture, 2);
  const auto of_table = [&] { return fixture->verifier.check_named(Pattern::indexed, 2, 1).mismatches; };
  fixture->vary(one, Pattern::indexed, 2, false);
  EXPECT_GT(fixture->check_spots(one, Pattern::indexed, 2, 1, Equality::bits).mismatches, 0);
  EXPECT_EQ(of_table(), 0) << "what differed was repaired";
}

TEST_F(TransferFixtureTest, InBothDirectionsOnlyWrittenRowsAreVariedAndBothHalvesAreLookedAt) {
  auto one = cell(at::kFloat, 3000, 8, 900);
  one.direction = Direction::both;
  const auto fixture = fixture_of(one);
  auto &there = *fixture->slices.front(), &back = *fixture->slices.back();
  const auto gather = [&] { at::index_select_out(there.model(), there.table(), 0, there.index(2)); };
  const auto scatter = [&] { back.table().index_copy_(0, back.index(2), back.values(2)); };
  const auto spots = [&] { return fixture->check_spots(one, Pattern::indexed, 2, 0, Equality::bits); };
  fixture->prepare_values(Pattern::indexed, 2, 0);
  for (int use = 0; use < 5; ++use) {
    fixture->vary(one, Pattern::indexed, 2, false);
    gather();
    scatter();
    EXPECT_EQ(spots().mismatches, 0) << spots().first;
    EXPECT_EQ(fixture->verifier.check_named(Pattern::indexed, 2, 0).mismatches, 0)
        << "a row that is only read was varied";
  }
  fixture->vary(one, Pattern::indexed, 2, false);
  EXPECT_GT(spots().mismatches, 0) << "no scatter";
  gather();
  EXPECT_EQ(spots().mismatches, 0) << "what differed was repaired";
  fixture->vary(one, Pattern::indexed, 2, false);
  scatter();
  EXPECT_GT(spots().mismatches, 0) << "no gather";
}

TEST_F(TransferFixtureTest, SamplesRotateOverTwoDestinationsUnlessTheOutputIsLarge) {
  auto one = cell(at::kFloat, 4000, 8, 100);
  one.direction = Direction::to;
  const auto fixture = fixture_of(one);
  auto& operands = fixture->operands;
  std::set<void*> seen;
  for (int use = 0; use < 40; ++use) {
    fixture->vary(one, Pattern::contiguous, 3, false);
    seen.insert(operands.model().data_ptr());
    EXPECT_EQ(operands.pieces(3).front().model.data_ptr(), operands.model().data_ptr());
  }
  EXPECT_EQ(seen.size(), 2U);
  fixture->vary(one, Pattern::indexed, 3, true);
  EXPECT_TRUE(seen.contains(operands.model().data_ptr()));

  auto small = one, large = one, writing = one;
  small.batch = 1 << 20, large.batch = (4 << 20) + 1, writing.direction = Direction::from;
  const auto of_a_row = [](const TransferCase& of) {
    return static_cast<double>(Operands::working_bytes(of)) / static_cast<double>(of.batch);
  };
  EXPECT_NEAR(of_a_row(small) - of_a_row(large), 32, 1e-3) << "an output of 32 bytes a row more";
  writing.batch = 1 << 20;
  EXPECT_NEAR(of_a_row(small) - of_a_row(writing), 32, 1e-3);
}

TEST_F(TransferFixtureTest, ScatterIsCheckedInNamedNeighbouringAndSampledRows) {
  const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
  fixture->prepare_values(Pattern::indexed, 2, 1);
  fixture->verifier.poison_rows(fixture->operands, Pattern::indexed, 2);
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 2, 1).mismatches, 40);
  scatter_values(*fixture, 2);
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 2, 1).mismatches, 0);
  EXPECT_GT(check_table(*fixture, Pattern::indexed, 2, 1).rows,
            250);  // 40 touched ones, their neighbours, a sample of all

  memory_->data()[32 * 1 + 5] ^= std::byte{1};  // row 1 is touched by no operation on set 2
  const auto stray = check_table(*fixture, Pattern::indexed, 2, 1);
  EXPECT_GT(stray.mismatches, 0);
  EXPECT_NE(stray.first.find("not named"), std::string::npos);
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 2, 1).mismatches, 0) << "what differed was repaired";
}

TEST_F(TransferFixtureTest, CloseReportsUnexplainedDamageUnlessACaseIsKnownToBeWrong) {
  for (const bool trusted : {true, false}) {
    const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
    fixture->verifier.remember({10, 3, "table row 7"});
    EXPECT_EQ(fixture->verifier.close(trusted, false).mismatches, trusted ? 3 : 0);
    EXPECT_EQ(fixture->verifier.close(true, true).mismatches, 0) << "and of no later one";
  }
}

TEST_F(TransferFixtureTest, StaleValuesOfAnEarlierGenerationFail) {
  const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
  fixture->prepare_values(Pattern::indexed, 0, 1);
  scatter_values(*fixture, 0);
  fixture->prepare_values(Pattern::indexed, 0, 2);
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 0, 1).mismatches, 0);
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 0, 2).mismatches, 40);
}

TEST_F(TransferFixtureTest, CloseChecksTheWholeTableAndRestoresIt) {
  const auto id = cell(at::kFloat, 1000, 8, 40);
  auto fixture = fixture_of(id);
  fixture->prepare_values(Pattern::indexed, 0, 1);
  scatter_values(*fixture, 0);
  const auto clean = fixture->verifier.close(true, true);
  EXPECT_EQ(clean.mismatches, 0) << clean.first;
  EXPECT_EQ(clean.rows, 1000);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);

  memory_->data()[999 * 32 + 31] ^= std::byte{0x80};  // the last byte
  EXPECT_EQ(fixture->verifier.close(true, true).mismatches, 1);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);
}

TEST_F(TransferFixtureTest, CloseOfALargeTableChecksAndRestoresWrittenRows) {
  const auto fixture = fixture_of(cell(at::kFloat, 1000, 8, 40));
  fixture->prepare_values(Pattern::indexed, 0, 1);
  scatter_values(*fixture, 0);
  EXPECT_EQ(fixture->verifier.close(true, false).rows, 40);
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 1000 * 32, seed), -1);
  memory_->data()[999 * 32] ^= std::byte{1};
  EXPECT_EQ(fixture->verifier.close(true, false).mismatches, 0) << "the whole table is looked at later";
  EXPECT_EQ(fixture->verifier.close(false, false).mismatches, 1) << "but at once where a case failed";
}

TEST_F(TransferFixtureTest, ValuesOfGenerationZeroLeaveTheFill) {
  const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
  for (const auto pattern : {Pattern::indexed, Pattern::contiguous}) {
    fixture->prepare_values(pattern, 2, 0);
    fixture->verifier.poison_rows(fixture->operands, pattern, 2);
    EXPECT_EQ(check_table(*fixture, pattern, 2, 0).mismatches, 40) << "nothing was written yet";
    fixture->prepare_values(pattern, 2, 0);
    if (pattern == Pattern::indexed) {
      scatter_values(*fixture, 2);
    } else {
      for (const auto& piece : fixture->operands.pieces(2)) piece.table.copy_(piece.values);
    }
    EXPECT_EQ(check_table(*fixture, pattern, 2, 0).mismatches, 0);
  }
  EXPECT_EQ(harness::first_mismatch(memory_->data(), 0, 300 * 32, seed), -1);
}

TEST_F(TransferFixtureTest, StrayWriteIntoARowOfAnotherSetIsDetected) {
  const auto fixture = fixture_of(cell(at::kFloat, 1000, 8, 40));
  for (const int set : {0, 1}) {
    fixture->prepare_values(Pattern::indexed, set, 1);
    scatter_values(*fixture, set);
  }
  memory_->data()[1 * 32] ^= std::byte{1};  // row 1 is of set 1
  EXPECT_EQ(check_table(*fixture, Pattern::indexed, 0, 1).mismatches, 1);
  memory_->data()[4 * 32] ^= std::byte{1};
  EXPECT_EQ(fixture->verifier.close(true, true).mismatches, 1);
}

TEST_F(TransferFixtureTest, FailedCaseLimitsTheLastCheckToUnwrittenRows) {
  const auto fixture = fixture_of(cell(at::kFloat, 1000, 8, 40));
  fixture->prepare_values(Pattern::indexed, 0, 1);
  fixture->verifier.poison_rows(fixture->operands, Pattern::indexed, 0);  // and then it broke off
  const auto check = fixture->verifier.close(false, true);
  EXPECT_EQ(check.mismatches, 0);
  EXPECT_EQ(check.rows, 1000 - 40);
}

TEST_F(TransferFixtureTest, ResultOfAnotherShapeOrDtypeIsWrongInEveryRow) {
  const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
  const auto right = fixture->operands.table().index_select(0, fixture->operands.index(0));
  for (const auto& wrong : {right.narrow(1, 0, 4).contiguous(), right.narrow(1, 0, 0), right.narrow(0, 0, 39),
                            right.view(at::kInt)}) {
    fixture->operands.deliver(wrong);
    EXPECT_EQ(fixture->check_model(Pattern::indexed, 0, 0).mismatches, 40);
  }
}

TEST_F(TransferFixtureTest, PiecesCoverTheBatchAndWrapAroundSmallTables) {
  auto id = cell(at::kFloat, 30, 8, 100);
  id.distribution = "uniform";
  const auto fixture = fixture_of(id);
  for (int set = 0; set < harness::index_sets; ++set) {
    fixture->poison_model();
    for (const auto& piece : fixture->operands.pieces(set)) piece.model.copy_(piece.table);
    EXPECT_EQ(fixture->check_model(Pattern::contiguous, set, 0).mismatches, 0);
  }
}

TEST_F(TransferFixtureTest, LargeValuesShareOneBufferThatEachSetRefills) {
  const auto fixture = fixture_of(cell(at::kFloat, 40'000, 128, 10'000));  // 5 MB a set
  EXPECT_EQ(fixture->operands.values(0).data_ptr(), fixture->operands.values(7).data_ptr());
  for (const int set : {0, 5}) {
    fixture->prepare_values(Pattern::indexed, set, 1);
    scatter_values(*fixture, set);
    EXPECT_EQ(check_table(*fixture, Pattern::indexed, set, 1).mismatches, 0);
  }
}

TEST_F(TransferFixtureTest, DeliveredTensorIsChecked) {
  const auto fixture = fixture_of(cell(at::kFloat, 300, 8, 40));
  fixture->poison_model();
  fixture->operands.deliver(fixture->operands.table().index_select(0, fixture->operands.index(1)));
  EXPECT_EQ(fixture->check_model(Pattern::indexed, 1, 0).mismatches, 0);
  fixture->prepare_values(Pattern::indexed, 1, 0);  // before the next sample the old result is gone
  EXPECT_EQ(fixture->check_model(Pattern::indexed, 1, 0).mismatches, 40);
}

TEST_F(TransferFixtureTest, OneFilledBlockServesEveryShapeThatFits) {
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

TEST_F(TransferFixtureTest, KeptObjectIsMadeOnce) {
  const auto fixture = fixture_of(cell(at::kFloat, 40, 4, 10));
  int made = 0;
  const auto keep = [&]() -> Kept& { return fixture->operands.kept<Kept>([&] { return Kept(++made); }); };
  keep().value += 10;
  EXPECT_EQ(keep().value, 11);
  EXPECT_EQ(fixture->operands.kept<long>([] { return 5L; }), 5) << "another type, another place";
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace stbench
