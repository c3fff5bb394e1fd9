#include "speedtorch/files/cache_slots.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// More sets would stay empty: with four rows per set of twelve slots, 3 in 10,000 rows find theirs full.
constexpr std::int64_t kFewestRowsPerSet = 4;

std::int64_t sets_within(const FileTable& table, std::int64_t bytes) {
  const auto each = CacheSets::bytes(1, table.rows) + CacheSets::kWays * table.row_bytes;
  if (bytes < each) {
    throw OptionError("a row cache of " + std::to_string(bytes) + " bytes is too small: twelve rows of " +
                      std::to_string(table.row_bytes) + " bytes and their bookkeeping take " +
                      std::to_string(each));
  }
  return std::min({bytes / each, table.rows / kFewestRowsPerSet + 1,
                   std::numeric_limits<std::int32_t>::max() / CacheSets::kWays});
}

/// Missed rows get slot 0, so that one gather takes all slots. That costs little.
template <class Index>
void list_missed(const CacheSets& sets, const Index* rows, std::int64_t count, LookUps& look_ups) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& slot = look_ups.slots[static_cast<std::size_t>(i)];
    if (slot >= 0) continue;
    const auto row = static_cast<std::int64_t>(rows[i]);
    look_ups.missed.push_back({row, i, sets.version(row)});
    slot = 0;
  }
}

void begin(LookUps& look_ups, std::int64_t count) {
  look_ups.slots.resize(std::max(look_ups.slots.size(), static_cast<std::size_t>(count)));
  look_ups.missed.clear();
}

}  // namespace

CacheSlots::CacheSlots(const FileTable& table, std::int64_t bytes)
    : row_bytes_(table.row_bytes),
      sets_count_(sets_within(table, bytes)),
      sets_bytes_(CacheSets::bytes(sets_count_, table.rows)),
      memory_(allocate(Placement::hugepage, sets_bytes_ + sets_count_ * CacheSets::kWays * row_bytes_)),
      rows_(memory_->data() + sets_bytes_),
      sets_((std::memset(memory_->data(), 0, static_cast<std::size_t>(sets_bytes_)), memory_->data()),
            sets_count_, table.rows) {}

void CacheSlots::copy_row(std::byte* to, const std::byte* from) const {
  std::memcpy(to, from, static_cast<std::size_t>(row_bytes_));
}

template <class Index>
void CacheSlots::gather(const Index* rows, std::int64_t count, std::byte* out, LookUps& look_ups) {
  begin(look_ups, count);
  const std::shared_lock lock(held_);
  if (look_up(rows, count, look_ups.slots.data()) > 0) list_missed(sets_, rows, count, look_ups);
  kernels::gather_rows({rows_, sets_.slots(), row_bytes_, row_bytes_}, look_ups.slots.data(), count,
                       {out, count, row_bytes_, row_bytes_}, parallel_for);
}

template <class Index>
void CacheSlots::find_missed(const Index* rows, std::int64_t count, LookUps& look_ups) {
  begin(look_ups, count);
  const std::shared_lock lock(held_);
  if (sets_.peek(rows, count, look_ups.slots.data()) > 0) list_missed(sets_, rows, count, look_ups);
}

template <class Index>
std::int64_t CacheSlots::look_up(const Index* rows, std::int64_t count, std::int32_t* slots) {
  if (count <= kGrain) return sets_.find(rows, count, slots);
  std::atomic<std::int64_t> missing = 0;
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    missing.fetch_add(sets_.find(rows + begin, end - begin, slots + begin), std::memory_order_relaxed);
  });
  return missing.load();
}

template void CacheSlots::gather(const std::int32_t*, std::int64_t, std::byte*, LookUps&);
template void CacheSlots::gather(const std::int64_t*, std::int64_t, std::byte*, LookUps&);
template void CacheSlots::find_missed(const std::int32_t*, std::int64_t, LookUps&);
template void CacheSlots::find_missed(const std::int64_t*, std::int64_t, LookUps&);

void CacheSlots::admit(const std::vector<MissedRow>& rows, std::byte* bytes, FileRows& file) {
  const std::lock_guard lock(held_);
  std::vector<MissedRow> written;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (k + kAhead < rows.size()) sets_.prefetch(rows[k + kAhead].row);
    const auto& one = rows[k];
    if (sets_.version(one.row) != one.version) {
      written.push_back(one);
    } else if (sets_.slot_of(one.row) < 0) {  // else another thread has brought it
      const auto slot = sets_.admit(one.row, static_cast<std::int64_t>(one.last - one.first));
      if (slot >= 0) copy_row(row_at(slot), bytes + one.place * row_bytes_);
    }
  }
  renew(written, bytes, file);
}

/// Brings the rows' bytes up to date. No thread writes meanwhile.
void CacheSlots::renew(const std::vector<MissedRow>& rows, std::byte* bytes, FileRows& file) const {
  for (const auto& one : rows) {
    auto* to = bytes + one.place * row_bytes_;
    if (const auto slot = sets_.slot_of(one.row); slot >= 0) {
      copy_row(to, row_at(slot));
      continue;
    }
    auto again = at::empty({1, row_bytes_}, at::kByte);
    auto named = at::empty({1}, at::kLong);
    *named.data_ptr<std::int64_t>() = one.row;
    file.gather(named, again);
    copy_row(to, static_cast<const std::byte*>(again.const_data_ptr()));
  }
}

}  // namespace speedtorch
