#include "speedtorch/rows/hybrid_split.h"

#include <algorithm>
#include <cmath>

namespace speedtorch {
namespace {

constexpr std::int64_t least_piece_bytes = std::int64_t{256} << 10;
constexpr std::int64_t most_piece_bytes = std::int64_t{4} << 20;
constexpr std::int64_t pieces_wanted = 8;

/// The rate of the second way while the first runs: the host's rate, or what the kernels leave of the link.
double engine_rate(const HybridRates& rates) {
  return std::min(rates.host_gather, rates.copy_engine - rates.zero_copy);
}

std::int64_t piece_rows(std::int64_t rows, std::int64_t row_bytes) {
  const auto bytes = std::clamp(rows * row_bytes / pieces_wanted, least_piece_bytes, most_piece_bytes);
  return std::max<std::int64_t>(1, bytes / row_bytes);
}

}  // namespace

double hybrid_share(const HybridRates& rates, std::int64_t bytes) {
  if (bytes <= 0 || rates.zero_copy <= 0) return 0;
  const double engine = engine_rate(rates);
  if (engine <= 0) return 0;
  // (1 - s) bytes / zero_copy = start + s bytes / engine
  const double start = rates.start_seconds / static_cast<double>(bytes);
  const double share = (1 / rates.zero_copy - start) / (1 / rates.zero_copy + 1 / engine);
  return share < least_hybrid_share ? 0 : share;
}

double hybrid_share_of(const HybridRates& rates, double share, std::int64_t measured_bytes,
                       std::int64_t bytes) {
  const double measured = hybrid_share(rates, measured_bytes);
  if (measured <= 0) return 0;
  const double scaled = std::min(share, share * hybrid_share(rates, bytes) / measured);
  return scaled < least_hybrid_share ? 0 : scaled;
}

double hybrid_seconds(const HybridRates& rates, std::int64_t bytes, double share) {
  const auto payload = static_cast<double>(bytes);
  const double in_place = (1 - share) * payload / rates.zero_copy;
  if (share <= 0) return in_place;
  return std::max(in_place, rates.start_seconds + share * payload / engine_rate(rates));
}

std::vector<double> hybrid_candidates(double share) {
  std::vector<double> all{0};
  if (share <= 0) return all;
  for (const double factor : {0.5, 0.75, 1.0, 1.25}) all.push_back(std::min(1.0, factor * share));
  return all;
}

std::vector<HybridPiece> hybrid_pieces(std::int64_t rows, std::int64_t row_bytes, double share) {
  const std::int64_t engine = std::llround(static_cast<double>(rows) * std::clamp(share, 0.0, 1.0));
  const std::int64_t step = piece_rows(engine, row_bytes);
  std::vector<HybridPiece> pieces;
  for (std::int64_t first = rows - engine; first < rows; first += step)
    pieces.push_back({first, std::min(step, rows - first)});
  return pieces;
}

std::int64_t largest_hybrid_piece(std::int64_t rows, std::int64_t row_bytes) {
  return std::min(rows, piece_rows(rows, row_bytes));
}

}  // namespace speedtorch
