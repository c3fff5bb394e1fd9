#include "tests/emulated_gpu/ptx/clocks.h"

#include <algorithm>

namespace emulated_gpu {

bool Knowledge::knows(ThreadId who, Clock when) const {
  const auto phase = phases.find(who.block);
  if (phase != phases.end() && when.phase < phase->second) return true;
  const auto clock = clocks.find(who);
  return clock != clocks.end() && when < clock->second;
}

void Knowledge::learn(std::uint64_t block, std::uint32_t phase) {
  auto& known = phases[block];
  known = std::max(known, phase);
}

void Knowledge::learn(ThreadId who, Clock clock) {
  auto& known = clocks[who];
  known = std::max(known, clock);
}

void Knowledge::learn(const Knowledge& other) {
  for (const auto& [block, phase] : other.phases) learn(block, phase);
  for (const auto& [who, clock] : other.clocks) learn(who, clock);
}

SharedKnowledge joined(const SharedKnowledge& a, const SharedKnowledge& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto both = std::make_shared<Knowledge>(*a);
  both->learn(*b);
  return both;
}

}  // namespace emulated_gpu
