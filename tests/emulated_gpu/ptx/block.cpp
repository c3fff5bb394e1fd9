#include <algorithm>
#include <bit>

#include "tests/emulated_gpu/ptx/grid.h"

namespace emulated_gpu {
namespace {

constexpr unsigned kBarriers = 16;

unsigned threads_of(Dim block) { return block.x * block.y * block.z; }

template <class Value>
void fill(Warp& warp, const SpecialRow& row, Value value_of_lane) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (row.bytes == 8) {
      warp.row<std::uint64_t>(row.slot)[lane] = value_of_lane(lane);
    } else {
      warp.row<std::uint32_t>(row.slot)[lane] = static_cast<std::uint32_t>(value_of_lane(lane));
    }
  }
}

bool differs_between_blocks(Special which) {
  return which == Special::ctaid_x || which == Special::ctaid_y || which == Special::ctaid_z ||
         which == Special::smid;
}

void fill_constants(Warp& warp, const Code& code) {
  for (const auto& constant : code.constants) {
    if (constant.bytes == 0) warp.predicate(constant.slot) = static_cast<Mask>(constant.value);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (constant.bytes == 2)
        warp.row<std::uint16_t>(constant.slot)[lane] = static_cast<std::uint16_t>(constant.value);
      if (constant.bytes == 4)
        warp.row<std::uint32_t>(constant.slot)[lane] = static_cast<std::uint32_t>(constant.value);
      if (constant.bytes == 8) warp.row<std::uint64_t>(constant.slot)[lane] = constant.value;
    }
  }
}

}  // namespace

Block::Block(Grid& grid) : grid_(grid), barriers_(kBarriers) {
  const unsigned count = (threads() + kLanes - 1) / kLanes;
  for (unsigned i = 0; i < count; ++i) {
    warps_.push_back(std::make_unique<Warp>(*this, i));
    fill_constants(*warps_.back(), grid.code());
  }
  const auto bytes = grid.code().dynamic_shared_begin + grid.launch().dynamic_shared;
  shared_.resize(std::max(bytes, grid.kernel().static_shared));
}

unsigned Block::threads() const { return threads_of(grid_.launch().block); }

Dim Block::index() const {
  const auto grid = grid_.launch().grid;
  const auto in_plane = std::uint64_t{grid.x} * grid.y;
  return {static_cast<unsigned>(number_ % grid.x), static_cast<unsigned>(number_ / grid.x % grid.y),
          static_cast<unsigned>(number_ / in_plane)};
}

void Block::start(std::uint64_t number) {
  number_ = number;
  finished_.assign(warps_.size(), false);
  barriers_.assign(kBarriers, {});
  std::fill(shared_.begin(), shared_.end(), std::byte{0xCD});
  if (grid_.launch().find_unwritten) shared_written_.assign(shared_.size(), 0);
  if (grid_.races() != nullptr) races_.start(number, static_cast<unsigned>(warps_.size()) * kLanes);
  for (auto& warp : warps_) {
    fill_specials(*warp, !was_started_);
    warp->start(threads());
  }
  was_started_ = true;
}

void Block::fill_specials(Warp& warp, bool first) {
  const auto shape = grid_.launch().block, grid = grid_.launch().grid, at = index();
  const auto thread = [&](unsigned lane) { return warp.thread_of(lane); };
  for (const auto& row : grid_.code().specials) {
    if (!first && !differs_between_blocks(row.which)) continue;
    fill(warp, row, [&](unsigned lane) -> std::uint64_t {
      switch (row.which) {
        case Special::tid_x:
          return thread(lane) % shape.x;
        case Special::tid_y:
          return thread(lane) / shape.x % shape.y;
        case Special::tid_z:
          return thread(lane) / shape.x / shape.y;
        case Special::ntid_x:
          return shape.x;
        case Special::ntid_y:
          return shape.y;
        case Special::ntid_z:
          return shape.z;
        case Special::ctaid_x:
          return at.x;
        case Special::ctaid_y:
          return at.y;
        case Special::ctaid_z:
          return at.z;
        case Special::nctaid_x:
          return grid.x;
        case Special::nctaid_y:
          return grid.y;
        case Special::nctaid_z:
          return grid.z;
        case Special::laneid:
          return lane;
        case Special::warpid:
          return warp.number();
        case Special::nwarpid:
          return warps_.size();
        case Special::smid:
          return number_ % 132;
        case Special::nsmid:
          return 132;
        case Special::gridid:
          return 1;
        case Special::lanemask_eq:
          return Mask{1} << lane;
        case Special::lanemask_lt:
          return (Mask{1} << lane) - 1;
        case Special::lanemask_le:
          return (Mask{2} << lane) - 1;
        case Special::lanemask_ge:
          return ~((Mask{1} << lane) - 1);
        case Special::lanemask_gt:
          return ~((Mask{2} << lane) - 1);
        case Special::dynamic_smem_size:
          return grid_.launch().dynamic_shared;
        case Special::total_smem_size:
          return shared_.size();
      }
      return 0;
    });
  }
}

Block::Outcome Block::run() {
  for (;;) {
    bool alive = false, progressed = false, yields = false;
    for (std::size_t i = 0; i < warps_.size(); ++i) {
      if (finished_[i]) continue;
      alive = true;
      if (!warps_[i]->can_run()) continue;
      const auto outcome = warps_[i]->run();
      finished_[i] = outcome == Warp::Outcome::finished;
      if (outcome == Warp::Outcome::yields) {
        yields = true;
      } else {
        progressed = true;
      }
    }
    if (!alive) return Outcome::finished;
    if (progressed) continue;
    if (yields) return Outcome::spins;
    tell_deadlock();
  }
}

void Block::tell_deadlock() {
  const auto at = index();
  throw Fault(719, "deadlock in kernel " + grid_.kernel().name + ", block (" + std::to_string(at.x) + "," +
                       std::to_string(at.y) + "," + std::to_string(at.z) +
                       "): none of its threads can go on" + where_warps_stand());
}

std::string Block::where_warps_stand() const {
  std::string text;
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(kMost, warps_.size()); ++i) text += warps_[i]->where_it_stands();
  if (warps_.size() > kMost) text += "\n  and " + std::to_string(warps_.size() - kMost) + " more warps";
  return text;
}

unsigned Block::living() const {
  unsigned count = 0;
  for (const auto& warp : warps_) count += kLanes - static_cast<unsigned>(std::popcount(warp->ended()));
  return count;
}

void Block::arrive(Warp& warp, const Instruction& in, Mask lanes, std::uint32_t position) {
  const auto first = static_cast<unsigned>(std::countr_zero(lanes));
  const auto id = warp.row<std::uint32_t>(in.a)[first];
  if (id >= kBarriers) warp.fault(719, in, first, "there is no barrier " + std::to_string(id));
  auto& barrier = barriers_[id];
  const auto wanted = in.b == kNoSlot ? 0 : warp.row<std::uint32_t>(in.b)[first];
  if (in.b != kNoSlot && (wanted == 0 || wanted % kLanes != 0)) {
    warp.fault(719, in, first, std::to_string(wanted) + " threads at a barrier are no multiple of 32");
  }
  const bool is_first = barrier.arrived == 0;
  if (!is_first && barrier.wanted != wanted) {
    warp.fault(719, in, first, "others wait at this barrier for another number of threads");
  }
  barrier.wanted = wanted;
  const bool by_warps = wanted != 0 && in.a_bytes != 0;  // an aligned barrier counts whole warps
  auto& came = barrier.arrived_warps;
  const bool warp_is_new = std::find(came.begin(), came.end(), &warp) == came.end();
  if (warp_is_new) came.push_back(&warp);
  barrier.arrived += by_warps ? (warp_is_new ? kLanes : 0) : static_cast<unsigned>(std::popcount(lanes));
  if (in.c != kNoSlot) {
    barrier.holds += static_cast<unsigned>(std::popcount((warp.predicate(in.c) ^ in.flip) & lanes));
    barrier.asked += static_cast<unsigned>(std::popcount(lanes));
  }
  barrier.waiters.push_back({&warp, &in, lanes, position});
  complete_if_all_came(barrier);
}

void Block::thread_ended() {
  for (auto& barrier : barriers_) {
    if (barrier.wanted == 0 && barrier.arrived != 0) complete_if_all_came(barrier);
  }
}

void Block::complete_if_all_came(Barrier& barrier) {
  const bool all_came = barrier.wanted == 0 ? barrier.arrived == living() : barrier.arrived >= barrier.wanted;
  if (all_came) complete(barrier);
}

void Block::order(const Barrier& barrier) {
  std::vector<unsigned> arrived, waited;
  for (const auto& waiter : barrier.waiters) {
    const bool waits = static_cast<BarrierUse>(waiter.in->variant) != BarrierUse::arrive;
    for_each_lane(waiter.lanes, [&](unsigned lane) {
      arrived.push_back(waiter.warp->thread_of(lane));
      if (waits) waited.push_back(arrived.back());
    });
  }
  if (waited.size() == living()) {
    races_.whole_barrier();
  } else {
    races_.part_barrier(arrived, waited);
  }
}

void Block::complete(Barrier& barrier) {
  const auto done = std::move(barrier);
  barrier = {};
  if (grid_.races() != nullptr) order(done);
  for (const auto& waiter : done.waiters) {
    const auto& in = *waiter.in;
    const auto use = static_cast<BarrierUse>(in.variant);
    if (use == BarrierUse::arrive) continue;
    for (const auto& other : done.waiters) {
      if (static_cast<BarrierUse>(other.in->variant) == BarrierUse::arrive) continue;
      if (in.a_bytes != 0 && other.warp == waiter.warp && other.position != waiter.position) {
        waiter.warp->fault(719, in, static_cast<unsigned>(std::countr_zero(waiter.lanes)),
                           "threads of one warp wait at different barriers, the others at PTX line " +
                               std::to_string(other.in->line));
      }
    }
    if (use == BarrierUse::reduce_count) {
      for_each_lane(waiter.lanes,
                    [&](unsigned lane) { waiter.warp->row<std::uint32_t>(in.d)[lane] = done.holds; });
    } else if (use != BarrierUse::sync) {
      const bool holds = use == BarrierUse::reduce_or ? done.holds != 0 : done.holds == done.asked;
      auto& predicate = waiter.warp->predicate(in.d);
      predicate = holds ? predicate | waiter.lanes : predicate & ~waiter.lanes;
    }
    waiter.warp->release(waiter.lanes, waiter.position);
  }
}

}  // namespace emulated_gpu
