#include "reports/style.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "reports/utf8.h"

namespace stbench::reports {
namespace {

bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

std::string_view escape_of(Paint paint) {
  constexpr std::array<std::string_view, 6> kEscapes = {"",         "\033[1m",  "\033[2m",
                                                        "\033[32m", "\033[31m", "\033[33m"};
  return kEscapes.at(static_cast<std::size_t>(paint));
}

/// Bytes of the first `width` code points.
std::size_t bytes_of(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  std::size_t points = 0;
  while (bytes < text.size() && (points += static_cast<std::size_t>(starts_code_point(text[bytes]))) <= width)
    ++bytes;
  return bytes;
}

/// The place to break so that at most `width` columns stay: after the last blank that leaves something, else
/// anywhere.
std::size_t break_point(std::string_view text, std::size_t width) {
  const std::size_t fitting = bytes_of(text, width);
  if (fitting == text.size()) return fitting;
  const std::size_t blank = text.rfind(' ', fitting);
  return blank == std::string_view::npos || blank == 0 ? fitting : blank;
}

}  // namespace

std::string painted(std::string_view text, Paint paint, Style style) {
  if (style.markdown) {
    const std::string safe = escaped_markdown(text);
    return paint == Paint::bold && !safe.empty() ? fmt::format("**{}**", safe) : safe;
  }
  if (!style.coloured || paint == Paint::none || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", escape_of(paint), text);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_code_point));
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  constexpr std::string_view kCut = "...";
  const std::size_t kept = width - std::min(width, kCut.size());
  return fmt::format("{}{}", text.substr(0, bytes_of(text, kept)), kCut.substr(0, width));
}

std::string one_line(std::string_view text) {
  std::string line = valid_utf8(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  std::replace_if(line.begin(), line.end(), is_control, ' ');
  for (auto at = line.find('\xC2'); at != std::string::npos; at = line.find('\xC2', at + 1)) {
    // U+0080 to U+009F: some terminals take them for escapes
    if (static_cast<unsigned char>(line[at + 1]) < 0xA0) line.replace(at, 2, " ");
  }
  return line;
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string escaped_markdown(std::string_view text) {
  constexpr std::string_view kHarmless = " .,:;=+-%/()'\"";
  std::string safe;
  for (const char c : one_line(text)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       static_cast<unsigned char>(c) >= 0x80 || kHarmless.find(c) != std::string_view::npos;
    if (c == '@')
      safe += "(at)";  // a backslash would still make a mention
    else
      safe += plain ? std::string(1, c) : fmt::format("\\{}", c);
  }
  for (auto at = safe.find("://"); at != std::string::npos; at = safe.find("://", at))
    safe.replace(at, 3, ":\\/\\/");
  for (auto at = safe.find("www."); at != std::string::npos; at = safe.find("www.", at))
    safe.replace(at, 4, "www\\.");
  return safe;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::vector<std::string> lines;
  while (lines.empty() || !text.empty()) {
    const std::size_t margin = lines.empty() ? 0 : indent;
    const std::size_t size = break_point(text, width - margin);
    lines.push_back(trimmed(fmt::format("{:{}}{}", "", margin, text.substr(0, size))));
    text.remove_prefix(size);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return lines;
}

std::string lines_of(std::string_view text, std::size_t indent, Paint paint, Style style) {
  const std::string whole = one_line(text);
  if (style.markdown) {
    const std::string paragraph = trimmed(whole.substr(std::min(whole.find_first_not_of(' '), whole.size())));
    return painted(paragraph, paint, style) + "\n\n";
  }
  std::string lines;
  for (const std::string& line : wrapped(whole, style.width, indent))
    lines += painted(line, paint, style) + "\n";
  return lines;
}

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  constexpr std::size_t kGroup = 3;
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > sign + kGroup;) {
    at -= kGroup;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string significant(double value, int digits) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return fmt::format("{}", value);
  // The exponent of the rounded value: 9.9996 is 10.00 with four digits, not 10.000.
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  return fmt::format("{:.{}f}", std::strtod(scientific.c_str(), nullptr), std::max(0, digits - 1 - exponent));
}

std::string ratio_text(double ratio) {
  constexpr double kNearOne = 1.1;
  constexpr double kLarge = 9.95;
  const int decimals = ratio < kNearOne ? 2 : ratio < kLarge ? 1 : 0;
  return fmt::format("{:.{}f}×", ratio, decimals);
}

std::string faster_text(double speedup) {
  const bool faster = speedup >= 1;
  const std::string ratio = ratio_text(faster ? speedup : 1 / speedup);
  return ratio == "1.00×" ? "as fast" : fmt::format("{} {}", ratio, faster ? "faster" : "slower");
}

std::string cores_text(std::int64_t cores) { return fmt::format("{} core{}", cores, cores == 1 ? "" : "s"); }

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  constexpr double kStep = 1000;
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= kStep && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  return fmt::format("{} {}", unit == 0 ? grouped(bytes) : significant(value, 3), kUnits.at(unit));
}

}  // namespace stbench::reports
