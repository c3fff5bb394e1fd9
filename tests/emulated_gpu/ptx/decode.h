/// From the words and operands of one instruction to its decoded form.
///
/// Each family of instructions registers a decoder per opcode and class of type. A decoder takes the words of
/// the opcode that it knows; one that is left over is an error, so no modifier is silently skipped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/emulated_gpu/ptx/code.h"
#include "tests/emulated_gpu/ptx/text.h"
#include "tests/emulated_gpu/ptx/types.h"

namespace emulated_gpu {

struct Operand {
  enum class Form { name, number, address, vector, none };
  Form form = Form::none;
  Token token;            ///< the name or number; of an address its base
  bool negative = false;  ///< -5
  bool inverted = false;  ///< !%p
  std::int64_t offset = 0;
  std::vector<Operand> parts;   ///< of a vector
  std::optional<Token> second;  ///< the predicate of `d|p`
};

/// The variable that a name in an operand stands for.
struct Symbol {
  Space space = Space::global;
  std::uint64_t address = 0;
};

struct Row {
  std::uint8_t bytes = 4;  ///< of a lane's value; 0: a predicate
  bool fixed = false;      ///< a constant or special register
};

/// The rows, names and instructions of the function that is being read.
class Function {
 public:
  Code code;
  std::vector<Row> rows;
  Slot carry = kNoSlot;  ///< the row of the carry flag, where one is used

  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }
  void declare(std::string name, Type type) { scopes_.back().names[std::move(name)] = {type, kNoSlot}; }
  void declare_range(std::string prefix, Type type, unsigned count);
  void declare_symbol(std::string name, Symbol symbol) { scopes_.back().symbols[std::move(name)] = symbol; }

  struct Register {
    Type type = Type::b32;
    Slot slot = kNoSlot;
  };
  Register* find_register(std::string_view name);  ///< with its row, or null
  const Symbol* find_symbol(std::string_view name) const;
  Slot constant(std::uint64_t value, unsigned bytes);
  /// The row of %tid.x and the like, or nothing.
  std::optional<Slot> special(std::string_view name);
  Slot new_row(unsigned bytes, bool fixed);

  void place_label(const Token& label);
  /// Sets `target` of the instruction that is added next when the label is known.
  void branch_to(const Token& label);
  void resolve_labels();

 private:
  struct Range {
    Type type = Type::b32;
    unsigned count = 0;
    std::vector<Register> registers;
  };
  struct Scope {
    std::unordered_map<std::string, Register> names;
    std::unordered_map<std::string, Range> ranges;
    std::unordered_map<std::string, Symbol> symbols;
  };
  struct Jump {
    Token label;
    std::uint32_t instruction = 0;
  };
  std::uint32_t position_of(const Token& label) const;

  std::vector<Scope> scopes_ = std::vector<Scope>(1);
  std::map<std::pair<std::uint64_t, unsigned>, Slot> constants_;
  std::map<std::string, Slot, std::less<>> specials_;
  std::unordered_map<std::string, std::uint32_t> labels_;
  std::vector<Jump> jumps_;
};

/// One instruction on its way to being decoded.
class Decoding {
 public:
  Decoding(Function& function, const Token& opcode, std::vector<Operand> operands);

  Instruction in;

  std::string_view name() const { return words_.front(); }
  TypeClass type_class() const;  ///< of the last type among the words
  Function& function() { return function_; }
  std::uint32_t line() const { return opcode_.line; }

  bool has(std::string_view word) const;
  bool has_type() const;  ///< one that was not taken
  /// Takes a modifier where it is there.
  bool take(std::string_view word);
  /// Takes one of several where one is there: its index, or -1.
  int take_one_of(std::initializer_list<std::string_view> words);
  Type take_type();
  Rounding take_rounding(Rounding otherwise = Rounding::nearest_even);
  std::optional<std::string_view> take_prefixed(std::string_view prefix);

  std::size_t count() const { return operands_.size(); }
  const Operand& operand(std::size_t i) const;
  /// The row that operand `i` names, of exactly the type's size (predicates: a predicate).
  Slot out(std::size_t i, Type type) { return out(operand(i), type); }
  Slot out(const Operand& operand, Type type);
  Slot in_row(std::size_t i, Type type) { return in_row(operand(i), type); }
  Slot in_row(const Operand& operand, Type type);
  /// A row of any size that holds the type (ld, st and cvt allow wider ones); its bytes are stored.
  Slot wide_out(const Operand& operand, Type type, std::uint8_t& bytes);
  Slot wide_in(const Operand& operand, Type type, std::uint8_t& bytes);
  /// The row of a predicate and whether it is negated (`flip`).
  Slot predicate(std::size_t i);
  std::optional<Slot> second_out(std::size_t i);  ///< p of `d|p`
  std::int64_t integer(std::size_t i) const;
  bool is_register(std::size_t i) const;

  void set_access(const Access& access);
  /// All words taken, all operands in number. Adds the instruction.
  void finish(std::size_t operands);
  /// The usual shape: d and up to four sources, each of its type.
  void finish_typed(Type to, std::initializer_list<Type> sources, Execute execute);
  /// The same with one to three sources, all of one type.
  void finish_same(Type type, std::size_t sources, Execute execute);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  /// Refuses a register of another size than the type's.
  void require_size(const Operand& operand, unsigned bytes, Type type) const;
  Slot constant_of(const Operand& operand, Type type);

  Function& function_;
  Token opcode_;
  std::vector<std::string_view> words_;
  std::vector<bool> taken_;
  std::vector<Operand> operands_;
};

using Decoder = void (*)(Decoding&);

void decode_carrying(Decoding& decoding);  ///< of add.cc and the like (carry.cpp)

class Decoders {
 public:
  static const Decoders& all();
  void add(std::initializer_list<std::string_view> names, TypeClass type_class, Decoder decoder);
  /// For any class of types.
  void add(std::initializer_list<std::string_view> names, Decoder decoder);
  void decode(Decoding& decoding) const;

 private:
  Decoders();
  std::map<std::pair<std::string, TypeClass>, Decoder, std::less<>> table_;
};

// The families, each in its own file.
void add_integer_instructions(Decoders& decoders);
void add_carry_instructions(Decoders& decoders);
void add_bit_instructions(Decoders& decoders);
void add_permute_instructions(Decoders& decoders);
void add_real_instructions(Decoders& decoders);
void add_half_instructions(Decoders& decoders);
void add_compare_instructions(Decoders& decoders);
void add_convert_instructions(Decoders& decoders);
void add_move_instructions(Decoders& decoders);
void add_memory_instructions(Decoders& decoders);
void add_atomic_instructions(Decoders& decoders);
void add_collective_instructions(Decoders& decoders);
void add_control_instructions(Decoders& decoders);

}  // namespace emulated_gpu
