/// Finds races: two accesses of a byte by different threads of a launch, one of them a write, that nothing
/// orders.
///
/// Ordered are accesses by barriers of the block, by bar.warp.sync among the lanes that it names, and by
/// release and acquire: a fence and then an atomic or volatile write, read by another thread that then has a
/// fence (or the forms with .release and .acquire). Shuffles and votes order nothing. Atomic and volatile
/// accesses may meet each other.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/emulated_gpu/ptx/clocks.h"
#include "tests/emulated_gpu/ptx/code.h"
#include "tests/emulated_gpu/ptx/shadow.h"

namespace emulated_gpu {

class Block;
class Grid;
class Warp;

/// The knowledge that the last release at an address passed on: to threads of its block, and to all.
struct Released {
  std::uint64_t block = 0;
  SharedKnowledge to_block, to_all;
};
using Releases = std::unordered_map<std::uint64_t, Released>;

/// The threads of a block, and its shared memory.
class BlockRaces {
 public:
  void start(std::uint64_t block, unsigned threads);

  struct Thread {
    std::uint32_t step = 0;
    std::array<Clock, kLanes> lanes{};                 ///< what is known of the lanes of its warp
    SharedKnowledge known;                             ///< of all others
    SharedKnowledge fenced_for_block, fenced_for_all;  ///< what it knew at its last fence of that scope
    SharedKnowledge seen_in_block, seen;               ///< read from releases, known from the next fence on
  };

  ThreadId id(unsigned thread) const { return {block_, thread}; }
  Clock clock(unsigned thread) const { return {phase_, threads_[thread].step}; }
  Thread& thread(unsigned number) { return threads_[number]; }
  bool knows(unsigned thread, const Touch& touch) const;
  /// All that a thread knows, its own accesses included; and its clock goes on.
  SharedKnowledge publish(unsigned thread);
  void whole_barrier();
  void part_barrier(const std::vector<unsigned>& arrived, const std::vector<unsigned>& waited);
  void warp_barrier(unsigned first_thread, Mask lanes);
  void fence(unsigned thread, Scope scope);
  /// Executes the synchronisation of a strong access at an address with releases.
  void synchronise(unsigned thread, const Access& access, Released& released);

  Shadow shadow;
  Releases releases;

 private:
  std::uint64_t block_ = 0;
  std::uint32_t phase_ = 0;
  std::vector<Thread> threads_;
};

class Races {
 public:
  explicit Races(Grid& grid) : grid_(grid) {}
  void global(Warp& warp, const Instruction& in, const Access& access, unsigned lane, std::uint64_t address);
  void shared(Warp& warp, const Instruction& in, const Access& access, unsigned lane, std::uint64_t address);
  void warp_barrier(Warp& warp, Mask lanes);
  void fence(Warp& warp, Mask lanes, Scope scope);

 private:
  void note(Warp& warp, const Instruction& in, const Access& access, unsigned lane, std::uint64_t address,
            Shadow& shadow, Releases& releases, const char* where);

  Grid& grid_;
  Shadow shadow_;
  Releases releases_;
};

}  // namespace emulated_gpu
