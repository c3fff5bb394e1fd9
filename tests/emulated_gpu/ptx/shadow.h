/// The last accesses of each byte, for the race finder.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/emulated_gpu/ptx/clocks.h"
#include "tests/emulated_gpu/ptx/code.h"

namespace emulated_gpu {

/// An access of some bytes of a granule of 8.
struct Touch {
  ThreadId who;
  Clock when;
  std::uint32_t line = 0;
  std::uint8_t bytes = 0;  ///< a bit per byte
  bool writes = false;
  bool strong = false;  ///< atomic, volatile or with an order: two such may meet
  Scope scope = Scope::system;
};

class Shadow {
 public:
  /// Checks and notes an access. `is_known(touch)` says whether an earlier one is ordered before it.
  /// Returns the one that it races with, or null.
  template <class IsKnown>
  const Touch* note(std::uint64_t granule, const Touch& touch, IsKnown is_known);
  void clear() { touches_.clear(); }

 private:
  static bool may_meet(const Touch& a, const Touch& b) {
    if (!a.writes && !b.writes) return true;
    if (!a.strong || !b.strong) return false;
    return a.who.block == b.who.block || (a.scope != Scope::block && b.scope != Scope::block);
  }
  static void keep(std::vector<Touch>& touches, const Touch& touch);

  std::unordered_map<std::uint64_t, std::vector<Touch>> touches_;
  Touch found_;
};

template <class IsKnown>
const Touch* Shadow::note(std::uint64_t granule, const Touch& touch, IsKnown is_known) {
  auto& touches = touches_[granule];
  const Touch* race = nullptr;
  std::erase_if(touches, [&](const Touch& earlier) {
    if ((earlier.bytes & touch.bytes) == 0) return false;
    const bool same = earlier.who == touch.who;
    if (!same && !is_known(earlier)) {
      if (race == nullptr && !may_meet(earlier, touch)) {
        found_ = earlier;
        race = &found_;
      }
      return false;
    }
    // Each access that races with the earlier one races with this one too, so the earlier one is dropped.
    const bool covered = (earlier.bytes & ~touch.bytes) == 0 && (touch.writes || !earlier.writes);
    return covered && (earlier.strong || !touch.strong);
  });
  if (race == nullptr) keep(touches, touch);
  return race;
}

}  // namespace emulated_gpu
