#include "tests/emulated_gpu/ptx/warp.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "tests/emulated_gpu/ptx/grid.h"

namespace emulated_gpu {
namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
/// Backward branches after which other warps get their turn, should this one wait for them without saying so.
constexpr unsigned kSlice = 1u << 20;

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Warp::Warp(Block& block, unsigned number)
    : block_(block), code_(block.grid().code()), storage_(code_.register_bytes + 64), number_(number) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  registers_ = storage_.data() + (64 - address % 64) % 64;
  local_.resize(block.grid().kernel().local_bytes * kLanes);
}

Grid& Warp::grid() { return block_.grid(); }

std::byte* Warp::local(unsigned lane) { return local_.data() + lane * (local_.size() / kLanes); }

void Warp::start(unsigned threads_in_block) {
  const unsigned threads = std::min<unsigned>(kLanes, threads_in_block - number_ * kLanes);
  const Mask lanes = threads == kLanes ? kAllLanes : (Mask{1} << threads) - 1;
  ended_ = ~lanes;
  polled_ = false;
  groups_.assign(1, {lanes, 0, State::ready});
  std::fill(local_.begin(), local_.end(), std::byte{0xCD});
}

std::uint32_t Warp::lowest_ready() const {
  auto lowest = kNowhere;
  for (const auto& group : groups_) {
    if (group.state == State::ready) lowest = std::min(lowest, group.position);
  }
  return lowest;
}

bool Warp::take_lowest(Group& group) {
  const auto lowest = lowest_ready();
  if (lowest == kNowhere) return false;
  group = {0, lowest, State::ready};
  join(group);
  return true;
}

void Warp::join(Group& group) {
  std::erase_if(groups_, [&](const Group& other) {
    if (other.state != State::ready || other.position != group.position) return false;
    group.lanes |= other.lanes;
    return true;
  });
}

void Warp::add(Group group) {
  for (auto& other : groups_) {
    if (other.state != group.state || other.position != group.position) continue;
    other.lanes |= group.lanes;
    return;
  }
  groups_.push_back(group);
}

bool Warp::can_run() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return group.state == State::ready || group.state == State::yielded;
  });
}

Warp::Outcome Warp::run() {
  for (auto& group : groups_) {
    if (group.state == State::yielded) group.state = State::ready;
  }
  for (Group group; take_lowest(group);) run_group(group);
  if (groups_.empty()) return Outcome::finished;
  const bool yields = std::any_of(groups_.begin(), groups_.end(),
                                  [](const Group& group) { return group.state == State::yielded; });
  return yields ? Outcome::yields : Outcome::waits;
}

void Warp::run_group(Group group) {
  Mask lanes = group.lanes;
  auto position = group.position;
  auto limit = lowest_ready();
  unsigned slice = kSlice;
  std::uint64_t executed = 0;
  const auto* const instructions = code_.instructions.data();
  const auto count = [&] {
    grid().count(executed, lanes);
    executed = 0;
  };
  for (;;) {
    if (position >= limit) {
      count();
      if (position > limit) return add({lanes, position, State::ready});
      group = {lanes, position, State::ready};
      join(group);
      lanes = group.lanes;
      limit = lowest_ready();
    }
    const Instruction& in = instructions[position];
    const Mask active = in.guard == kNoSlot ? lanes : lanes & (predicate(in.guard) ^ in.guard_flip);
    ++executed;
    switch (in.flow) {
      case Flow::next:
        if (active != 0) in.execute(*this, in, active);
        ++position;
        break;
      case Flow::branch: {
        if (active == 0) {
          ++position;
          break;
        }
        const bool backward = in.target <= position;
        if (active == lanes) {
          position = in.target;
        } else {
          count();
          const Group fallen{lanes & ~active, position + 1, State::ready},
              jumped{active, in.target, State::ready};
          const bool jump_first = jumped.position < fallen.position;
          add(jump_first ? fallen : jumped);
          lanes = jump_first ? jumped.lanes : fallen.lanes;
          position = jump_first ? jumped.position : fallen.position;
          limit = lowest_ready();
        }
        if (!backward) break;
        if (polled_ || --slice == 0) {
          if (!polled_) grid().note_change();  // it computes
          polled_ = false;
          count();
          return add({lanes, position, State::yielded});
        }
        break;
      }
      case Flow::exit:
        count();
        lanes &= ~active;
        if (lanes != 0) add({lanes, position + 1, State::ready});
        return end(active);
      case Flow::collective:
        if (active == 0 || meet(in, active, position) == active) {
          ++position;
          break;
        }
        count();
        if (lanes != active) add({lanes & ~active, position + 1, State::ready});
        return;
      case Flow::barrier:
        count();
        if (lanes != active) add({lanes & ~active, position + 1, State::ready});
        if (active == 0) return;
        if (static_cast<BarrierUse>(in.variant) == BarrierUse::arrive) {
          add({active, position + 1, State::ready});
        } else {
          add({active, position, State::at_barrier});
        }
        return block_.arrive(*this, in, active, position);
      case Flow::trap:
        if (active != 0) fault(719, in, static_cast<unsigned>(std::countr_zero(active)), "trap");
        ++position;
        break;
    }
  }
}

void Warp::end(Mask lanes) {
  ended_ |= lanes;
  complete_collectives();
  block_.thread_ended();
}

void Warp::release(Mask lanes, std::uint32_t position) {
  for (auto& group : groups_) {
    if (group.state == State::at_barrier && group.position == position) group.lanes &= ~lanes;
  }
  std::erase_if(groups_, [](const Group& group) { return group.lanes == 0; });
  add({lanes, position + 1, State::ready});
}

Mask Warp::meet(const Instruction& in, Mask arrived, std::uint32_t position) {
  const auto* const members = row<Mask>(in.e);
  const auto first = static_cast<unsigned>(std::countr_zero(arrived));
  bool uniform = true;
  for_each_lane(arrived, [&](unsigned lane) {
    uniform &= members[lane] == members[first];
    if (!((members[lane] >> lane) & 1)) {
      fault(719, in, lane, "the thread is not in its own member mask " + hexadecimal(members[lane]));
    }
  });
  if (uniform && (members[first] & ~ended_ & ~arrived) == 0) {
    in.execute(*this, in, arrived);
    return arrived;
  }
  add({arrived, position, State::at_collective});
  complete_collectives();
  return 0;
}

void Warp::complete_collectives() {
  const auto member_of = [&](const Group& group, unsigned lane) {
    return row<Mask>(code_.instructions[group.position].e)[lane];
  };
  // Lanes that wait for each other stand at the same instruction; at any for bar.warp.sync, which has no
  // result.
  const auto meets = [&](const Group& group, const Group& other) {
    const auto& in = code_.instructions[group.position];
    const auto& of_other = code_.instructions[other.position];
    return group.position == other.position || (in.variant == kWarpBarrier && in.execute == of_other.execute);
  };
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto group = groups_[i];
    if (group.state != State::at_collective) continue;
    for (Mask left = group.lanes; left != 0;) {
      const Mask members = member_of(group, static_cast<unsigned>(std::countr_zero(left)));
      Mask present = 0;
      for (const auto& other : groups_) {
        if (other.state != State::at_collective || !meets(group, other)) continue;
        for_each_lane(other.lanes & members, [&](unsigned lane) {
          if (member_of(other, lane) == members) present |= Mask{1} << lane;
        });
      }
      left &= ~present;
      if ((members & ~ended_ & ~present) != 0) continue;
      go_on_together(group.position, present);
      i = static_cast<std::size_t>(-1);  // the groups are others now
      break;
    }
  }
}

void Warp::go_on_together(std::uint32_t position, Mask lanes) {
  const auto& in = code_.instructions[position];
  in.execute(*this, in, lanes);
  std::vector<Group> gone;
  for (auto& group : groups_) {
    if (group.state != State::at_collective || (group.lanes & lanes) == 0) continue;
    gone.push_back({group.lanes & lanes, group.position + 1, State::ready});
    group.lanes &= ~lanes;
  }
  std::erase_if(groups_, [](const Group& group) { return group.lanes == 0; });
  for (const auto& group : gone) add(group);
}

void Warp::fault(int code, const Instruction& in, unsigned lane, const std::string& what) {
  const auto block = block_.index();
  const auto shape = block_.grid().launch().block;
  const auto thread = thread_of(lane);
  const auto triple = [](unsigned x, unsigned y, unsigned z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  };
  throw Fault(code, what + "\n  in kernel " + grid().kernel().name + ", block " +
                        triple(block.x, block.y, block.z) + ", thread " +
                        triple(thread % shape.x, thread / shape.x % shape.y, thread / shape.x / shape.y) +
                        "\n  PTX line " + std::to_string(in.line) + ": " + grid().line_text(in.line));
}

std::string Warp::where_it_stands() const {
  std::string text;
  for (const auto& group : groups_) {
    const auto line = code_.instructions[group.position].line;
    text += "\n  warp " + std::to_string(number_) + ", lanes " + hexadecimal(group.lanes) + " at PTX line " +
            std::to_string(line) + ": " + block_.grid().line_text(line);
  }
  return text;
}

}  // namespace emulated_gpu
