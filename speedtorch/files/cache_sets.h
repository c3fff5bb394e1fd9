/// Decides which rows a RowCache holds, in which slots, and which row makes room for another. No LibTorch.
/// For the library's own files.
///
/// A hash of the row's number chooses a set of 12 slots. A look-up reads one cache line: the rows in the
/// set's slots and how often each was looked up, up to 7 times. A missed row replaces the least used row of
/// its set if it was looked up more often. A second cache line per set remembers the counts of 30 rows that
/// are not in it. After 16 misses of remembered rows the set's counts are halved, so that rows that are no
/// longer used make room. A scan misses rows that are not remembered, and replaces nothing.
///
/// On zipf look-ups (exponent 1.05, 2 % of the rows) this has more hits than S3-FIFO, CLOCK or LRU over all
/// slots (tests/speedtorch/files/cache_sets_test.cpp), and it needs 10.7 bytes per slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace speedtorch {

/// Not thread-safe, with one exception: several threads may call find(), peek(), slot_of() and version() at
/// once.
class CacheSets {
 public:
  static constexpr std::int64_t kWays = 12;  ///< slots of a set

  /// Bytes of `sets` sets of a table of `rows` rows; a multiple of 64.
  static std::int64_t bytes(std::int64_t sets, std::int64_t rows);

  /// @param memory bytes(sets, rows) zeros, aligned to 64 bytes, which outlive the object
  /// @param sets 1 or more; with at most 2^31 - 1 slots in all
  CacheSets(std::byte* memory, std::int64_t sets, std::int64_t rows);

  [[nodiscard]] std::int64_t slots() const { return static_cast<std::int64_t>(sets_) * kWays; }

  /// slots[i] = the slot of row rows[i], or -1 if it has none. Counts the look-ups.
  /// @param rows `count` rows of the table @returns how many have no slot
  template <class Index>
  std::int64_t find(const Index* rows, std::int64_t count, std::int32_t* slots);
  /// The same, without counting.
  template <class Index>
  std::int64_t peek(const Index* rows, std::int64_t count, std::int32_t* slots) const;
  /// The slot of a row or -1, without counting.
  [[nodiscard]] std::int64_t slot_of(std::int64_t row) const;

  /// Differs from its former value if a row of this row's set was written meanwhile.
  [[nodiscard]] std::uint32_t version(std::int64_t row) const { return set(set_of(row)).version; }
  void note_write(std::int64_t row) { ++set(set_of(row)).version; }

  /// Gives a row that has no slot one, if it was looked up more often than the row that it replaces. Never
  /// replaces a dirty row.
  /// @param times how often it was just looked up @returns its slot, or -1
  std::int64_t admit(std::int64_t row, std::int64_t times);
  /// Gives a row that has no slot one. Returns -1 if all rows of its set are dirty.
  std::int64_t place(std::int64_t row);
  /// Takes the row's slot away, if it has one.
  void drop(std::int64_t row);

  /// The row in a slot, or -1.
  [[nodiscard]] std::int64_t row_in(std::int64_t slot) const;
  [[nodiscard]] bool is_dirty(std::int64_t slot) const;
  void set_dirty(std::int64_t slot, bool dirty);

  /// The number of rows that made room for others.
  [[nodiscard]] std::int64_t evictions() const { return evictions_; }

  /// Starts loading what admit() and place() read.
  void prefetch(std::int64_t row) const;

 private:
  static constexpr std::size_t kSeen = 30;

  /// A cache line. A tag is the lower half of the row's number plus 1; 0 in an empty slot. A state is the
  /// row's count (0 to 7) and whether it is dirty.
  struct alignas(64) Set {
    std::array<std::uint32_t, kWays> tags;
    std::array<std::uint8_t, kWays> states;
    std::uint32_t version;
  };
  /// Rows that are not in the set: 12 bits of a row's hash and its count; 0 in an empty entry.
  struct alignas(64) History {
    std::array<std::uint16_t, kSeen> seen;
    std::uint8_t next;    ///< the entry that is replaced next
    std::uint8_t misses;  ///< of remembered rows since the counts were halved
  };
  /// The upper halves of the rows' numbers, for tables of 2^32 - 1 rows or more.
  using Upper = std::array<std::uint32_t, kWays>;

  [[nodiscard]] std::uint32_t set_of(std::int64_t row) const;
  [[nodiscard]] Set& set(std::uint32_t number) const { return all_[number]; }
  [[nodiscard]] std::int64_t way_of(std::uint32_t number, std::int64_t row) const;
  [[nodiscard]] std::int64_t victim(const Set& set) const;
  [[nodiscard]] std::int64_t row_of(std::uint32_t number, std::int64_t way) const;
  void put(std::uint32_t number, std::int64_t way, std::int64_t row, unsigned count);
  void age(Set& set, History& history) const;
  static void remember(History& history, std::uint16_t made);
  template <bool counting, class Index>
  std::int64_t look_up(const Index* rows, std::int64_t count, std::int32_t* slots) const;

  std::uint32_t sets_;
  Set* all_;
  History* histories_;
  Upper* upper_;  ///< null for smaller tables
  std::int64_t evictions_ = 0;
};

}  // namespace speedtorch
