// Branches, ends, barriers of blocks, fences, sleeping.

#include <bit>
#include <cstdint>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/grid.h"
#include "tests/emulated_gpu/ptx/lanes.h"
#include "tests/emulated_gpu/ptx/memory.h"

namespace emulated_gpu {

void decode_warp_barrier(Decoding& decoding);  // collectives.cpp

namespace {

void decode_branch(Decoding& decoding) {
  decoding.take("uni");
  decoding.in.flow = Flow::branch;
  const auto& label = decoding.operand(0);
  if (label.form != Operand::Form::name) decoding.refuse("a label is expected");
  decoding.function().branch_to(label.token);
  decoding.finish(1);
}

void decode_end(Decoding& decoding) {
  decoding.take("uni");
  decoding.in.flow = Flow::exit;
  decoding.finish(0);
}

void decode_trap(Decoding& decoding) {
  decoding.in.flow = Flow::trap;
  decoding.finish(0);
}

/// The row of a number or register, for barrier numbers and counts.
void decode_barrier(Decoding& decoding) {
  if (decoding.take("warp")) return decode_warp_barrier(decoding);
  auto& in = decoding.in;
  decoding.take("cta");
  const bool is_aligned = decoding.name() == "bar" || decoding.take("aligned");
  in.a_bytes = is_aligned;
  const int kind = decoding.take_one_of({"sync", "arrive", "red"});
  if (kind < 0) decoding.refuse("what the barrier does is missing");
  in.flow = Flow::barrier;
  std::size_t next = 0;
  if (kind == 2) {
    const int operation = decoding.take_one_of({"and", "or", "popc"});
    if (operation < 0) decoding.refuse("an operation is missing");
    const BarrierUse uses[] = {BarrierUse::reduce_and, BarrierUse::reduce_or, BarrierUse::reduce_count};
    in.variant = static_cast<std::uint8_t>(uses[operation]);
    in.d = decoding.out(0, decoding.take_type());
    next = 1;
  } else {
    in.variant = static_cast<std::uint8_t>(kind == 0 ? BarrierUse::sync : BarrierUse::arrive);
  }
  in.a = decoding.in_row(next++, Type::u32);
  const std::size_t after = kind == 2 ? 1 : 0;
  if (decoding.count() > next + after) in.b = decoding.in_row(next++, Type::u32);
  if (kind == 1 && in.b == kNoSlot) decoding.refuse("the number of threads is missing");
  if (kind == 2) in.c = decoding.predicate(next++);
  decoding.finish(next);
}

void fence(Warp& warp, const Instruction& in, Mask mask) {
  if (auto* const races = warp.grid().races()) races->fence(warp, mask, static_cast<Scope>(in.variant));
}

void decode_fence(Decoding& decoding) {
  auto& in = decoding.in;
  decoding.take_one_of({"sc", "acq_rel", "acquire", "release"});
  in.execute = &fence;
  // membar.gl is what fence calls .gpu
  const auto scope = decoding.take("gl") ? Scope::device : take_scope(decoding);
  in.variant = static_cast<std::uint8_t>(scope);
  decoding.finish(0);
}

void sleep(Warp& warp, const Instruction&, Mask) { warp.note_poll(); }

void decode_sleep(Decoding& decoding) {
  decoding.in.execute = &sleep;
  decoding.take_type();
  decoding.in_row(0, Type::u32);
  decoding.finish(1);
}

/// Launches of one stream run one after another here, so there is nothing to wait for or to signal.
void nothing(Warp&, const Instruction&, Mask) {}

void decode_dependent_launch(Decoding& decoding) {
  decoding.take_one_of({"wait", "launch_dependents"});
  decoding.in.execute = &nothing;
  decoding.finish(0);
}

}  // namespace

void add_control_instructions(Decoders& decoders) {
  decoders.add({"bra"}, decode_branch);
  decoders.add({"ret", "exit"}, decode_end);
  decoders.add({"trap", "brkpt"}, decode_trap);
  decoders.add({"bar", "barrier"}, decode_barrier);
  decoders.add({"membar", "fence"}, decode_fence);
  decoders.add({"nanosleep"}, decode_sleep);
  decoders.add({"griddepcontrol"}, decode_dependent_launch);
}

}  // namespace emulated_gpu
