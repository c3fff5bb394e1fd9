/// A warp: its rows of registers, and which of its lanes stand where.
///
/// Lanes that stand at the same instruction form a group. The group that stands first in the text runs, until
/// it reaches the next one and joins it, or waits. So lanes that diverged join again where their paths meet,
/// and any order of groups is one that a device could have chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulated_gpu/ptx/code.h"

namespace emulated_gpu {

class Block;
class Grid;

class Warp {
 public:
  Warp(Block& block, unsigned number);

  void start(unsigned threads_in_block);  ///< all lanes at the first instruction

  enum class Outcome { finished, waits, yields };
  /// Until all lanes have ended, wait for other warps, or wait for what others write.
  Outcome run();
  bool can_run() const;

  template <class T>
  T* row(Slot slot) {
    return reinterpret_cast<T*>(registers_ + slot);
  }
  template <class T>
  const T* row(Slot slot) const {
    return reinterpret_cast<const T*>(registers_ + slot);
  }
  Mask& predicate(Slot slot) { return *row<Mask>(slot); }

  const Access& access_of(const Instruction& in) const { return code_.accesses[in.access]; }

  Block& block() { return block_; }
  Grid& grid();
  unsigned number() const { return number_; }
  unsigned thread_of(unsigned lane) const { return number_ * kLanes + lane; }
  Mask ended() const { return ended_; }

  /// For the instructions: an access that may wait for others was done (a spinning warp is left for another
  /// one).
  void note_poll() { polled_ = true; }
  /// For barriers: the lanes of a group that stands at `position` go on behind it.
  void release(Mask lanes, std::uint32_t position);

  [[noreturn]] void fault(int code, const Instruction& in, unsigned lane, const std::string& what);
  /// "warp 1, lanes 0xffff0000 at line 90: bar.sync 0;" of each group, for a deadlock.
  std::string where_it_stands() const;
  std::byte* local(unsigned lane);  ///< a lane's local memory

 private:
  enum class State : std::uint8_t { ready, yielded, at_collective, at_barrier };
  struct Group {
    Mask lanes = 0;
    std::uint32_t position = 0;
    State state = State::ready;
  };

  void run_group(Group group);
  bool take_lowest(Group& group);
  std::uint32_t lowest_ready() const;
  void add(Group group);
  /// Joins ready groups that stand where this one does.
  void join(Group& group);
  /// The lanes of `arrived` that need not wait; the others are put among those that do.
  Mask meet(const Instruction& in, Mask arrived, std::uint32_t position);
  /// Lets go on those of which all are there that their member masks name.
  void complete_collectives();
  void go_on_together(std::uint32_t position, Mask lanes);
  void end(Mask lanes);

  Block& block_;
  const Code& code_;
  std::byte* registers_ = nullptr;
  std::vector<std::byte> storage_;
  std::vector<std::byte> local_;
  unsigned number_ = 0;
  Mask ended_ = 0;
  bool polled_ = false;
  std::vector<Group> groups_;
};

template <class Use>
void for_each_lane(Mask mask, Use use) {
  for (; mask != 0; mask &= mask - 1) use(static_cast<unsigned>(__builtin_ctz(mask)));
}

}  // namespace emulated_gpu
