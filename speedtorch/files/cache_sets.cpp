#include "speedtorch/files/cache_sets.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace speedtorch {
namespace {

constexpr unsigned kMostCount = 7;
constexpr std::uint8_t kCountBits = 0x0F;
constexpr std::uint16_t kMarkBits = 0xFFF0;
constexpr std::uint8_t kDirty = 0x80;
constexpr std::uint8_t kMissesBeforeHalving = 16;
/// From the prefetch of a set to its look-up.
constexpr std::int64_t kSetsAhead = 32;

bool has_upper(std::int64_t rows) { return rows >= std::numeric_limits<std::uint32_t>::max(); }

/// Mixes all bits into all bits: the finaliser of MurmurHash3 with one multiplication less.
std::uint64_t hash_of(std::int64_t row) {
  auto x = static_cast<std::uint64_t>(row) * 0xFF51AFD7ED558CCDULL;
  x ^= x >> 32;
  return x * 0xC4CEB9FE1A85EC53ULL;
}

/// A row in a History. The bits choose no set.
std::uint16_t mark_of(std::int64_t row) {
  const auto bits = static_cast<std::uint16_t>(hash_of(row) >> 12 & 0xFFF);
  return static_cast<std::uint16_t>(std::max<std::uint16_t>(bits, 1) << 4);
}

unsigned count_in(std::uint16_t seen) { return seen & kCountBits; }

using Tags = std::uint32_t __attribute__((vector_size(16)));
using Matches = std::int32_t __attribute__((vector_size(16)));

/// Bit masks of the equal tags, for four at a time.
template <std::size_t first>
Matches matches(const std::array<std::uint32_t, CacheSets::kWays>& tags, std::uint32_t wanted) {
  Tags four;
  std::memcpy(&four, tags.data() + first, sizeof(four));
  return four == Tags{wanted, wanted, wanted, wanted};
}

/// The position of the one tag that matches, or -1. Without a branch per tag, which would be mispredicted.
template <class Match>
std::int64_t position_of(Match match) {
  const Matches found = (match.template operator()<0>() & Matches{1, 2, 3, 4}) |
                        (match.template operator()<4>() & Matches{5, 6, 7, 8}) |
                        (match.template operator()<8>() & Matches{9, 10, 11, 12});
  return std::int64_t{found[0] | found[1] | found[2] | found[3]} - 1;
}

}  // namespace

std::int64_t CacheSets::bytes(std::int64_t sets, std::int64_t rows) {
  const auto each = sizeof(Set) + sizeof(History) + (has_upper(rows) ? sizeof(Upper) : 0);
  return (sets * static_cast<std::int64_t>(each) + 63) / 64 * 64;
}

CacheSets::CacheSets(std::byte* memory, std::int64_t sets, std::int64_t rows)
    : sets_(static_cast<std::uint32_t>(sets)),
      all_(reinterpret_cast<Set*>(memory)),
      histories_(reinterpret_cast<History*>(all_ + sets)),
      upper_(has_upper(rows) ? reinterpret_cast<Upper*>(histories_ + sets) : nullptr) {}

std::uint32_t CacheSets::set_of(std::int64_t row) const {
  return static_cast<std::uint32_t>((hash_of(row) >> 32) * sets_ >> 32);
}

std::int64_t CacheSets::way_of(std::uint32_t number, std::int64_t row) const {
  const auto tag = static_cast<std::uint64_t>(row) + 1;
  const auto& tags = set(number).tags;
  const auto lower = static_cast<std::uint32_t>(tag);
  if (upper_ == nullptr) return position_of([&]<std::size_t first>() { return matches<first>(tags, lower); });
  const auto& uppers = upper_[number];
  return position_of([&]<std::size_t first>() {
    return matches<first>(tags, lower) & matches<first>(uppers, static_cast<std::uint32_t>(tag >> 32));
  });
}

/// Counts are hints: if threads count one row at once, some of the look-ups are lost.
template <bool counting, class Index>
std::int64_t CacheSets::look_up(const Index* rows, std::int64_t count, std::int32_t* slots) const {
  for (std::int64_t i = 0; i < count; ++i) slots[i] = static_cast<std::int32_t>(set_of(rows[i]));
  std::int64_t missing = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kSetsAhead < count)
      __builtin_prefetch(&set(static_cast<std::uint32_t>(slots[i + kSetsAhead])), 1);
    const auto number = static_cast<std::uint32_t>(slots[i]);
    const auto way = way_of(number, rows[i]);
    slots[i] = way < 0 ? -1 : static_cast<std::int32_t>(number * kWays + way);
    missing += way < 0 ? 1 : 0;
    if (!counting || way < 0) continue;
    const std::atomic_ref state(set(number).states[static_cast<std::size_t>(way)]);
    const auto now = state.load(std::memory_order_relaxed);
    if ((now & kCountBits) < kMostCount)
      state.store(static_cast<std::uint8_t>(now + 1), std::memory_order_relaxed);
  }
  return missing;
}

template <class Index>
std::int64_t CacheSets::find(const Index* rows, std::int64_t count, std::int32_t* slots) {
  return look_up<true>(rows, count, slots);
}

template <class Index>
std::int64_t CacheSets::peek(const Index* rows, std::int64_t count, std::int32_t* slots) const {
  return look_up<false>(rows, count, slots);
}

template std::int64_t CacheSets::find(const std::int32_t*, std::int64_t, std::int32_t*);
template std::int64_t CacheSets::find(const std::int64_t*, std::int64_t, std::int32_t*);
template std::int64_t CacheSets::peek(const std::int32_t*, std::int64_t, std::int32_t*) const;
template std::int64_t CacheSets::peek(const std::int64_t*, std::int64_t, std::int32_t*) const;

std::int64_t CacheSets::slot_of(std::int64_t row) const {
  const auto number = set_of(row);
  const auto way = way_of(number, row);
  return way < 0 ? -1 : number * kWays + way;
}

/// The way of an empty slot, or else of the least used row that is not dirty; -1 if all are dirty.
std::int64_t CacheSets::victim(const Set& set) const {
  std::int64_t found = -1;
  int least = kMostCount + 1;
  for (std::int64_t way = 0; way < kWays; ++way) {
    const auto k = static_cast<std::size_t>(way);
    const bool empty = set.states[k] == 0 && row_of(static_cast<std::uint32_t>(&set - all_), way) < 0;
    const int count = empty ? -1 : set.states[k] & kCountBits;
    if ((set.states[k] & kDirty) == 0 && count < least) found = way, least = count;
  }
  return found;
}

std::int64_t CacheSets::row_of(std::uint32_t number, std::int64_t way) const {
  const auto k = static_cast<std::size_t>(way);
  const auto upper = upper_ == nullptr ? std::uint64_t{0} : std::uint64_t{upper_[number][k]} << 32;
  return static_cast<std::int64_t>(upper | set(number).tags[k]) - 1;
}

void CacheSets::put(std::uint32_t number, std::int64_t way, std::int64_t row, unsigned count) {
  const auto k = static_cast<std::size_t>(way);
  const auto tag = static_cast<std::uint64_t>(row) + 1;
  if (upper_ != nullptr) upper_[number][k] = static_cast<std::uint32_t>(tag >> 32);
  set(number).tags[k] = static_cast<std::uint32_t>(tag);
  set(number).states[k] = static_cast<std::uint8_t>(count);
}

void CacheSets::age(Set& set, History& history) const {
  if (++history.misses < kMissesBeforeHalving) return;
  history.misses = 0;
  for (auto& state : set.states)
    state = static_cast<std::uint8_t>((state & kDirty) | (state & kCountBits) >> 1);
  for (auto& seen : history.seen) seen = static_cast<std::uint16_t>((seen & kMarkBits) | count_in(seen) >> 1);
}

/// Replaces the oldest entry that was seen once, and lowers those that it passes.
void CacheSets::remember(History& history, std::uint16_t made) {
  for (std::size_t tried = 0;; ++tried) {
    auto& oldest = history.seen[history.next];
    history.next = static_cast<std::uint8_t>((history.next + 1) % kSeen);
    if (count_in(oldest) <= 1 || tried == kSeen) {
      oldest = made;
      return;
    }
    --oldest;
  }
}

std::int64_t CacheSets::admit(std::int64_t row, std::int64_t times) {
  const auto number = set_of(row);
  auto& mine = set(number);
  auto& history = histories_[number];
  const auto mark = mark_of(row);
  auto* entry = std::ranges::find_if(history.seen, [&](auto seen) { return (seen & kMarkBits) == mark; });
  const bool known = entry != history.seen.end();
  if (known) age(mine, history);
  const auto count =
      static_cast<unsigned>(std::min<std::int64_t>(kMostCount, times + (known ? count_in(*entry) : 0)));
  const auto keep = [&](std::uint16_t what, unsigned its_count) {
    const auto made = static_cast<std::uint16_t>(what | its_count);
    known ? void(*entry = made) : remember(history, made);
  };
  const auto way = victim(mine);
  const auto old = way < 0 ? -1 : row_of(number, way);
  const auto old_count = way < 0 ? kMostCount : mine.states[static_cast<std::size_t>(way)] & kCountBits;
  if (way < 0 || (old >= 0 && count <= old_count)) {
    keep(mark, count);
    return -1;
  }
  if (old >= 0) {
    keep(mark_of(old), old_count);
    ++evictions_;
  } else if (known) {
    *entry = 0;
  }
  put(number, way, row, count);
  return number * kWays + way;
}

std::int64_t CacheSets::place(std::int64_t row) {
  const auto number = set_of(row);
  const auto way = victim(set(number));
  if (way < 0) return -1;
  if (row_of(number, way) >= 0) ++evictions_;
  put(number, way, row, 1);
  return number * kWays + way;
}

void CacheSets::drop(std::int64_t row) {
  const auto number = set_of(row);
  if (const auto way = way_of(number, row); way >= 0) put(number, way, -1, 0);
}

std::int64_t CacheSets::row_in(std::int64_t slot) const {
  return row_of(static_cast<std::uint32_t>(slot / kWays), slot % kWays);
}

bool CacheSets::is_dirty(std::int64_t slot) const {
  const auto& states = set(static_cast<std::uint32_t>(slot / kWays)).states;
  return (states[static_cast<std::size_t>(slot % kWays)] & kDirty) != 0;
}

void CacheSets::set_dirty(std::int64_t slot, bool dirty) {
  auto& state = set(static_cast<std::uint32_t>(slot / kWays)).states[static_cast<std::size_t>(slot % kWays)];
  state = static_cast<std::uint8_t>((state & ~kDirty) | (dirty ? kDirty : 0));
}

void CacheSets::prefetch(std::int64_t row) const {
  const auto number = set_of(row);
  __builtin_prefetch(&set(number), 1);
  __builtin_prefetch(&histories_[number], 1);
}

}  // namespace speedtorch
