// Instructions that put bits of several words together: shf, prmt, lop3, fns.

#include <algorithm>
#include <cstdint>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

/// Of the 64 bits b:a, the upper or lower 32 after a shift.
template <bool kLeft, bool kWrap>
struct FunnelShift {
  static std::uint32_t of(std::uint32_t a, std::uint32_t b, std::uint32_t by) {
    by = kWrap ? by & 31 : std::min(by, 32u);
    const auto both = (static_cast<std::uint64_t>(b) << 32) | a;
    return static_cast<std::uint32_t>(kLeft ? (both << by) >> 32 : both >> by);
  }
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

/// prmt: picks bytes of b:a by four nibbles (their top bit: replicate the sign), or by one of six modes.
std::uint32_t byte_at(std::uint64_t both, unsigned i) {
  return static_cast<std::uint32_t>(both >> (8 * (i & 7))) & 0xff;
}

std::uint32_t permuted(std::uint64_t both, std::uint32_t selector, unsigned mode) {
  const unsigned first = selector & 3;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint32_t byte = 0;
    switch (mode) {
      case 0: {
        const auto nibble = (selector >> (4 * i)) & 15;
        byte = byte_at(both, nibble);
        if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
        break;
      }
      case 1:
        byte = byte_at(both, first + i);
        break;  // f4e
      case 2:
        byte = byte_at(both, (first + 8 - i) & 7);
        break;  // b4e
      case 3:
        byte = byte_at(both, first);
        break;  // rc8
      case 4:
        byte = byte_at(both, std::max(i, first));
        break;  // ecl
      case 5:
        byte = byte_at(both, std::min(i, first));
        break;  // ecr
      default:
        byte = byte_at(both, (first & 1) * 2 + (i & 1));
        break;  // rc16
    }
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
    d[lane] = permuted((static_cast<std::uint64_t>(b[lane]) << 32) | a[lane], selector[lane], in.variant);
  });
}

/// fns: the position of the n-th one from a base on, upwards or (n < 0) downwards; all ones where there is
/// none.
struct FindNth {
  static std::uint32_t of(std::uint32_t bits, std::uint32_t base, std::uint32_t nth) {
    auto left = static_cast<std::int32_t>(nth);
    if (left == 0) return base < 32 && ((bits >> base) & 1) ? base : ~0u;
    const std::int32_t step = left > 0 ? 1 : -1;
    for (auto at = static_cast<std::int64_t>(base); at >= 0 && at < 32; at += step) {
      if (!((bits >> at) & 1)) continue;
      left -= step;
      if (left == 0) return static_cast<std::uint32_t>(at);
    }
    return ~0u;
  }
};

void decode_funnel(Decoding& decoding) {
  const bool left = decoding.take_one_of({"l", "r"}) == 0;
  const bool wraps = decoding.take_one_of({"wrap", "clamp"}) == 0;
  using U = std::uint32_t;
  auto& in = decoding.in;
  if (left) {
    in.execute = wraps ? &apply3<FunnelShift<true, true>, U, U> : &apply3<FunnelShift<true, false>, U, U>;
  } else {
    in.execute = wraps ? &apply3<FunnelShift<false, true>, U, U> : &apply3<FunnelShift<false, false>, U, U>;
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

void decode_permute(Decoding& decoding) {
  auto& in = decoding.in;
  in.execute = &permute;
  const auto type = decoding.take_type();
  in.variant =
      static_cast<std::uint8_t>(decoding.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
  decoding.finish_same(type, 3, in.execute);
}

void decode_nth(Decoding& decoding) {
  using U = std::uint32_t;
  decoding.finish_same(decoding.take_type(), 3, &apply3<FindNth, U, U>);
}

}  // namespace

void add_permute_instructions(Decoders& decoders) {
  decoders.add({"shf"}, decode_funnel);
  decoders.add({"lop3"}, decode_look_up);
  decoders.add({"prmt"}, decode_permute);
  decoders.add({"fns"}, decode_nth);
}

}  // namespace emulated_gpu
