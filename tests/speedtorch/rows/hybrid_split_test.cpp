#include "speedtorch/rows/hybrid_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace speedtorch {
namespace {

constexpr double kGb = 1e9;
constexpr std::int64_t kBatch = 131'072 * 512;

TEST(HybridShare, BothWaysEndTogether) {
  const HybridRates hopper{38 * kGb, 30 * kGb, 55.3 * kGb, 0};
  const double share = hybrid_share(hopper, kBatch);
  EXPECT_NEAR(share, 17.3 / 55.3, 1e-9) << "the copy engine takes what the kernels leave of the link";
  EXPECT_NEAR((1 - share) / hopper.zero_copy, share / (17.3 * kGb), 1e-15);
}

TEST(HybridShare, ASlowHostTakesLess) {
  const HybridRates slow{38 * kGb, 4 * kGb, 55.3 * kGb, 0};
  EXPECT_NEAR(hybrid_share(slow, kBatch), 4.0 / 42.0, 1e-9);
}

TEST(HybridShare, IsNoneIfKernelsFillTheLink) {
  EXPECT_EQ(hybrid_share({25.25 * kGb, 30 * kGb, 25.2 * kGb, 0}, kBatch), 0);
  EXPECT_EQ(hybrid_share({25.1 * kGb, 30 * kGb, 25.2 * kGb, 0}, kBatch), 0) << "below what a copy costs";
  EXPECT_EQ(hybrid_share({38 * kGb, 0, 55 * kGb, 0}, kBatch), 0);
  EXPECT_EQ(hybrid_share({0, 30 * kGb, 55 * kGb, 0}, kBatch), 0) << "not measured";
  EXPECT_EQ(hybrid_share({38 * kGb, 30 * kGb, 55 * kGb, 0}, 0), 0);
}

TEST(HybridShare, TheFixedCostKeepsSmallBatchesOffTheSecondWay) {
  const HybridRates rates{38 * kGb, 30 * kGb, 55.3 * kGb, 50e-6};
  EXPECT_EQ(hybrid_share(rates, 1 << 20), 0) << "28 us in place, 50 us to start";
  const double share = hybrid_share(rates, kBatch);
  EXPECT_LT(share, 17.3 / 55.3);
  EXPECT_NEAR((1 - share) * kBatch / rates.zero_copy, 50e-6 + share * kBatch / (17.3 * kGb), 1e-12);
}

TEST(HybridShareOf, SmallBatchesSendLessThanTheMeasuredAndNoneMore) {
  const HybridRates rates{38 * kGb, 30 * kGb, 55.3 * kGb, 50e-6};
  for (const double factor : {0.5, 1.0, 1.25}) {
    const double measured = factor * hybrid_share(rates, kBatch);
    const auto of = [&](std::int64_t bytes) { return hybrid_share_of(rates, measured, kBatch, bytes); };
    EXPECT_DOUBLE_EQ(of(kBatch), measured) << "as it was found to be best, above the model's own too";
    EXPECT_DOUBLE_EQ(of(4 * kBatch), measured);
    EXPECT_NEAR(of(kBatch / 8), factor * hybrid_share(rates, kBatch / 8), 1e-12);
    EXPECT_LT(of(kBatch / 8), measured);
    EXPECT_EQ(of(1 << 20), 0) << "28 us in place, 50 us to start";
    EXPECT_EQ(of(0), 0);
  }
}

TEST(HybridShareOf, IsNoneIfNoneWasBest) {
  const HybridRates rates{38 * kGb, 30 * kGb, 55.3 * kGb, 0};
  EXPECT_EQ(hybrid_share_of(rates, 0, kBatch, kBatch), 0);
  EXPECT_EQ(hybrid_share_of(rates, 0.03, kBatch, kBatch / 2), 0.03);
  EXPECT_EQ(hybrid_share_of({25 * kGb, 30 * kGb, 25 * kGb, 0}, 0, kBatch, kBatch), 0);
}

/// By the model, no share on a grid is faster than the returned one.
TEST(HybridShare, IsTheFastestOfAll) {
  for (const double host : {2.0, 10.0, 20.0, 40.0}) {
    for (const double start : {0.0, 20e-6, 200e-6}) {
      const HybridRates rates{35 * kGb, host * kGb, 55 * kGb, start};
      const double best = hybrid_seconds(rates, kBatch, hybrid_share(rates, kBatch));
      for (double share = 0; share <= 1; share += 0.001) {
        if (share > 0 && share < least_hybrid_share) continue;
        EXPECT_GE(hybrid_seconds(rates, kBatch, share), best * (1 - 1e-9)) << host << " " << share;
      }
    }
  }
}

TEST(HybridCandidates, HoldNoneAndTheModelsOwn) {
  EXPECT_EQ(hybrid_candidates(0), std::vector<double>{0});
  const auto all = hybrid_candidates(0.3);
  EXPECT_EQ(all.front(), 0);
  EXPECT_NE(std::find(all.begin(), all.end(), 0.3), all.end());
  for (const double share : hybrid_candidates(0.95)) EXPECT_LE(share, 1);
}

TEST(HybridPieces, AreTheLastRowsOnceEach) {
  for (const std::int64_t rows : {1, 2, 1000, 131072}) {
    for (const std::int64_t row_bytes : {1, 512, 516, 10000000}) {
      for (const double share : {0.0, 0.001, 0.3, 1.0}) {
        const std::int64_t engine = std::llround(static_cast<double>(rows) * share);
        auto next = rows - engine;
        for (const auto& piece : hybrid_pieces(rows, row_bytes, share)) {
          EXPECT_EQ(piece.first, next);
          EXPECT_GT(piece.count, 0);
          EXPECT_LE(piece.count, largest_hybrid_piece(rows, row_bytes)) << "fits the staging memory";
          next += piece.count;
        }
        EXPECT_EQ(next, rows);
      }
    }
  }
}

TEST(HybridPieces, OverlapAndStayLargeEnoughToCopyWell) {
  const auto pieces = hybrid_pieces(131'072, 512, 0.3);
  EXPECT_GE(pieces.size(), 8U);
  EXPECT_GE(pieces.front().count * 512, 256 << 10);
  EXPECT_EQ(hybrid_pieces(1000, 512, 0.3).size(), 1U) << "150 KB";
}

}  // namespace
}  // namespace speedtorch
