/// Splits PTX into tokens.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace emulated_gpu {

struct Token {
  enum class Kind { word, number, string, mark, end };
  Kind kind = Kind::end;
  std::string_view text;
  std::uint32_t line = 0;
};

/// @throws std::runtime_error "PTX line N: ..."
[[noreturn]] void refuse_ptx(std::uint32_t line, const std::string& why);

/// The tokens of a text, one ahead. Words have their dots (`ld.global.nc.L1::no_allocate.v2.u64`, `%tid.x`,
/// `.reg`).
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token next();
  bool take(std::string_view text);
  void want(std::string_view text);
  Token want_word();
  std::int64_t want_integer();
  /// The text of the line that a token stands on, without its margin.
  std::string line_of(const Token& token) const;

 private:
  void advance();
  void skip_blanks();
  std::size_t end_of_word(std::size_t from) const;
  std::size_t end_of_number(std::size_t from) const;

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  Token token_;
};

/// A number as PTX writes it: decimal, 0x, 0b, octal, with an optional U.
std::uint64_t integer_of(const Token& token);
bool is_real(std::string_view number);
/// 0fXXXXXXXX, 0dXXXXXXXXXXXXXXXX, or decimal.
double real_of(const Token& token);

}  // namespace emulated_gpu
