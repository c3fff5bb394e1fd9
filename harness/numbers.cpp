#include "harness/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/style.h"

namespace stbench::harness {
namespace {

using Factor = std::pair<std::string_view, std::int64_t>;
constexpr std::array<Factor, 7> kFactors{{{"", 1},
                                          {"k", 1'000},
                                          {"M", 1'000'000},
                                          {"G", 1'000'000'000},
                                          {"Ki", 1LL << 10},
                                          {"Mi", 1LL << 20},
                                          {"Gi", 1LL << 30}}};
constexpr std::array<std::pair<std::string_view, double>, 6> kTimeUnits{
    {{"", 1.0}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}}};
constexpr std::size_t kMostValues = 1000;

template <class Table>
auto factor_of(const Table& table, std::string_view suffix) {
  const auto found = std::ranges::find(table, suffix, &Table::value_type::first);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view right) {
  throw UsageError(fmt::format("{}: '{}' {}", option, reports::one_line(text), right));
}

struct Range {
  std::int64_t low, high, step;
  bool multiplies;
};

Range parse_range(std::string_view text, std::string_view option) {
  constexpr std::string_view kRight = "is no range; write low:high:xN (times N) or low:high:+N (plus N)";
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos || second + 1 >= text.size()) refuse(option, text, kRight);
  const char kind = text[second + 1];
  if (kind != 'x' && kind != '+') refuse(option, text, kRight);
  const Range range{parse_count(text.substr(0, first), option),
                    parse_count(text.substr(first + 1, second - first - 1), option),
                    parse_count(text.substr(second + 2), option), kind == 'x'};
  if (range.low > range.high) refuse(option, text, "ends below its start");
  if (range.multiplies && range.low < 1) refuse(option, text, "multiplies, so it must start at 1 or above");
  if (range.step < (range.multiplies ? 2 : 1)) {
    refuse(option, text, range.multiplies ? "must multiply by 2 or more" : "must add 1 or more");
  }
  return range;
}

std::vector<std::int64_t> values_of(const Range& range, std::string_view text, std::string_view option) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = range.low; value <= range.high;) {
    if (values.size() == kMostValues) refuse(option, text, "has more than 1000 values; take a larger step");
    values.push_back(value);
    const bool overflows = range.multiplies ? __builtin_mul_overflow(value, range.step, &value)
                                            : __builtin_add_overflow(value, range.step, &value);
    if (overflows) break;
  }
  return values;
}

}  // namespace

std::int64_t parse_count(std::string_view text, std::string_view option) {
  constexpr std::string_view kRight =
      "is no count; write a whole number, zero or more, with k M G (10^3 10^6 10^9) or Ki Mi Gi (2^10 2^20 "
      "2^30)";
  const char* end = text.data() + text.size();
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || text.starts_with('-')) refuse(option, text, kRight);
  const auto factor = factor_of(kFactors, std::string_view(rest, static_cast<std::size_t>(end - rest)));
  if (!factor) refuse(option, text, kRight);
  if (error == std::errc::result_out_of_range || __builtin_mul_overflow(number, *factor, &number)) {
    refuse(option, text, "is too large; the largest count is 9,223,372,036,854,775,807");
  }
  return number;
}

std::vector<std::int64_t> parse_counts(std::string_view text, std::string_view option) {
  std::vector<std::int64_t> values;
  for (const std::string_view item : split_list(text, option)) {
    const bool is_range = item.find(':') != std::string_view::npos;
    const auto more = is_range ? values_of(parse_range(item, option), item, option)
                               : std::vector<std::int64_t>{parse_count(item, option)};
    for (const std::int64_t value : more) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

double parse_seconds(std::string_view text, std::string_view option) {
  constexpr std::string_view kRight = "is no time; write seconds, or a number with us, ms, s, min or h";
  const char* end = text.data() + text.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const auto unit = factor_of(kTimeUnits, std::string_view(rest, static_cast<std::size_t>(end - rest)));
  if (error != std::errc{} || !unit || std::signbit(number) || !std::isfinite(number * *unit)) {
    refuse(option, text, kRight);
  }
  return number * *unit;
}

std::string human(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(digits.begin() + at, ',');
  }
  return digits;
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 is where three figures would round up to the next unit's 1.
  for (; std::abs(value) >= (unit == 0 ? 1000.0 : 999.5); ++unit) value /= 1000.0;
  const int decimals = unit == 0 || std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string short_count(std::int64_t number) {
  for (const auto& [suffix, factor] : {kFactors[3], kFactors[2], kFactors[1]}) {
    if (number != 0 && number % factor == 0) return fmt::format("{}{}", number / factor, suffix);
  }
  return fmt::format("{}", number);
}

}  // namespace stbench::harness
