#include "reports/number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace stbench::reports {
namespace {

constexpr std::size_t kLongestNumber = 32;  // the shortest form of a double has at most 24 characters

template <typename Number>
std::string shortest(Number value) {
  std::array<char, kLongestNumber> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

template <typename Number>
std::optional<Number> whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string number_text(std::int64_t value) { return shortest(value); }

std::string number_text(double value) {
  if (!std::isfinite(value)) {
    return {};
  }
  std::string text = shortest(value);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::optional<std::int64_t> integer_from(std::string_view text) { return whole<std::int64_t>(text); }

std::optional<double> real_from(std::string_view text) {
  const std::optional<double> value = whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace stbench::reports
