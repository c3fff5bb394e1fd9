#include "tests/emulated_gpu/ptx/text.h"

#include <bit>
#include <cctype>
#include <cstdlib>

namespace emulated_gpu {
namespace {

bool starts_word(char letter) {
  return std::isalpha(static_cast<unsigned char>(letter)) || letter == '_' || letter == '$' ||
         letter == '%' || letter == '.';
}

bool continues_word(char letter) {
  return starts_word(letter) || std::isdigit(static_cast<unsigned char>(letter));
}

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)); }

std::string quoted(const Token& token) {
  return token.kind == Token::Kind::end ? "the end of the text" : "'" + std::string(token.text) + "'";
}

}  // namespace

void refuse_ptx(std::uint32_t line, const std::string& why) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + why);
}

void Tokens::skip_blanks() {
  while (at_ < text_.size()) {
    if (text_[at_] == '\n') ++line_;
    if (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '\0') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.substr(at_, 2) == "/*") {
      const auto end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) refuse_ptx(line_, "the comment has no end");
      for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
    } else {
      return;
    }
  }
}

std::size_t Tokens::end_of_word(std::size_t from) const {
  auto end = from;
  while (end < text_.size()) {
    if (continues_word(text_[end])) {
      ++end;
    } else if (text_.substr(end, 2) == "::") {
      end += 2;
    } else {
      break;
    }
  }
  return end;
}

std::size_t Tokens::end_of_number(std::size_t from) const {
  auto end = from;
  const bool decimal = text_[from] != '0' || (from + 1 < text_.size() && text_[from + 1] == '.');
  while (end < text_.size()) {
    const bool sign_of_exponent = decimal && end > from && (text_[end] == '-' || text_[end] == '+') &&
                                  (text_[end - 1] == 'e' || text_[end - 1] == 'E');
    if (!std::isalnum(static_cast<unsigned char>(text_[end])) && text_[end] != '.' && !sign_of_exponent)
      break;
    ++end;
  }
  return end;
}

void Tokens::advance() {
  skip_blanks();
  if (at_ >= text_.size()) {
    token_ = {Token::Kind::end, {}, line_};
    return;
  }
  auto end = at_ + 1;
  auto kind = Token::Kind::mark;
  if (starts_word(text_[at_])) {
    kind = Token::Kind::word;
    end = end_of_word(at_);
  } else if (is_digit(text_[at_])) {
    kind = Token::Kind::number;
    end = end_of_number(at_);
  } else if (text_[at_] == '"') {
    kind = Token::Kind::string;
    end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) refuse_ptx(line_, "the string has no end");
    ++end;
  }
  token_ = {kind, text_.substr(at_, end - at_), line_};
  at_ = end;
}

Token Tokens::next() {
  const auto token = token_;
  advance();
  return token;
}

bool Tokens::take(std::string_view text) {
  if (token_.text != text || token_.kind == Token::Kind::end) return false;
  advance();
  return true;
}

void Tokens::want(std::string_view text) {
  if (!take(text)) refuse_ptx(token_.line, "'" + std::string(text) + "' is expected, not " + quoted(token_));
}

Token Tokens::want_word() {
  if (token_.kind != Token::Kind::word) refuse_ptx(token_.line, "a name is expected, not " + quoted(token_));
  return next();
}

std::int64_t Tokens::want_integer() {
  const bool negative = take("-");
  if (token_.kind != Token::Kind::number) {
    refuse_ptx(token_.line, "a number is expected, not " + quoted(token_));
  }
  const auto value = static_cast<std::int64_t>(integer_of(next()));
  return negative ? -value : value;
}

std::string Tokens::line_of(const Token& token) const {
  const auto at = static_cast<std::size_t>(token.text.data() - text_.data());
  const auto before = text_.rfind('\n', at);
  const auto begin = text_.find_first_not_of(" \t", before == std::string_view::npos ? 0 : before + 1);
  const auto end = std::min(text_.find('\n', at), text_.size());
  auto line = std::string(text_.substr(begin, end - begin));
  for (auto& letter : line) {
    if (letter == '\t') letter = ' ';
  }
  return line;
}

std::uint64_t integer_of(const Token& token) {
  auto text = std::string(token.text);
  while (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.pop_back();
  const bool binary = text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B');
  const char* const begin = text.c_str() + (binary ? 2 : 0);
  char* end = nullptr;
  const auto value = std::strtoull(begin, &end, binary ? 2 : 0);
  if (end != text.c_str() + text.size()) {
    refuse_ptx(token.line, "'" + std::string(token.text) + "' is no integer");
  }
  return value;
}

bool is_real(std::string_view number) {
  if (number.size() > 1 && number[0] == '0') {
    const char kind = number[1];
    if (kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D') return true;
    if (kind == 'x' || kind == 'X' || kind == 'b' || kind == 'B') return false;
  }
  return number.find_first_of(".eE") != std::string_view::npos;
}

double real_of(const Token& token) {
  const auto text = std::string(token.text);
  char* end = nullptr;
  double value = 0;
  const char kind = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  if ((kind == 'f' || kind == 'F') && text.size() == 10) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(std::strtoul(text.c_str() + 2, &end, 16)));
  } else if ((kind == 'd' || kind == 'D') && text.size() == 18) {
    value = std::bit_cast<double>(static_cast<std::uint64_t>(std::strtoull(text.c_str() + 2, &end, 16)));
  } else {
    value = std::strtod(text.c_str(), &end);
  }
  if (end != text.c_str() + text.size()) refuse_ptx(token.line, "'" + text + "' is no number");
  return value;
}

}  // namespace emulated_gpu
