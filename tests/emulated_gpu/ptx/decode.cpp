#include "tests/emulated_gpu/ptx/decode.h"

#include <algorithm>
#include <bit>

namespace emulated_gpu {
namespace {

std::vector<std::string_view> split_at_dots(std::string_view opcode) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= opcode.size();) {
    const auto dot = std::min(opcode.find('.', at), opcode.size());
    words.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}

std::uint64_t bits_of_real(const Token& token, bool negative, Type type) {
  const bool of_float = token.text.size() == 10 && token.text[0] == '0' && (token.text[1] | 32) == 'f';
  if (of_float && bytes_of(type) == 4 && !negative) {  // as they stand, for NaNs
    const auto hexadecimal = "0x" + std::string(token.text.substr(2));
    return integer_of({token.kind, hexadecimal, token.line});
  }
  const double value = negative ? -real_of(token) : real_of(token);
  switch (type) {
    case Type::f16:
      return narrow<Half>(value).bits;
    case Type::bf16:
      return narrow<Bfloat>(value).bits;
    case Type::f64:
    case Type::b64:
    case Type::u64:
    case Type::s64:
      return std::bit_cast<std::uint64_t>(value);
    default:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

}  // namespace

Decoding::Decoding(Function& function, const Token& opcode, std::vector<Operand> operands)
    : function_(function),
      opcode_(opcode),
      words_(split_at_dots(opcode.text)),
      taken_(words_.size(), false),
      operands_(std::move(operands)) {
  in.line = opcode.line;
  taken_.front() = true;
}

void Decoding::refuse(const std::string& why) const {
  refuse_ptx(opcode_.line, std::string(opcode_.text) + ": " + why);
}

TypeClass Decoding::type_class() const {
  for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
    if (const auto type = type_named(*word)) return class_of(*type);
  }
  return TypeClass::none;
}

bool Decoding::has(std::string_view word) const {
  return std::find(words_.begin(), words_.end(), word) != words_.end();
}

bool Decoding::has_type() const {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (!taken_[i] && type_named(words_[i])) return true;
  }
  return false;
}

bool Decoding::take(std::string_view word) {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (taken_[i] || words_[i] != word) continue;
    taken_[i] = true;
    return true;
  }
  return false;
}

int Decoding::take_one_of(std::initializer_list<std::string_view> words) {
  int index = 0;
  for (const auto word : words) {
    if (take(word)) return index;
    ++index;
  }
  return -1;
}

std::optional<std::string_view> Decoding::take_prefixed(std::string_view prefix) {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (taken_[i] || words_[i].substr(0, prefix.size()) != prefix) continue;
    taken_[i] = true;
    return words_[i];
  }
  return std::nullopt;
}

Type Decoding::take_type() {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    const auto type = taken_[i] ? std::nullopt : type_named(words_[i]);
    if (!type) continue;
    taken_[i] = true;
    return *type;
  }
  refuse("a type is missing");
}

Rounding Decoding::take_rounding(Rounding otherwise) {
  switch (take_one_of({"rn", "rz", "rm", "rp"})) {
    case 0:
      return Rounding::nearest_even;
    case 1:
      return Rounding::toward_zero;
    case 2:
      return Rounding::down;
    case 3:
      return Rounding::up;
    default:
      return otherwise;
  }
}

const Operand& Decoding::operand(std::size_t i) const {
  if (i >= operands_.size()) refuse("operand " + std::to_string(i + 1) + " is missing");
  return operands_[i];
}

bool Decoding::is_register(std::size_t i) const {
  return operand(i).form == Operand::Form::name && function_.find_register(operand(i).token.text) != nullptr;
}

void Decoding::require_size(const Operand& operand, unsigned bytes, Type type) const {
  if (bytes == bytes_of(type)) return;
  refuse(std::string(operand.token.text) + " has " + std::to_string(bytes) + " bytes, the type another size");
}

Slot Decoding::out(const Operand& operand, Type type) {
  std::uint8_t bytes = 0;
  const auto slot = wide_out(operand, type, bytes);
  require_size(operand, bytes, type);
  return slot;
}

Slot Decoding::in_row(const Operand& operand, Type type) {
  std::uint8_t bytes = 0;
  const auto slot = wide_in(operand, type, bytes);
  require_size(operand, bytes, type);
  return slot;
}

Slot Decoding::wide_out(const Operand& operand, Type type, std::uint8_t& bytes) {
  if (operand.form != Operand::Form::name) refuse("a register is expected as the destination");
  const auto least = type == Type::pred ? 0 : std::max(2u, bytes_of(type));
  if (operand.token.text == "_") {
    bytes = static_cast<std::uint8_t>(least);
    return function_.new_row(least, false);
  }
  const auto* const found = function_.find_register(operand.token.text);
  if (found == nullptr) refuse("there is no register " + std::string(operand.token.text));
  bytes = function_.rows[found->slot].bytes;
  if (bytes < least || (bytes == 0) != (least == 0)) {
    refuse(std::string(operand.token.text) + " cannot hold the type");
  }
  return found->slot;
}

Slot Decoding::wide_in(const Operand& operand, Type type, std::uint8_t& bytes) {
  const auto least = type == Type::pred ? 0 : std::max(2u, bytes_of(type));
  bytes = static_cast<std::uint8_t>(least);
  if (operand.form == Operand::Form::number) return constant_of(operand, type);
  if (operand.form != Operand::Form::name) refuse("a register or number is expected");
  const auto name = operand.token.text;
  auto slot = kNoSlot;
  if (const auto* const found = function_.find_register(name)) {
    if (operand.negative || (operand.inverted && type != Type::pred))
      refuse("a sign stands before a register");
    slot = found->slot;
  } else if (const auto special = function_.special(name)) {
    slot = *special;
  } else if (name == "WARP_SZ") {
    return function_.constant(kLanes, least);
  } else if (const auto* const symbol = function_.find_symbol(name)) {
    return function_.constant(symbol->address, least);
  } else {
    refuse("there is no register or variable " + std::string(name));
  }
  bytes = function_.rows[slot].bytes;
  if (bytes < least || (bytes == 0) != (least == 0)) refuse(std::string(name) + " does not hold the type");
  return slot;
}

Slot Decoding::constant_of(const Operand& operand, Type type) {
  const auto bytes = type == Type::pred ? 0 : std::max(2u, bytes_of(type));
  if (is_real(operand.token.text)) {
    return function_.constant(bits_of_real(operand.token, operand.negative, type), bytes);
  }
  auto value = integer_of(operand.token);
  if (operand.negative) value = 0 - value;
  if (class_of(type) == TypeClass::real) {
    const auto number = static_cast<double>(static_cast<std::int64_t>(value));
    value = type == Type::f64 ? std::bit_cast<std::uint64_t>(number)
                              : std::bit_cast<std::uint32_t>(static_cast<float>(number));
  }
  return function_.constant(value, bytes);
}

Slot Decoding::predicate(std::size_t i) {
  if (operand(i).inverted) in.flip = kAllLanes;
  return in_row(i, Type::pred);
}

std::optional<Slot> Decoding::second_out(std::size_t i) {
  const auto& second = operand(i).second;
  if (!second || second->text == "_") return std::nullopt;
  const auto* const found = function_.find_register(second->text);
  if (found == nullptr || found->type != Type::pred) refuse(std::string(second->text) + " is no predicate");
  return found->slot;
}

std::int64_t Decoding::integer(std::size_t i) const {
  const auto& number = operand(i);
  if (number.form != Operand::Form::number) refuse("operand " + std::to_string(i + 1) + " must be a number");
  const auto value = static_cast<std::int64_t>(integer_of(number.token));
  return number.negative ? -value : value;
}

void Decoding::set_access(const Access& access) {
  in.access = static_cast<std::uint32_t>(function_.code.accesses.size());
  function_.code.accesses.push_back(access);
}

void Decoding::finish(std::size_t operands) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (!taken_[i]) refuse("the modifier ." + std::string(words_[i]) + " is not known");
  }
  if (operands_.size() != operands) {
    refuse("it has " + std::to_string(operands_.size()) + " operands, " + std::to_string(operands) +
           " are expected");
  }
  function_.code.instructions.push_back(in);
}

void Decoding::finish_typed(Type to, std::initializer_list<Type> sources, Execute execute) {
  in.execute = execute;
  in.d = out(0, to);
  Slot* const slots[] = {&in.a, &in.b, &in.c, &in.e};
  std::size_t i = 0;
  for (const auto type : sources) {
    *slots[i] = in_row(i + 1, type);
    ++i;
  }
  finish(i + 1);
}

void Decoding::finish_same(Type type, std::size_t sources, Execute execute) {
  if (sources == 1) return finish_typed(type, {type}, execute);
  if (sources == 2) return finish_typed(type, {type, type}, execute);
  finish_typed(type, {type, type, type}, execute);
}

Decoders::Decoders() {
  add_integer_instructions(*this);
  add_carry_instructions(*this);
  add_bit_instructions(*this);
  add_permute_instructions(*this);
  add_real_instructions(*this);
  add_half_instructions(*this);
  add_compare_instructions(*this);
  add_convert_instructions(*this);
  add_move_instructions(*this);
  add_memory_instructions(*this);
  add_atomic_instructions(*this);
  add_collective_instructions(*this);
  add_control_instructions(*this);
}

const Decoders& Decoders::all() {
  static const Decoders decoders;
  return decoders;
}

void Decoders::add(std::initializer_list<std::string_view> names, TypeClass type_class, Decoder decoder) {
  for (const auto name : names) table_.insert_or_assign({std::string(name), type_class}, decoder);
}

void Decoders::add(std::initializer_list<std::string_view> names, Decoder decoder) {
  for (const auto type_class :
       {TypeClass::none, TypeClass::integer, TypeClass::real, TypeClass::half, TypeClass::predicate}) {
    add(names, type_class, decoder);
  }
}

void Decoders::decode(Decoding& decoding) const {
  const auto found = table_.find(std::pair(std::string(decoding.name()), decoding.type_class()));
  if (found == table_.end()) decoding.refuse("this instruction is not known");
  try {
    found->second(decoding);
  } catch (const std::invalid_argument&) {  // of with_type
    decoding.refuse("this type is not known for the instruction");
  }
}

}  // namespace emulated_gpu
