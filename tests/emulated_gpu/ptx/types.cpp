#include "tests/emulated_gpu/ptx/types.h"

#include <array>

namespace emulated_gpu {
namespace {

struct Facts {
  std::string_view name;
  std::uint8_t bytes;
  TypeClass family;
};

constexpr std::array<Facts, 19> kFacts{{
    {"u8", 1, TypeClass::integer},     {"u16", 2, TypeClass::integer}, {"u32", 4, TypeClass::integer},
    {"u64", 8, TypeClass::integer},    {"s8", 1, TypeClass::integer},  {"s16", 2, TypeClass::integer},
    {"s32", 4, TypeClass::integer},    {"s64", 8, TypeClass::integer}, {"b8", 1, TypeClass::integer},
    {"b16", 2, TypeClass::integer},    {"b32", 4, TypeClass::integer}, {"b64", 8, TypeClass::integer},
    {"f16", 2, TypeClass::half},       {"f16x2", 4, TypeClass::half},  {"bf16", 2, TypeClass::half},
    {"bf16x2", 4, TypeClass::half},    {"f32", 4, TypeClass::real},    {"f64", 8, TypeClass::real},
    {"pred", 0, TypeClass::predicate},
}};

const Facts& facts_of(Type type) { return kFacts.at(static_cast<std::size_t>(type)); }

}  // namespace

std::optional<Type> type_named(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts.at(i).name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Type type) { return facts_of(type).name; }
unsigned bytes_of(Type type) { return facts_of(type).bytes; }
TypeClass class_of(Type type) { return facts_of(type).family; }
bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }
bool is_packed(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }

}  // namespace emulated_gpu
