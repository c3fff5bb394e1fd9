/// How a batch is shared between the two ways from pinned memory to a GPU: kernels that read rows in place
/// (zero copy), and the host gathering rows into staging memory for the copy engine. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace speedtorch {

/// What a machine's ways were measured to do; payload bytes a second.
struct HybridRates {
  double zero_copy = 0;      ///< kernels reading random rows in place
  double host_gather = 0;    ///< the host's threads gathering random rows into staging memory
  double copy_engine = 0;    ///< staging memory to the GPU: taken as what the link carries at most
  double start_seconds = 0;  ///< of the second way for a single row: what it costs before it moves anything
};

/// Rows that leave on one copy of the copy engine.
struct HybridPiece {
  std::int64_t first;
  std::int64_t count;
};

/// Below this share of a batch the second way is not taken: its waits and copies would cost what it brings.
constexpr double least_hybrid_share = 0.02;

/// The share of `bytes` of payload for the copy engine, 0 to 1, with which both ways end together. On Hopper
/// kernels read host memory at 0.64-0.69 of the copy engine's rate over PCIe 5, so up to a third of the link
/// is left to take; where kernels fill the link, as over PCIe 4, there is nothing and the share is 0.
double hybrid_share(const HybridRates& rates, std::int64_t bytes);

/// The share for `bytes` where `share` was measured as the best for `measured_bytes`: by the model's
/// proportion of the two, because the second way's start weighs more on small batches, and never above
/// `share`.
double hybrid_share_of(const HybridRates& rates, double share, std::int64_t measured_bytes,
                       std::int64_t bytes);

/// Seconds of `bytes` with that share by the same model: the slower of the two ways.
double hybrid_seconds(const HybridRates& rates, std::int64_t bytes, double share);

/// Shares worth a measurement beside the model's own, none first.
std::vector<double> hybrid_candidates(double share);

/// The last `share` of `rows` in pieces of some 1/8 of it, between 256 KiB and 4 MiB: small enough that the
/// host gathers one while the one before is copied, large enough that copies run at their rate (28 KiB
/// already reach 40 of 55 GB/s on an H100).
std::vector<HybridPiece> hybrid_pieces(std::int64_t rows, std::int64_t row_bytes, double share);

/// Rows of the largest piece that `hybrid_pieces` gives for `rows` rows, whatever the share.
std::int64_t largest_hybrid_piece(std::int64_t rows, std::int64_t row_bytes);

}  // namespace speedtorch
