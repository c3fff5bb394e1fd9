// Instructions that put bits of several words together: shf, prmt, lop3.

#include <algorithm>
#include <cstdint>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

/// Of the 64 bits b:a, the upper or lower 32 after a shift.
template <bool kLeft, bool kWrap>
constexpr auto kFunnelShift = [](std::uint32_t a, std::uint32_t b, std::uint32_t by) -> std::uint32_t {
  by = kWrap ? by & 31 : std::min(by, 32u);
  const auto both = (static_cast<std::uint64_t>(b) << 32) | a;
  return static_cast<std::uint32_t>(kLeft ? (both << by) >> 32 : both >> by);
};

/// Each bit of the result is the bit of the table that the three bits name.
void look_up(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::uint32_t>(in.d);
  const auto* const a = warp.row<std::uint32_t>(in.a);
  const auto* const b = warp.row<std::uint32_t>(in.b);
  const auto* const c = warp.row<std::uint32_t>(in.c);
  const unsigned table = in.variant;
  over_lanes(mask, [=](unsigned lane) {
    std::uint32_t bits = 0;
    for (unsigned entry = 0; entry < 8; ++entry) {
      if (!((table >> entry) & 1)) continue;
      bits |= (entry & 4 ? a[lane] : ~a[lane]) & (entry & 2 ? b[lane] : ~b[lane]) &
              (entry & 1 ? c[lane] : ~c[lane]);
    }
    d[lane] = bits;
  });
}

/// prmt: picks bytes of b:a by four nibbles (their top bit: replicate the sign).
std::uint32_t permuted(std::uint64_t both, std::uint32_t selector) {
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const auto nibble = (selector >> (4 * i)) & 15;
    auto byte = static_cast<std::uint32_t>(both >> (8 * (nibble & 7))) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

void permute(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::uint32_t>(in.d);
  const auto* const a = warp.row<std::uint32_t>(in.a);
  const auto* const b = warp.row<std::uint32_t>(in.b);
  const auto* const selector = warp.row<std::uint32_t>(in.c);
  for_each_lane(mask, [&](unsigned lane) {
    d[lane] = permuted((static_cast<std::uint64_t>(b[lane]) << 32) | a[lane], selector[lane]);
  });
}

void decode_funnel(Decoding& decoding) {
  const bool left = decoding.take_one_of({"l", "r"}) == 0;
  const bool wraps = decoding.take_one_of({"wrap", "clamp"}) == 0;
  using U = std::uint32_t;
  auto& in = decoding.in;
  if (left) {
    in.execute = wraps ? &apply3<kFunnelShift<true, true>, U, U> : &apply3<kFunnelShift<true, false>, U, U>;
  } else {
    in.execute = wraps ? &apply3<kFunnelShift<false, true>, U, U> : &apply3<kFunnelShift<false, false>, U, U>;
  }
  const auto type = decoding.take_type();
  decoding.finish_same(type, 3, in.execute);
}

void decode_look_up(Decoding& decoding) {
  auto& in = decoding.in;
  in.execute = &look_up;
  const auto type = decoding.take_type();
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  in.c = decoding.in_row(3, type);
  in.variant = static_cast<std::uint8_t>(decoding.integer(4));
  decoding.finish(5);
}

void decode_permute(Decoding& decoding) { decoding.finish_same(decoding.take_type(), 3, &permute); }

}  // namespace

void add_permute_instructions(Decoders& decoders) {
  decoders.add({"shf"}, decode_funnel);
  decoders.add({"lop3"}, decode_look_up);
  decoders.add({"prmt"}, decode_permute);
}

}  // namespace emulated_gpu
