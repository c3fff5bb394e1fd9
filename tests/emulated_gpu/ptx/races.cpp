#include "tests/emulated_gpu/ptx/races.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/emulated_gpu/ptx/grid.h"

namespace emulated_gpu {
namespace {

constexpr std::uint64_t kGranule = 8;
/// Accesses kept per granule. More are unordered reads, or atomics: one per warp, then one per block is
/// enough to find most races.
constexpr std::size_t kMostTouches = 16;

bool alike(const Touch& a, const Touch& b) {
  return a.writes == b.writes && a.strong == b.strong && a.bytes == b.bytes;
}

std::string name_of(ThreadId who, Dim shape) {
  return "thread (" + std::to_string(who.thread % shape.x) + "," +
         std::to_string(who.thread / shape.x % shape.y) + "," +
         std::to_string(who.thread / shape.x / shape.y) + ") of block " + std::to_string(who.block);
}

}  // namespace

void Shadow::keep(std::vector<Touch>& touches, const Touch& touch) {
  if (touches.size() < kMostTouches) {
    touches.push_back(touch);
    return;
  }
  const auto replace = [&](auto may_go) {
    const auto found = std::find_if(touches.begin(), touches.end(), may_go);
    if (found != touches.end()) *found = touch;
    return found != touches.end();
  };
  const auto same_warp = [&](const Touch& other) {
    return alike(other, touch) && other.who.block == touch.who.block &&
           other.who.thread / kLanes == touch.who.thread / kLanes;
  };
  const auto same_block = [&](const Touch& other) {
    return alike(other, touch) && other.who.block == touch.who.block;
  };
  const auto same_kind = [&](const Touch& other) { return alike(other, touch); };
  if (replace(same_warp) || replace(same_block) || replace(same_kind)) return;
  touches[touch.line % kMostTouches] = touch;
}

void BlockRaces::start(std::uint64_t block, unsigned threads) {
  block_ = block;
  phase_ = 0;
  threads_.assign(threads, {});
  shadow.clear();
  releases.clear();
}

bool BlockRaces::knows(unsigned thread, const Touch& touch) const {
  const auto& knower = threads_[thread];
  if (touch.who.block == block_) {
    if (touch.when.phase < phase_) return true;
    if (touch.who.thread / kLanes == thread / kLanes && touch.when < knower.lanes[touch.who.thread % kLanes])
      return true;
  }
  return knower.known != nullptr && knower.known->knows(touch.who, touch.when);
}

SharedKnowledge BlockRaces::publish(unsigned thread) {
  auto& publisher = threads_[thread];
  auto all = publisher.known == nullptr ? std::make_shared<Knowledge>()
                                        : std::make_shared<Knowledge>(*publisher.known);
  ++publisher.step;
  if (phase_ > 0) all->learn(block_, phase_);
  all->learn(id(thread), clock(thread));
  const auto first = thread - thread % kLanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (Clock{phase_, 0} < publisher.lanes[lane]) all->learn(id(first + lane), publisher.lanes[lane]);
  }
  return all;
}

void BlockRaces::whole_barrier() {
  SharedKnowledge known;
  const Knowledge* last = nullptr;
  for (const auto& thread : threads_) {
    if (thread.known.get() != last) known = joined(known, thread.known);
    last = thread.known.get();
  }
  for (auto& thread : threads_) {
    thread.known = known;
    thread.step = 0;
  }
  ++phase_;
}

void BlockRaces::part_barrier(const std::vector<unsigned>& arrived, const std::vector<unsigned>& waited) {
  auto all = std::make_shared<Knowledge>();
  for (const auto thread : arrived) all->learn(*publish(thread));
  for (const auto thread : waited) threads_[thread].known = joined(threads_[thread].known, all);
}

void BlockRaces::warp_barrier(unsigned first_thread, Mask lanes) {
  std::array<Clock, kLanes> all{};
  SharedKnowledge known;
  for_each_lane(lanes, [&](unsigned lane) {
    auto& thread = threads_[first_thread + lane];
    ++thread.step;
    thread.lanes[lane] = clock(first_thread + lane);
    for (unsigned i = 0; i < kLanes; ++i) all[i] = std::max(all[i], thread.lanes[i]);
    known = joined(known, thread.known);
  });
  for_each_lane(lanes, [&](unsigned lane) {
    threads_[first_thread + lane].lanes = all;
    threads_[first_thread + lane].known = known;
  });
}

void BlockRaces::fence(unsigned number, Scope scope) {
  auto& thread = threads_[number];
  thread.known = joined(thread.known, thread.seen_in_block);
  thread.seen_in_block.reset();
  if (scope != Scope::block) {
    thread.known = joined(thread.known, thread.seen);
    thread.seen.reset();
  }
  thread.fenced_for_block = publish(number);
  if (scope != Scope::block) thread.fenced_for_all = thread.fenced_for_block;
}

void BlockRaces::synchronise(unsigned number, const Access& access, Released& released) {
  auto& thread = threads_[number];
  const bool acquires = access.order == Order::acquire || access.order == Order::acquire_release;
  const bool releases_now = access.order == Order::release || access.order == Order::acquire_release;
  if (access.loads) {
    const auto& in_block = released.block == block_ ? released.to_block : nullptr;
    if (acquires) {
      thread.known = joined(thread.known, in_block);
      if (access.scope != Scope::block) thread.known = joined(thread.known, released.to_all);
    } else {
      thread.seen_in_block = joined(thread.seen_in_block, in_block);
      thread.seen = joined(thread.seen, released.to_all);
    }
  }
  if (!access.stores) return;
  auto to_block = thread.fenced_for_block, to_all = thread.fenced_for_all;
  if (releases_now) {
    to_block = publish(number);
    if (access.scope != Scope::block) to_all = to_block;
  }
  if (access.atomic) {  // goes on with what was released before
    if (released.block == block_) to_block = joined(to_block, released.to_block);
    to_all = joined(to_all, released.to_all);
  }
  released = {block_, to_block, to_all};
}

void Races::note(Warp& warp, const Instruction& in, const Access& access, unsigned lane,
                 std::uint64_t address, Shadow& shadow, Releases& releases, const char* where) {
  auto& of_block = warp.block().races();
  const auto thread = warp.thread_of(lane);
  const bool strong = access.atomic || access.order != Order::weak;
  Touch touch{of_block.id(thread), of_block.clock(thread), in.line, 0, access.stores, strong, access.scope};
  for (std::uint64_t at = address; at < address + access.bytes;) {
    const auto granule = at / kGranule;
    const auto end = std::min(address + access.bytes, (granule + 1) * kGranule);
    touch.bytes = 0;
    for (; at < end; ++at) touch.bytes = static_cast<std::uint8_t>(touch.bytes | (1u << (at % kGranule)));
    const auto* const race =
        shadow.note(granule, touch, [&](const Touch& other) { return of_block.knows(thread, other); });
    if (race == nullptr) continue;
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    warp.fault(719, in, lane,
               std::string("a race: it ") + (access.stores ? "writes " : "reads ") +
                   std::to_string(access.bytes) + " bytes at " + text + where + ", which " +
                   name_of(race->who, grid_.launch().block) + (race->writes ? " wrote" : " read") +
                   " at PTX line " + std::to_string(race->line) + " (" + grid_.line_text(race->line) +
                   "), and nothing orders the two");
  }
  if (strong) of_block.synchronise(thread, access, releases[address]);
}

void Races::global(Warp& warp, const Instruction& in, const Access& access, unsigned lane,
                   std::uint64_t address) {
  note(warp, in, access, lane, address, shadow_, releases_, "");
}

void Races::shared(Warp& warp, const Instruction& in, const Access& access, unsigned lane,
                   std::uint64_t address) {
  auto& of_block = warp.block().races();
  note(warp, in, access, lane, address, of_block.shadow, of_block.releases, " of shared memory");
}

void Races::warp_barrier(Warp& warp, Mask lanes) {
  warp.block().races().warp_barrier(warp.thread_of(0), lanes);
}

void Races::fence(Warp& warp, Mask lanes, Scope scope) {
  for_each_lane(lanes, [&](unsigned lane) { warp.block().races().fence(warp.thread_of(lane), scope); });
}

}  // namespace emulated_gpu
