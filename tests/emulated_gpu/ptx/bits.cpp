// Instructions on bits: logic (predicates too), shifts, counts, fields.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/emulated_gpu/ptx/decode.h"
#include "tests/emulated_gpu/ptx/lanes.h"

namespace emulated_gpu {
namespace {

struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <class T>
  static T of(T a) {
    return a == 0;
  }
};
/// Shifts by the width or more leave nothing, or the sign.
struct ShiftLeft {
  template <class T>
  static T of(T a, std::uint32_t by) {
    return by < sizeof(T) * 8 ? static_cast<T>(static_cast<std::uint64_t>(a) << by) : T{0};
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, std::uint32_t by) {
    constexpr std::uint32_t kBits = sizeof(T) * 8;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(by, kBits - 1));
    return by < kBits ? static_cast<T>(a >> by) : T{0};
  }
};
struct CountOnes {
  template <class T>
  static std::uint32_t of(T a) {
    return static_cast<std::uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  static std::uint32_t of(T a) {
    return static_cast<std::uint32_t>(std::countl_zero(a));
  }
};
struct Reverse {
  template <class T>
  static T of(T a) {
    T reversed = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i)
      reversed = static_cast<T>(reversed | (((a >> i) & 1) << (sizeof(T) * 8 - 1 - i)));
    return reversed;
  }
};

/// The highest bit that differs from the sign, counted from bit 0, or as the amount to shift it to the top.
template <bool kAsShift>
struct FindHighest {
  template <class T>
  static std::uint32_t of(T a) {
    using U = std::make_unsigned_t<T>;
    const auto bits = static_cast<U>(a < 0 ? ~a : a);
    if (bits == 0) return ~0u;
    const auto shift = static_cast<std::uint32_t>(std::countl_zero(bits));
    return kAsShift ? shift : static_cast<std::uint32_t>(sizeof(T) * 8 - 1) - shift;
  }
};

struct ExtractField {
  template <class T>
  static T of(T a, std::uint32_t position, std::uint32_t length) {
    constexpr std::uint32_t kBits = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    if (length == 0) return 0;
    const auto sign_at = std::min(position + length - 1, kBits - 1);
    const auto unsigned_a = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(a));
    const bool negative = std::is_signed_v<T> && ((unsigned_a >> sign_at) & 1);
    auto field = position < kBits ? unsigned_a >> position : 0;
    const auto there = position < kBits ? std::min(length, kBits - position) : 0;
    const auto mask = there >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << there) - 1;
    field &= mask;
    return static_cast<T>(negative ? field | ~mask : field);
  }
};

template <class T>
T mask_of(std::uint32_t position, std::uint32_t length) {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  if (position >= kBits || length == 0) return 0;
  const auto ones = length >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
  return static_cast<T>(ones << position);
}

template <class T>
void insert_field(Warp& warp, const Instruction& in, Mask mask) {
  T* const d = warp.row<T>(in.d);
  const T* const field = warp.row<T>(in.a);
  const T* const base = warp.row<T>(in.b);
  const auto* const position = warp.row<std::uint32_t>(in.c);
  const auto* const length = warp.row<std::uint32_t>(in.e);
  for_each_lane(mask, [&](unsigned lane) {
    const auto at = position[lane] & 0xff;
    const auto where = mask_of<T>(at, length[lane] & 0xff);
    const auto moved = at < sizeof(T) * 8 ? static_cast<T>(field[lane] << at) : T{0};
    d[lane] = static_cast<T>((base[lane] & ~where) | (moved & where));
  });
}

struct MakeMaskClamped {
  static std::uint32_t of(std::uint32_t position, std::uint32_t length) {
    return mask_of<std::uint32_t>(position, length);
  }
};
struct MakeMaskWrapped {
  static std::uint32_t of(std::uint32_t position, std::uint32_t length) {
    return mask_of<std::uint32_t>(position & 31, length & 31);
  }
};

/// szext: keeps the lower bits and fills the others with zeros or the sign.
template <bool kWrap, bool kSigned>
struct Extend {
  static std::uint32_t of(std::uint32_t a, std::uint32_t bits) {
    if (kWrap) bits &= 31;
    const auto mask = mask_of<std::uint32_t>(0, bits);
    const bool negative = kSigned && bits > 0 && bits < 32 && ((a >> (bits - 1)) & 1);
    return negative ? a | ~mask : a & mask;
  }
};

// Predicates: a bit per lane.

template <class F>
void predicates2(Warp& warp, const Instruction& in, Mask mask) {
  set_predicate(warp.predicate(in.d), F::of(warp.predicate(in.a), warp.predicate(in.b) ^ in.flip), mask);
}

void predicate_not(Warp& warp, const Instruction& in, Mask mask) {
  set_predicate(warp.predicate(in.d), ~warp.predicate(in.a), mask);
}

template <class F>
Execute of_bits(Type type) {
  return with_integer(type, [](auto t) -> Execute {
    using U = std::make_unsigned_t<decltype(t)>;
    return &apply2<F, U, U>;
  });
}

template <class F>
void decode_logic(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  in.execute = type == Type::pred ? &predicates2<F> : of_bits<F>(type);
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, type);
  decoding.finish(3);
}

void decode_not(Decoding& decoding) {
  auto& in = decoding.in;
  const bool logical = decoding.name() == "cnot";
  const auto type = decoding.take_type();
  in.execute = type == Type::pred ? &predicate_not : with_integer(type, [logical](auto t) -> Execute {
    using U = std::make_unsigned_t<decltype(t)>;
    return logical ? &apply1<LogicalNot, U, U> : &apply1<Not, U, U>;
  });
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  decoding.finish(2);
}

template <class F>
void decode_shift(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  in.execute = with_integer(
      type, [](auto t) -> Execute { return &apply2<F, decltype(t), decltype(t), std::uint32_t>; });
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  in.b = decoding.in_row(2, Type::u32);
  decoding.finish(3);
}

/// One source, a 32-bit result.
template <class F>
void decode_count(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  in.execute = bytes_of(type) == 8 ? &apply1<F, std::uint32_t, std::uint64_t>
                                   : &apply1<F, std::uint32_t, std::uint32_t>;
  in.d = decoding.out(0, Type::u32);
  in.a = decoding.in_row(1, type);
  decoding.finish(2);
}

void decode_reverse(Decoding& decoding) {
  auto& in = decoding.in;
  const auto type = decoding.take_type();
  in.execute = bytes_of(type) == 8 ? &apply1<Reverse, std::uint64_t, std::uint64_t>
                                   : &apply1<Reverse, std::uint32_t, std::uint32_t>;
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  decoding.finish(2);
}

void decode_find(Decoding& decoding) {
  auto& in = decoding.in;
  const bool as_shift = decoding.take("shiftamt");
  const auto type = decoding.take_type();
  in.execute = with_integer(type, [as_shift](auto t) -> Execute {
    using T = decltype(t);
    return as_shift ? &apply1<FindHighest<true>, std::uint32_t, T>
                    : &apply1<FindHighest<false>, std::uint32_t, T>;
  });
  in.d = decoding.out(0, Type::u32);
  in.a = decoding.in_row(1, type);
  decoding.finish(2);
}

void decode_field(Decoding& decoding) {
  auto& in = decoding.in;
  const bool inserts = decoding.name() == "bfi";
  const auto type = decoding.take_type();
  in.d = decoding.out(0, type);
  in.a = decoding.in_row(1, type);
  if (inserts) {
    in.execute = bytes_of(type) == 8 ? &insert_field<std::uint64_t> : &insert_field<std::uint32_t>;
    in.b = decoding.in_row(2, type);
    in.c = decoding.in_row(3, Type::u32);
    in.e = decoding.in_row(4, Type::u32);
    return decoding.finish(5);
  }
  in.execute = with_integer(type, [](auto t) -> Execute {
    using T = decltype(t);
    return &apply3<ExtractField, T, T, std::uint32_t, std::uint32_t>;
  });
  in.b = decoding.in_row(2, Type::u32);
  in.c = decoding.in_row(3, Type::u32);
  decoding.finish(4);
}

void decode_mask(Decoding& decoding) {
  const bool wraps = decoding.take_one_of({"wrap", "clamp"}) == 0;
  using U = std::uint32_t;
  decoding.finish_same(decoding.take_type(), 2,
                       wraps ? &apply2<MakeMaskWrapped, U, U> : &apply2<MakeMaskClamped, U, U>);
}

void decode_extend(Decoding& decoding) {
  const bool wraps = decoding.take_one_of({"wrap", "clamp"}) == 0;
  const auto type = decoding.take_type();
  using U = std::uint32_t;
  auto& in = decoding.in;
  if (is_signed(type)) {
    in.execute = wraps ? &apply2<Extend<true, true>, U, U> : &apply2<Extend<false, true>, U, U>;
  } else {
    in.execute = wraps ? &apply2<Extend<true, false>, U, U> : &apply2<Extend<false, false>, U, U>;
  }
  decoding.finish_same(type, 2, in.execute);
}

}  // namespace

void add_bit_instructions(Decoders& decoders) {
  decoders.add({"and"}, decode_logic<And>);
  decoders.add({"or"}, decode_logic<Or>);
  decoders.add({"xor"}, decode_logic<Xor>);
  decoders.add({"not", "cnot"}, decode_not);
  decoders.add({"shl"}, decode_shift<ShiftLeft>);
  decoders.add({"shr"}, decode_shift<ShiftRight>);
  decoders.add({"popc"}, decode_count<CountOnes>);
  decoders.add({"clz"}, decode_count<LeadingZeros>);
  decoders.add({"brev"}, decode_reverse);
  decoders.add({"bfind"}, decode_find);
  decoders.add({"bfe", "bfi"}, decode_field);
  decoders.add({"bmsk"}, decode_mask);
  decoders.add({"szext"}, decode_extend);
}

}  // namespace emulated_gpu
