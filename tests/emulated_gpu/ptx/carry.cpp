// Sums that carry from one instruction to the next: add.cc, addc, sub.cc, subc, mad.cc, madc. The carry is a
// row of its own, which no name in a text reaches.

#include <cstdint>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

constexpr std::uint8_t kReadsCarry = 1, kWritesCarry = 2, kSubtracts = 4, kHigh = 8;

template <class T>
void carrying(Warp& warp, const Instruction& in, Mask mask) {
  T* const d = warp.row<T>(in.d);
  const T* const a = warp.row<T>(in.a);
  const T* const b = warp.row<T>(in.b);
  const T* const c = in.c == kNoSlot ? nullptr : warp.row<T>(in.c);  // of madc: a * b + c
  Mask& carry = warp.predicate(in.e);
  Mask carried = 0;
  using Sum = unsigned __int128;
  for_each_lane(mask, [&](unsigned lane) {
    T first = a[lane], second = b[lane];
    if (c != nullptr) {
      const Sum product = Sum{first} * second;
      first = static_cast<T>(in.variant & kHigh ? product >> (sizeof(T) * 8) : product);
      second = c[lane];
    }
    const unsigned before = in.variant & kReadsCarry ? (carry >> lane) & 1 : 0;
    const Sum sum = in.variant & kSubtracts ? Sum{first} - second - before : Sum{first} + second + before;
    d[lane] = static_cast<T>(sum);
    carried |= static_cast<Mask>((sum >> (sizeof(T) * 8)) & 1) << lane;
  });
  if (in.variant & kWritesCarry) set_predicate(carry, carried, mask);
}

}  // namespace

void decode_carrying(Decoding& decoding) {
  const auto name = decoding.name();
  auto& in = decoding.in;
  const bool multiplies = name.substr(0, 3) == "mad";
  in.variant = static_cast<std::uint8_t>((name.back() == 'c' ? kReadsCarry : 0) |
                                         (decoding.take("cc") ? kWritesCarry : 0) |
                                         (name.substr(0, 3) == "sub" ? kSubtracts : 0));
  if (multiplies && decoding.take_one_of({"hi", "lo"}) == 0) in.variant |= kHigh;
  const auto type = decoding.take_type();
  if (multiplies && is_signed(type) && (in.variant & kHigh))
    decoding.refuse("a signed high product that carries");
  in.execute = bytes_of(type) == 8 ? &carrying<std::uint64_t> : &carrying<std::uint32_t>;
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  if (multiplies) in.c = decoding.in_row(3, type);
  auto& function = decoding.function();
  if (function.carry == kNoSlot) function.carry = function.new_row(0, true);
  in.e = function.carry;
  decoding.finish(multiplies ? 4 : 3);
}

void add_carry_instructions(Decoders& decoders) {
  decoders.add({"addc", "subc", "madc"}, TypeClass::integer, decode_carrying);
}

}  // namespace emulated_gpu
