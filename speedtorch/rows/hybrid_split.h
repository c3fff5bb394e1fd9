/// Splits a batch between the two ways from pinned memory to a GPU: kernels that read rows in place (zero
/// copy), and the host that gathers rows into staging memory for the copy engine. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace speedtorch {

/// The measured rates of a machine's two ways, payload bytes per second.
struct HybridRates {
  double zero_copy = 0;      ///< kernels read random rows in place
  double host_gather = 0;    ///< the host's threads gather random rows into staging memory
  double copy_engine = 0;    ///< staging memory to the GPU; taken as the link's maximum
  double start_seconds = 0;  ///< of the second way for a single row: its fixed cost
};

/// Rows that one copy of the copy engine moves.
struct HybridPiece {
  std::int64_t first;
  std::int64_t count;
};

/// Below this share of a batch the second way is not used: its waits and copies would cost what it gains.
constexpr double least_hybrid_share = 0.02;

/// The share of `bytes` of payload for the copy engine, 0 to 1, with which both ways finish together. It is 0
/// if kernels saturate the link, as over PCIe 4. (On Hopper kernels read host memory at 0.64-0.69 of the copy
/// engine's rate over PCIe 5, which leaves up to a third of the link.)
double hybrid_share(const HybridRates& rates, std::int64_t bytes);

/// The share for `bytes`, if `share` was measured as the best for `measured_bytes`. Scales it by the model,
/// because the second way's fixed cost weighs more on small batches, and never exceeds `share`.
double hybrid_share_of(const HybridRates& rates, double share, std::int64_t measured_bytes,
                       std::int64_t bytes);

/// The seconds for `bytes` with that share, by the same model: those of the slower way.
double hybrid_seconds(const HybridRates& rates, std::int64_t bytes, double share);

/// The shares to measure beside the model's own; the first is 0.
std::vector<double> hybrid_candidates(double share);

/// Cuts the last `share` of `rows` into pieces of about 1/8 of it, between 256 KiB and 4 MiB. They are small
/// enough for the host to gather one while the previous one is copied, and large enough for the copy engine's
/// full rate (28 KiB already reach 40 of 55 GB/s on an H100).
std::vector<HybridPiece> hybrid_pieces(std::int64_t rows, std::int64_t row_bytes, double share);

/// Rows of the largest piece that `hybrid_pieces` returns for `rows` rows and any share.
std::int64_t largest_hybrid_piece(std::int64_t rows, std::int64_t row_bytes);

}  // namespace speedtorch
