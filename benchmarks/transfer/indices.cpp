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

void TransferIndices::require(const reports::Identity& id) const {
  try {
    sources_.at(id.distribution)->require(id.rows, rows_moved(id));
  } catch (const UsageError& error) {
    if (callers_of(id) == 1) throw;
    throw UsageError(fmt::format("{}\n--callers {} of {} rows each", error.what(), callers_of(id), id.batch));
  }
}

std::shared_ptr<const IndexSets> TransferIndices::sets(const reports::Identity& id, std::uint64_t seed) {
  const auto batch = rows_moved(id);
  const auto shape = fmt::format("{} {} {}", id.distribution, id.rows, batch);
  if (shape == drawn_shape_) return drawn_;
  auto sets = std::make_shared<IndexSets>();
  for (int set = 0; set < harness::index_sets; ++set) {
    (*sets)[static_cast<std::size_t>(set)] = sources_.at(id.distribution)->draw(id.rows, batch, seed, set);
  }
  drawn_shape_ = shape;
  return drawn_ = std::move(sets);
}

}  // namespace stbench
