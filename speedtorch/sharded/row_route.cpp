#include "speedtorch/sharded/row_route.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// Indices that are kept for the next batch: more are freed, as they take some 60 bytes each.
constexpr std::size_t kKeptNumbers = std::size_t{1} << 22;

std::size_t at_position(std::int64_t position) { return static_cast<std::size_t>(position); }

template <class T>
void forget(std::vector<T>& values) {
  if (values.capacity() > kKeptNumbers) values = {};
  values.clear();
}

}  // namespace

void RowRoute::clear(int ranks) {
  for (auto* each : {&rows, &positions, &repeat_rows, &repeat_positions, &named_, &last_, &next_})
    forget(*each);
  forget(where_);
  begins.assign(static_cast<std::size_t>(ranks) + 1, 0);
}

std::vector<std::int64_t> RowRoute::counts() const {
  std::vector<std::int64_t> all;
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) all.push_back(begins[r + 1] - begins[r]);
  return all;
}

void RowRoute::find(const at::Tensor& index, const RowOwners& owners, Repeated repeated) {
  clear(owners.ranks());
  const auto count = index.numel();
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  if (count >= most)
    throw ShapeError("an index of " + std::to_string(count) + " numbers; a batch has fewer than " +
                     std::to_string(most));
  with_index(index, [&](const auto* numbers) {
    kernels::check_indices(numbers, count, owners.rows(), 8192, parallel_for);
    if (repeated == Repeated::all) return take_all(numbers, count);
    find_distinct(numbers, count, repeated == Repeated::once);
  });
  order_by_rank(owners);
}

template <class Index>
void RowRoute::take_all(const Index* index, std::int64_t count) {
  named_.assign(index, index + count);
  last_.resize(named_.size());
  std::iota(last_.begin(), last_.end(), std::int64_t{0});
}

template <class Index>
void RowRoute::find_distinct(const Index* index, std::int64_t count, bool chained) {
  const auto size = static_cast<std::size_t>(count);
  const auto bits = std::bit_width(size | 1) + 1;  // two to four slots per number
  const auto mask = (std::size_t{1} << bits) - 1;
  slots_.assign(mask + 1, 0);
  const auto slot_of = [shift = 64 - bits](Index row) {
    return (static_cast<std::size_t>(row) * std::size_t{0x9E3779B97F4A7C15}) >> shift;
  };
  named_.reserve(size), last_.reserve(size);
  if (chained) next_.resize(size);
  constexpr std::int64_t ahead = 16;  // slots are on their way to the cache before they are read
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(slots_.data() + slot_of(index[i + ahead]));
    const std::int64_t row = index[i];
    auto slot = slot_of(index[i]);
    while (slots_[slot] != 0 && named_[slots_[slot] - 1] != row) slot = (slot + 1) & mask;
    std::int64_t before = -1;
    if (slots_[slot] != 0) {
      before = std::exchange(last_[slots_[slot] - 1], i);
    } else {
      named_.push_back(row), last_.push_back(i);
      slots_[slot] = static_cast<std::uint32_t>(named_.size());
    }
    if (chained) next_[static_cast<std::size_t>(i)] = before;
  }
  if (slots_.capacity() > kKeptNumbers) slots_ = {};
}

void RowRoute::order_by_rank(const RowOwners& owners) {
  where_.resize(named_.size());
  for (std::size_t k = 0; k < named_.size(); ++k) {
    where_[k] = owners.place_of(named_[k]);
    ++begins[static_cast<std::size_t>(where_[k].rank) + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  rows.resize(named_.size()), positions.resize(named_.size());
  auto next = begins;
  for (std::size_t k = 0; k < named_.size(); ++k) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(where_[k].rank)]++);
    rows[at] = where_[k].row;
    positions[at] = last_[k];
  }
  if (next_.size() == rows.size()) return;  // no row is repeated
  for (std::size_t k = 0; k < rows.size() && !next_.empty(); ++k)
    for (auto p = next_[at_position(positions[k])]; p >= 0; p = next_[at_position(p)]) {
      repeat_rows.push_back(static_cast<std::int64_t>(k));
      repeat_positions.push_back(p);
    }
}

}  // namespace speedtorch
