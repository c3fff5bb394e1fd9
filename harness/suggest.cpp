#include "harness/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "harness/errors.h"
#include "reports/style.h"

namespace stbench::harness {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// Edits that make `b` of `a`: insert, delete, replace, swap two neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

/// A longer text may have more slips in it; in a short one two slips already make another word.
std::size_t slips_allowed(std::size_t length) { return length < 3 ? 0 : length < 6 ? 1 : length / 3; }

std::string nearest(const std::string& given, std::span<const std::string> known) {
  std::string best;
  std::size_t least = slips_allowed(given.size()) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(given, lower(name));
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string only_completion(const std::string& given, std::span<const std::string> known) {
  const auto starts_so = [&](const std::string& name) { return lower(name).starts_with(given); };
  if (given.empty() || std::ranges::count_if(known, starts_so) != 1) return "";
  return *std::ranges::find_if(known, starts_so);
}

}  // namespace

std::vector<std::string_view> split_list(std::string_view text, std::string_view option) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) {
      throw UsageError(text.empty() ? fmt::format("{}: the value is empty", option)
                                    : fmt::format("{}: '{}' has an empty item; separate items by one comma",
                                                  option, reports::one_line(text)));
    }
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known) {
  const std::string wanted = lower(given);
  std::string name = only_completion(wanted, known);
  if (name.empty()) name = nearest(wanted, known);
  return name.empty() ? "" : fmt::format("; did you mean '{}'?", name);
}

std::string unknown_name(std::string_view given, std::string_view option,
                         std::span<const std::string> known) {
  return fmt::format("{}: '{}' is not known{}\nknown: {}", option, reports::one_line(given),
                     did_you_mean(given, known), fmt::join(known, ", "));
}

std::vector<std::string> parse_names(std::string_view text, std::string_view option,
                                     std::span<const std::string> known) {
  std::vector<std::string> names;
  for (const std::string_view item : split_list(text, option)) {
    if (std::ranges::find(known, item) == known.end()) throw UsageError(unknown_name(item, option, known));
    if (std::ranges::find(names, item) == names.end()) names.emplace_back(item);
  }
  return names;
}

}  // namespace stbench::harness
