/// Knows for a thread of a launch which accesses of others are ordered before its next one.
///
/// A thread's clock is its block's number of barriers (`phase`) and the number of its own synchronisations
/// since then
/// (`step`). Barriers of the whole block need no entry per thread, because all of its threads pass them
/// together: what was done in an earlier phase of a thread's own block is known to it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace emulated_gpu {

struct Clock {
  std::uint32_t phase = 0, step = 0;
  auto operator<=>(const Clock&) const = default;
};

struct ThreadId {
  std::uint64_t block = 0;
  std::uint32_t thread = 0;
  auto operator<=>(const ThreadId&) const = default;
};

/// The clocks that were learnt from others. They are shared, and so never changed once others hold them.
struct Knowledge {
  std::map<std::uint64_t, std::uint32_t> phases;  ///< of a block: earlier phases are known of all its threads
  std::map<ThreadId, Clock> clocks;               ///< of a thread: earlier clocks are known

  bool knows(ThreadId who, Clock when) const;
  void learn(std::uint64_t block, std::uint32_t phase);
  void learn(ThreadId who, Clock clock);
  void learn(const Knowledge& other);
};

using SharedKnowledge = std::shared_ptr<const Knowledge>;

/// Either where one has nothing that the other lacks, else a new one.
SharedKnowledge joined(const SharedKnowledge& a, const SharedKnowledge& b);

}  // namespace emulated_gpu
