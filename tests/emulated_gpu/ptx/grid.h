/// A launch while it runs: its blocks, and what their accesses share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_gpu/ptx.h"
#include "tests/emulated_gpu/ptx/races.h"
#include "tests/emulated_gpu/ptx/warp.h"

namespace emulated_gpu {

/// A block: its warps, shared memory and barriers. Reused for one block of the grid after another.
class Block {
 public:
  explicit Block(Grid& grid);
  void start(std::uint64_t number);

  enum class Outcome { finished, spins };
  /// Until it has ended, or waits for what another block writes. @throws Fault where it can never go on
  Outcome run();

  Grid& grid() { return grid_; }
  std::uint64_t number() const { return number_; }
  Dim index() const;
  std::byte* shared() { return shared_.data(); }
  std::size_t shared_bytes() const { return shared_.size(); }
  std::vector<std::uint8_t>& shared_written() { return shared_written_; }
  BlockRaces& races() { return races_; }
  unsigned threads() const;

  /// Lanes of a warp come to a barrier. Releases all that wait there where these were the last.
  void arrive(Warp& warp, const Instruction& in, Mask lanes, std::uint32_t position);
  void thread_ended();
  std::string where_warps_stand() const;

 private:
  struct Waiter {
    Warp* warp = nullptr;
    const Instruction* in = nullptr;
    Mask lanes = 0;
    std::uint32_t position = 0;
  };
  struct Barrier {
    std::vector<Waiter> waiters;
    std::vector<const Warp*> arrived_warps;
    unsigned wanted = 0;  ///< threads; 0: all that have not ended
    unsigned arrived = 0;
    unsigned holds = 0;  ///< threads whose predicate is true
    unsigned asked = 0;
  };
  void complete(Barrier& barrier);
  void order(const Barrier& barrier);  ///< for the race finder
  void complete_if_all_came(Barrier& barrier);
  unsigned living() const;
  void fill_specials(Warp& warp, bool first);
  [[noreturn]] void tell_deadlock();

  Grid& grid_;
  std::uint64_t number_ = 0;
  bool was_started_ = false;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::vector<bool> finished_;
  std::vector<std::byte> shared_;
  std::vector<std::uint8_t> shared_written_;
  std::vector<Barrier> barriers_;
  BlockRaces races_;
};

class Grid {
 public:
  explicit Grid(const Launch& launch);
  Counts run();

  const Launch& launch() const { return launch_; }
  const Kernel& kernel() const { return *launch_.kernel; }
  const Code& code() const { return *launch_.kernel->code; }
  /// The range that an access touched last.
  Range& last_range(std::uint32_t access) { return ranges_[access]; }
  Range find_range(std::uint64_t address);
  /// Memory changed, so what spins may go on.
  void note_change() { ++changes_; }
  void count(std::uint64_t instructions, Mask lanes) {
    counts_.warp_instructions += instructions;
    counts_.thread_instructions += instructions * static_cast<unsigned>(__builtin_popcount(lanes));
  }
  Races* races() { return races_.get(); }
  std::string line_text(std::uint32_t line) const;

 private:
  void start_next();
  void run_suspended();
  void run_block(std::unique_ptr<Block> block);

  Launch launch_;
  std::vector<Range> ranges_;
  std::vector<Range> recent_;
  std::size_t next_recent_ = 0;
  std::uint64_t changes_ = 0;
  Counts counts_;
  std::unique_ptr<Races> races_;
  std::vector<std::uint64_t> order_;
  std::size_t started_ = 0;
  std::vector<std::unique_ptr<Block>> idle_, suspended_;
};

}  // namespace emulated_gpu
