// Instructions that lanes of a warp execute together: shfl, vote, match, redux, elect, bar.warp.sync; and
// activemask. `e` is the row of member masks. They run for lanes that name each other (Warp::meet).

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/grid.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

enum class Shuffle : std::uint8_t { up, down, butterfly, index };

/// The value that a lane reads from one that does not take part, which CUDA leaves undefined.
constexpr std::uint32_t kUndefined = 0xCDCDCDCD;

void shuffle(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::uint32_t>(in.d);
  const auto* const b = warp.row<std::uint32_t>(in.b);
  const auto* const c = warp.row<std::uint32_t>(in.c);
  std::uint32_t from[kLanes];
  std::copy_n(warp.row<std::uint32_t>(in.a), kLanes, from);
  Mask inside = 0;
  for_each_lane(mask, [&](unsigned lane) {
    const auto by = b[lane] & 31, clamp = c[lane] & 31, segments = (c[lane] >> 8) & 31;
    const auto most = (lane & segments) | (clamp & ~segments);
    const auto least = lane & segments;
    const auto number = static_cast<std::int32_t>(lane), step = static_cast<std::int32_t>(by);
    const auto how = static_cast<Shuffle>(in.variant);
    std::int32_t source = how == Shuffle::up          ? number - step
                          : how == Shuffle::down      ? number + step
                          : how == Shuffle::butterfly ? number ^ step
                                                      : static_cast<std::int32_t>(least | (by & ~segments));
    const bool found = how == Shuffle::up ? source >= static_cast<std::int32_t>(most)
                                          : source <= static_cast<std::int32_t>(most);
    if (!found) source = number;
    d[lane] = (mask >> source) & 1 ? from[source] : kUndefined;
    inside |= static_cast<Mask>(found) << lane;
  });
  if (in.d2 != kNoSlot) set_predicate(warp.predicate(in.d2), inside, mask);
}

enum class Vote : std::uint8_t { all, any, uniform, ballot };

void vote(Warp& warp, const Instruction& in, Mask mask) {
  const Mask holds = (warp.predicate(in.a) ^ in.flip) & mask;
  bool result = false;
  switch (static_cast<Vote>(in.variant)) {
    case Vote::all:
      result = holds == mask;
      break;
    case Vote::any:
      result = holds != 0;
      break;
    case Vote::uniform:
      result = holds == mask || holds == 0;
      break;
    case Vote::ballot: {
      auto* const d = warp.row<std::uint32_t>(in.d);
      over_lanes(mask, [=](unsigned lane) { d[lane] = holds; });
      return;
    }
  }
  set_predicate(warp.predicate(in.d), result ? kAllLanes : 0, mask);
}

template <class T, bool kAll>
void match(Warp& warp, const Instruction& in, Mask mask) {
  T a[kLanes];
  std::copy_n(warp.row<T>(in.a), kLanes, a);
  auto* const d = warp.row<std::uint32_t>(in.d);
  Mask all_same = 0;
  for_each_lane(mask, [&](unsigned lane) {
    Mask same = 0;
    for_each_lane(mask, [&](unsigned other) { same |= static_cast<Mask>(a[other] == a[lane]) << other; });
    const bool all = same == mask;
    d[lane] = kAll && !all ? 0 : same;
    all_same |= static_cast<Mask>(all) << lane;
  });
  if (in.d2 != kNoSlot) set_predicate(warp.predicate(in.d2), all_same, mask);
}

enum class Reduction : std::uint8_t { add, min, max, conjunction, disjunction, exclusive };

template <class T>
void reduce(Warp& warp, const Instruction& in, Mask mask) {
  const T* const a = warp.row<T>(in.a);
  T result = a[std::countr_zero(mask)];
  for_each_lane(mask & (mask - 1), [&](unsigned lane) {
    switch (static_cast<Reduction>(in.variant)) {
      case Reduction::add:
        result = static_cast<T>(static_cast<std::uint32_t>(result) + static_cast<std::uint32_t>(a[lane]));
        break;
      case Reduction::min:
        result = std::min(result, a[lane]);
        break;
      case Reduction::max:
        result = std::max(result, a[lane]);
        break;
      case Reduction::conjunction:
        result = static_cast<T>(result & a[lane]);
        break;
      case Reduction::disjunction:
        result = static_cast<T>(result | a[lane]);
        break;
      case Reduction::exclusive:
        result = static_cast<T>(result ^ a[lane]);
        break;
    }
  });
  T* const d = warp.row<T>(in.d);
  for_each_lane(mask, [&](unsigned lane) { d[lane] = result; });
}

void elect(Warp& warp, const Instruction& in, Mask mask) {
  const auto leader = static_cast<std::uint32_t>(std::countr_zero(mask));
  auto* const d = warp.row<std::uint32_t>(in.d);
  for_each_lane(mask, [&](unsigned lane) { d[lane] = leader; });
  if (in.d2 != kNoSlot) set_predicate(warp.predicate(in.d2), Mask{1} << leader, mask);
}

void active_mask(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::uint32_t>(in.d);
  for_each_lane(mask, [&](unsigned lane) { d[lane] = mask; });
}

void synchronise_warp(Warp& warp, const Instruction&, Mask mask) {
  if (auto* const races = warp.grid().races()) races->warp_barrier(warp, mask);
}

void decode_shfl(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  const int mode = decoding.take_one_of({"up", "down", "bfly", "idx"});
  if (mode < 0) decoding.refuse("a mode is missing");
  in.variant = static_cast<std::uint8_t>(mode);
  const auto type = decoding.take_type();
  in.flow = Flow::collective;
  in.execute = &shuffle;
  in.d = decoding.out(0, type);
  if (const auto second = decoding.second_out(0)) in.d2 = *second;
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, Type::u32);
  in.c = decoding.in_row(3, Type::u32);
  in.e = decoding.in_row(4, Type::u32);
  decoding.finish(5);
}

void decode_vote(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  const int mode = decoding.take_one_of({"all", "any", "uni", "ballot"});
  if (mode < 0) decoding.refuse("a mode is missing");
  in.variant = static_cast<std::uint8_t>(mode);
  in.flow = Flow::collective;
  in.execute = &vote;
  in.d = decoding.out(0, decoding.take_type());
  in.a = decoding.predicate(1);
  in.e = decoding.in_row(2, Type::u32);
  decoding.finish(3);
}

void decode_match(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  const bool all = decoding.take_one_of({"all", "any"}) == 0;
  const auto type = decoding.take_type();
  in.flow = Flow::collective;
  if (bytes_of(type) == 8) {
    in.execute = all ? &match<std::uint64_t, true> : &match<std::uint64_t, false>;
  } else {
    in.execute = all ? &match<std::uint32_t, true> : &match<std::uint32_t, false>;
  }
  in.d = decoding.out(0, Type::b32);
  if (const auto second = decoding.second_out(0)) in.d2 = *second;
  in.a = decoding.in_row(1, type);
  in.e = decoding.in_row(2, Type::u32);
  decoding.finish(3);
}

void decode_redux(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  const int operation = decoding.take_one_of({"add", "min", "max", "and", "or", "xor"});
  if (operation < 0) decoding.refuse("an operation is missing");
  in.variant = static_cast<std::uint8_t>(operation);
  const auto type = decoding.take_type();
  in.flow = Flow::collective;
  in.execute = is_signed(type) ? &reduce<std::int32_t> : &reduce<std::uint32_t>;
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.e = decoding.in_row(2, Type::u32);
  decoding.finish(3);
}

void decode_elect(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  in.flow = Flow::collective;
  in.execute = &elect;
  in.d = decoding.out(0, Type::b32);
  if (const auto second = decoding.second_out(0)) in.d2 = *second;
  in.e = decoding.in_row(1, Type::u32);
  decoding.finish(2);
}

void decode_activemask(Decoding& decoding) {
  decoding.in.execute = &active_mask;
  decoding.in.d = decoding.out(0, decoding.take_type());
  decoding.finish(1);
}

}  // namespace

void decode_warp_barrier(Decoding& decoding) {
  auto& in = decoding.in;
  if (!decoding.take("sync")) decoding.refuse("only .sync is known");
  in.flow = Flow::collective;
  in.variant = kWarpBarrier;
  in.execute = &synchronise_warp;
  in.e = decoding.in_row(0, Type::u32);
  decoding.finish(1);
}

void add_collective_instructions(Decoders& decoders) {
  decoders.add({"shfl"}, decode_shfl);
  decoders.add({"vote"}, decode_vote);
  decoders.add({"match"}, decode_match);
  decoders.add({"redux"}, decode_redux);
  decoders.add({"elect"}, decode_elect);
  decoders.add({"activemask"}, decode_activemask);
}

}  // namespace emulated_gpu
