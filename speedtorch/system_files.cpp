#include "speedtorch/system_files.h"

#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

namespace speedtorch {
namespace {

constexpr std::string_view kSeparators = ":= \t";

}  // namespace

std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  return number;
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content;
  std::array<char, 1 << 16> buffer;
  do {
    file.read(buffer.data(), buffer.size());
    content.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  if (!file.is_open() || file.bad()) return std::nullopt;
  return content;
}

std::optional<std::string> SystemFiles::text(std::string_view path) const {
  while (path.starts_with('/')) path.remove_prefix(1);
  return read_file(root_ / path);
}

std::optional<std::string> SystemFiles::first_line(std::string_view path) const {
  const auto all = lines(path);
  if (all.empty() || all.front().empty()) return std::nullopt;
  return all.front();
}

std::optional<std::int64_t> SystemFiles::number(std::string_view path) const {
  const auto line = first_line(path);
  return line ? leading_number(*line) : std::nullopt;
}

std::vector<std::string> SystemFiles::lines(std::string_view path) const {
  std::istringstream stream(text(path).value_or(""));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::optional<std::string> SystemFiles::value(std::string_view path, std::string_view key) const {
  for (const std::string& line : lines(path)) {
    if (!line.starts_with(key) || line.size() == key.size()) continue;
    if (kSeparators.find(line[key.size()]) == kSeparators.npos) continue;
    const std::size_t begin = line.find_first_not_of(kSeparators, key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return std::nullopt;
}

std::optional<std::int64_t> SystemFiles::bytes(std::string_view path, std::string_view key) const {
  const auto text = value(path, key);
  const auto number = text ? leading_number(*text) : std::nullopt;
  if (number && text->ends_with("kB")) return *number * 1024;
  return number;
}

}  // namespace speedtorch
