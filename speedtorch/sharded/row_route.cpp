#include "speedtorch/sharded/row_route.h"

#include <numeric>

#include "speedtorch/kernels/rows/duplicate_rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// Calls `each(row, positions)` for each row that travels.
template <class Each>
void each_row(const kernels::DuplicateRows& found, Each each) {
  const auto begins = found.begins();
  for (std::size_t k = 0; k < found.rows().size(); ++k) {
    const auto begin = static_cast<std::size_t>(begins[k]);
    each(found.rows()[k], found.positions().subspan(begin, static_cast<std::size_t>(begins[k + 1]) - begin));
  }
}

}  // namespace

std::vector<std::int64_t> RowRoute::counts() const {
  std::vector<std::int64_t> all;
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) all.push_back(begins[r + 1] - begins[r]);
  return all;
}

RowRoute route_of(const at::Tensor& index, const RowOwners& owners, Repeated repeated) {
  kernels::DuplicateRows found;
  with_index(index,
             [&](const auto* numbers) { found.find(numbers, index.numel(), owners.rows(), parallel_for); });
  const auto ranks = static_cast<std::size_t>(owners.ranks());
  std::vector<RowOwners::Place> where;
  std::vector<std::int64_t> rows(ranks + 1),
      places(ranks + 1);  // of each rank: its rows, and their positions
  for (const auto row : found.rows()) where.push_back(owners.place_of(row));
  std::size_t k = 0;
  each_row(found, [&](std::int64_t, std::span<const std::int64_t> named) {
    const auto r = static_cast<std::size_t>(where[k++].rank) + 1;
    const auto count = static_cast<std::int64_t>(named.size());
    rows[r] += repeated == Repeated::all ? count : 1;
    places[r] += repeated == Repeated::last ? 1 : count;
  });
  std::partial_sum(rows.begin(), rows.end(), rows.begin());
  std::partial_sum(places.begin(), places.end(), places.begin());
  RowRoute route{std::vector<std::int64_t>(static_cast<std::size_t>(rows.back())), rows,
                 std::vector<std::int64_t>(static_cast<std::size_t>(places.back())),
                 std::vector<std::int64_t>(static_cast<std::size_t>(rows.back()) + 1)};
  route.places.back() = places.back();
  k = 0;
  each_row(found, [&](std::int64_t, std::span<const std::int64_t> named) {
    const auto [rank, row] = where[k++];
    if (repeated == Repeated::last) named = named.last(1);
    auto& next_row = rows[static_cast<std::size_t>(rank)];
    auto& next_place = places[static_cast<std::size_t>(rank)];
    for (std::size_t n = 0; n < named.size(); ++n) {
      if (n == 0 || repeated == Repeated::all) {
        route.rows[static_cast<std::size_t>(next_row)] = row;
        route.places[static_cast<std::size_t>(next_row++)] = next_place;
      }
      route.positions[static_cast<std::size_t>(next_place++)] = named[n];
    }
  });
  return route;
}

}  // namespace speedtorch
