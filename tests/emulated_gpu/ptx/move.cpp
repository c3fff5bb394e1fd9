// mov: registers, numbers, addresses, special registers, and packing of several registers into one.

#include <chrono>
#include <cstdint>
#include <cstring>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

constexpr auto kSame = []<class T>(T a) -> T { return a; };

void move_predicate(Warp& warp, const Instruction& in, Mask mask) {
  set_predicate(warp.predicate(in.d), warp.predicate(in.a) ^ in.flip, mask);
}

Slot piece(const Instruction& in, unsigned i) {
  const Slot slots[] = {in.a, in.b, in.c, in.e};
  return slots[i];
}

/// `variant` pieces of `a_bytes` each into one value.
void pack(Warp& warp, const Instruction& in, Mask mask) {
  auto* const d = warp.row<std::byte>(in.d);
  for_each_lane(mask, [&](unsigned lane) {
    std::byte value[8];
    for (unsigned i = 0; i < in.variant; ++i) {
      std::memcpy(value + i * in.a_bytes, warp.row<std::byte>(piece(in, i)) + lane * in.a_bytes, in.a_bytes);
    }
    std::memcpy(d + lane * in.d_bytes, value, in.d_bytes);
  });
}

/// The reverse; the pieces are the values of an Access, which has room for four destinations.
void unpack(Warp& warp, const Instruction& in, Mask mask) {
  const auto& pieces = warp.access_of(in);
  const auto* const a = warp.row<std::byte>(in.a);
  for_each_lane(mask, [&](unsigned lane) {
    std::byte value[8];
    std::memcpy(value, a + lane * in.a_bytes, in.a_bytes);
    for (unsigned i = 0; i < pieces.elements; ++i) {
      std::memcpy(warp.row<std::byte>(pieces.values[i]) + lane * in.d_bytes, value + i * in.d_bytes,
                  in.d_bytes);
    }
  });
}

template <class T>
void read_clock(Warp& warp, const Instruction& in, Mask mask) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  T* const d = warp.row<T>(in.d);
  warp.note_poll();  // what watches a clock waits for something
  for_each_lane(mask, [&](unsigned lane) { d[lane] = static_cast<T>(nanoseconds); });
}

Type piece_type(Decoding& decoding, Type whole, std::size_t pieces) {
  if (pieces < 2 || pieces > 4) decoding.refuse("two to four pieces are expected");
  switch (bytes_of(whole) / pieces) {
    case 2:
      return Type::b16;
    case 4:
      return Type::b32;
    default:
      decoding.refuse("pieces of this size are not known");
  }
}

void decode_pack(Decoding& decoding, Type type) {
  auto& in = decoding.in;
  const auto& parts = decoding.operand(1).parts;
  const auto part = piece_type(decoding, type, parts.size());
  in.execute = &pack;
  in.variant = static_cast<std::uint8_t>(parts.size());
  in.a_bytes = static_cast<std::uint8_t>(bytes_of(part));
  in.d_bytes = static_cast<std::uint8_t>(bytes_of(type));
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(parts[0], part);
  in.b = decoding.in_row(parts[1], part);
  if (parts.size() > 2) in.c = decoding.in_row(parts[2], part);
  if (parts.size() > 3) in.e = decoding.in_row(parts[3], part);
  decoding.finish(2);
}

void decode_unpack(Decoding& decoding, Type type) {
  auto& in = decoding.in;
  const auto& parts = decoding.operand(0).parts;
  const auto part = piece_type(decoding, type, parts.size());
  Access pieces;
  pieces.elements = static_cast<std::uint8_t>(parts.size());
  pieces.loads = true;
  for (std::size_t i = 0; i < parts.size(); ++i) pieces.values[i] = decoding.out(parts[i], part);
  in.execute = &unpack;
  in.d_bytes = static_cast<std::uint8_t>(bytes_of(part));
  in.a_bytes = static_cast<std::uint8_t>(bytes_of(type));
  in.a = decoding.in_row(1, type);
  decoding.set_access(pieces);
  decoding.finish(2);
}

bool decode_clock(Decoding& decoding, Type type) {
  const auto& source = decoding.operand(1);
  if (source.form != Operand::Form::name) return false;
  const auto name = source.token.text;
  if (name != "%clock" && name != "%clock64" && name != "%globaltimer" && name != "%clock_hi" &&
      name != "%globaltimer_lo") {
    return false;
  }
  decoding.in.execute = bytes_of(type) == 8 ? &read_clock<std::uint64_t> : &read_clock<std::uint32_t>;
  decoding.in.d = decoding.out(0, type);
  decoding.finish(2);
  return true;
}

void decode_mov(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  if (type == Type::pred) {
    in.execute = &move_predicate;
    in.d = decoding.out(0, type);
    in.a = decoding.predicate(1);
    return decoding.finish(2);
  }
  if (decoding.operand(1).form == Operand::Form::vector) return decode_pack(decoding, type);
  if (decoding.operand(0).form == Operand::Form::vector) return decode_unpack(decoding, type);
  if (decode_clock(decoding, type)) return;
  const auto execute =
      with_row(bytes_of(type), [](auto t) -> Execute { return &apply1<kSame, decltype(t), decltype(t)>; });
  decoding.finish_same(type, 1, execute);
}

}  // namespace

void add_move_instructions(Decoders& decoders) { decoders.add({"mov"}, decode_mov); }

}  // namespace emulated_gpu
