/// A test's memory policy for the CUDA kernels' body: it moves as the device does, and counts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "speedtorch/kernels/cuda/lane.h"
#include "tests/speedtorch/kernels/row_buffer.h"

namespace speedtorch::kernels {

/// Counts the loads of each byte of one buffer and the stores of each byte of another. An access outside of
/// them or unaligned is a failure and is skipped.
class CountingMemory {
 public:
  CountingMemory(const RowBuffer& from, const RowBuffer& to)
      : from_(from), to_(to), loads_(from.bytes().size()), stores_(to.bytes().size()) {}

  template <class Word>
  Word load(const std::byte* from) {
    Word word{};
    if (!count(from_, loads_, from, sizeof(Word))) return word;
    if (listen_) listen_(from, sizeof(Word));
    std::memcpy(&word, from, sizeof(Word));
    return word;
  }

  template <class Word>
  void store(std::byte* to, Word word) {
    if (!count(to_, stores_, to, sizeof(Word))) return;
    if (listen_) listen_(to, sizeof(Word));
    std::memcpy(to, &word, sizeof(Word));
  }

  template <class Index>
  Index load_index(const Index* at) {
    return *at;
  }

  void bad_index(IndexErrors* errors, std::int64_t position, std::int64_t index, std::int64_t rows) {
    ++errors->count;
    if (errors->first_position == IndexErrors{}.first_position) {
      errors->seen_position = position;
      errors->seen_index = index;
      errors->seen_rows = rows;
    }
    errors->first_position = std::min(errors->first_position, static_cast<unsigned long long>(position));
  }

  /// `listen(address, bytes)` is called for every load and store.
  template <class Listen>
  void on_access(Listen listen) {
    listen_ = listen;
  }

  /// How often each byte of the buffers was read and written, including margins and gaps.
  const std::vector<int>& loads() const { return loads_; }
  const std::vector<int>& stores() const { return stores_; }

 private:
  static bool count(const RowBuffer& buffer, std::vector<int>& counts, const std::byte* at,
                    std::size_t width) {
    const auto aligned = reinterpret_cast<std::uintptr_t>(at) % width == 0;
    const auto place = reinterpret_cast<std::uintptr_t>(at) -
                       reinterpret_cast<std::uintptr_t>(buffer.bytes().data());  // wraps below the buffer
    const bool inside = place < counts.size() && width <= counts.size() - place;
    if (!aligned || !inside) {
      ADD_FAILURE() << width << " bytes at " << place << ": " << (aligned ? "outside" : "not aligned");
      return false;
    }
    for (std::size_t i = 0; i < width; ++i) ++counts[place + i];
    return true;
  }

  const RowBuffer& from_;
  const RowBuffer& to_;
  std::vector<int> loads_;
  std::vector<int> stores_;
  std::function<void(const std::byte*, std::size_t)> listen_;
};

/// Calls `call` with a value of the unsigned type of `width` bytes.
template <class Call>
void with_word(int width, Call call) {
  switch (width) {
    case 1:
      return call(std::uint8_t{});
    case 2:
      return call(std::uint16_t{});
    case 4:
      return call(std::uint32_t{});
    case 8:
      return call(std::uint64_t{});
    case 16:
      return call(Word16{});
    default:
      FAIL() << "no access of " << width << " bytes";
  }
}

/// Runs `call(FromWord, ToWord, kLinked)` with the types of a plan, as the launch selects the kernel.
template <class Call>
void with_kernel(const LanePlan& plan, Call call) {
  const bool linked = plan.access == Access::link_read || plan.access == Access::link_write;
  with_word(plan.from_width, [&](auto from) {
    with_word(plan.to_width, [&](auto to) {
      linked ? call(from, to, std::true_type{}) : call(from, to, std::false_type{});
    });
  });
}

/// Runs every thread of a launch, one after the other; two of its parts share long rows' items.
template <class Index, class Memory>
void run_threads(const LaneMove<Index>& move, std::int64_t threads, Memory& memory) {
  const std::int64_t parts = std::min<std::int64_t>(2, move.plan.row_items);
  with_kernel(move.plan, [&](auto from, auto to, auto linked) {
    for (std::int64_t part = 0; part < parts; ++part) {
      for (std::int64_t thread = 0; thread < threads; ++thread) {
        move_lane<decltype(from), decltype(to), decltype(linked)::value>(move, {thread, threads, part, parts},
                                                                         memory);
      }
    }
  });
}

/// The expected counts of a buffer's bytes: one per byte of the selected rows, none anywhere else.
template <class Index>
std::vector<int> once_each(const RowBuffer& buffer, const std::vector<Index>& rows) {
  std::vector<int> counts(buffer.bytes().size());
  for (const Index row : rows) {
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(buffer.place(row));
    std::for_each(first, first + buffer.row_bytes(), [](int& count) { ++count; });
  }
  return counts;
}

/// 0, 1, ... count - 1.
inline std::vector<std::int64_t> all_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  return rows;
}

}  // namespace speedtorch::kernels
