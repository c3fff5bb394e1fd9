#include "speedtorch/system/system_files.h"

#include <algorithm>
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

std::vector<int> number_list(std::string_view text) {
  constexpr std::int64_t kMost = 1 << 16;  // more than any kernel has CPUs or NUMA nodes
  std::vector<int> numbers;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t dash = part.find('-');
    const auto first = leading_number(part);
    const auto last = dash == part.npos ? first : leading_number(part.substr(dash + 1));
    for (auto number = first; number && last && *number <= std::min(*last, kMost); ++*number)
      numbers.push_back(static_cast<int>(*number));
    at = end + 1;
  }
  return numbers;
}

std::optional<std::string> processor_design(const SystemFiles& files) {
  const auto of = [&](const char* key) { return files.value("/proc/cpuinfo", key); };
  const auto family = of("cpu family"), model = of("model");
  if (family && model) return "family " + *family + ", model " + *model;
  const auto implementer = of("CPU implementer"), part = of("CPU part");
  if (implementer && part) return "implementer " + *implementer + ", part " + *part;
  return std::nullopt;
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

std::optional<std::string> host_start_id() {
  return SystemFiles().first_line("/proc/sys/kernel/random/boot_id");
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

std::optional<std::string> SystemFiles::choice(std::string_view path) const {
  const auto text = first_line(path);
  if (!text) return std::nullopt;
  const std::size_t open = text->find('['), close = text->find(']', open);
  if (open == text->npos || close == text->npos) return std::nullopt;
  return text->substr(open + 1, close - open - 1);
}

std::vector<std::string> SystemFiles::names(std::string_view folder) const {
  while (folder.starts_with('/')) folder.remove_prefix(1);
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(root_ / folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::optional<std::int64_t> SystemFiles::bytes(std::string_view path, std::string_view key) const {
  const auto text = value(path, key);
  const auto number = text ? leading_number(*text) : std::nullopt;
  if (number && text->ends_with("kB")) return *number * 1024;
  return number;
}

}  // namespace speedtorch
