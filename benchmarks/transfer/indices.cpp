#include "benchmarks/transfer/indices.h"

#include <fmt/format.h>

#include "harness/errors.h"

namespace stbench {

std::string TransferIndices::add(const std::string& distribution) {
  auto source = std::make_shared<const harness::IndexSource>(harness::parse_distribution(distribution));
  const auto name = source->recorded_name();
  sources_[name] = std::move(source);
  return name;
}

void TransferIndices::require(const TransferCase& one) const {
  try {
    sources_.at(one.distribution)->require(one.rows, one.rows_moved());
  } catch (const UsageError& error) {
    if (one.callers == 1) throw;
    throw UsageError(fmt::format("{}\n--callers {} of {} rows each", error.what(), one.callers, one.batch));
  }
}

std::vector<std::int64_t> TransferIndices::draw(const TransferCase& one, std::uint64_t seed, int set) const {
  return sources_.at(one.distribution)->draw(one.rows, one.rows_moved(), seed, set);
}

std::shared_ptr<const IndexSets> TransferIndices::sets(const TransferCase& one, std::uint64_t seed) {
  const auto batch = one.rows_moved();
  const auto shape = fmt::format("{} {} {}", one.distribution, one.rows, batch);
  if (shape == drawn_shape_) return drawn_;
  auto sets = std::make_shared<IndexSets>();
  for (int set = 0; set < harness::index_sets; ++set) {
    (*sets)[static_cast<std::size_t>(set)] = draw(one, seed, set);
  }
  drawn_shape_ = shape;
  return drawn_ = std::move(sets);
}

}  // namespace stbench
