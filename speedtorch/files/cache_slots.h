/// The rows that a RowCache holds, and the lock that guards them. For the library's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "speedtorch/files/cache_misses.h"
#include "speedtorch/files/cache_sets.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/system/fair_shared_mutex.h"

namespace speedtorch {

/// Several threads may call gather(), find_missed() and admit() at once. Other members need held().
class CacheSlots {
 public:
  static constexpr std::int64_t kGrain = 8 << 10;  ///< look-ups for which a second thread is woken
  /// From the prefetch of a row's set to its use.
  static constexpr std::int64_t kAhead = 8;

  /// @throws OptionError if the bytes do not suffice for twelve rows; MemoryError
  CacheSlots(const FileTable& table, std::int64_t bytes);

  /// Copies the rows that have slots to their positions in `out`, and lists the other look-ups. Counts all.
  template <class Index>
  void gather(const Index* rows, std::int64_t count, std::byte* out, LookUps& look_ups);
  /// Lists the look-ups of rows without slots. Counts none.
  template <class Index>
  void find_missed(const Index* rows, std::int64_t count, LookUps& look_ups);

  /// Gives the rows slots if they deserve them. Brings the bytes of rows that were written after they were
  /// looked up to date first: what was read may be half of each value, and must not replace a newer row.
  /// @param bytes of row r at place r.place
  void admit(const std::vector<MissedRow>& rows, std::byte* bytes, FileRows& file);

  /// Guards the sets and the slots. Look-ups and copies from slots share it.
  [[nodiscard]] FairSharedMutex& held() const { return held_; }
  [[nodiscard]] CacheSets& sets() { return sets_; }
  [[nodiscard]] const CacheSets& sets() const { return sets_; }
  [[nodiscard]] std::byte* row_at(std::int64_t slot) const { return rows_ + slot * row_bytes_; }
  void copy_row(std::byte* to, const std::byte* from) const;

  [[nodiscard]] std::int64_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] std::int64_t bytes() const { return memory_->bytes(); }

 private:
  template <class Index>
  [[nodiscard]] std::int64_t look_up(const Index* rows, std::int64_t count, std::int32_t* slots);
  void renew(const std::vector<MissedRow>& rows, std::byte* bytes, FileRows& file) const;

  std::int64_t row_bytes_, sets_count_, sets_bytes_;
  std::shared_ptr<Memory> memory_;  ///< the sets and then the slots
  std::byte* rows_;
  CacheSets sets_;
  mutable FairSharedMutex held_;
};

}  // namespace speedtorch
