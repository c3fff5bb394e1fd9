#include "speedtorch/rows/plan_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "speedtorch/kernels/error.h"

namespace speedtorch {
namespace {

using kernels::CopyWay;
using kernels::Plan;
using kernels::PrefetchTo;
using kernels::RowChoice;
using kernels::Stores;

template <class Value>
using Name = std::pair<std::string_view, Value>;

constexpr std::array<Name<Stores>, 3> kStores{
    {{"cached", Stores::cached}, {"streaming", Stores::streaming}, {"staged", Stores::staged}}};
constexpr std::array<Name<PrefetchTo>, 2> kLevels{{{"l1", PrefetchTo::l1}, {"l2", PrefetchTo::l2}}};

constexpr std::array<Name<CopyWay>, 3> kCopyWays{
    {{"plain", CopyWay::plain}, {"ahead", CopyWay::ahead}, {"pages", CopyWay::pages}}};

template <class Names, class Value>
std::string name_of(const Names& names, Value value) {
  const auto is = [value](const auto& name) { return name.second == value; };
  return std::string(std::find_if(names.begin(), names.end(), is)->first);
}

template <class Names>
auto value_of(const Names& names, std::string_view word) {
  const auto found =
      std::find_if(names.begin(), names.end(), [word](const auto& name) { return name.first == word; });
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(' '); at != text.npos; at = text.find_first_not_of(' ', at)) {
    const auto end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string to_value(const RowChoice& choice) {
  return name_of(kStores, choice.stores) + " " + name_of(kLevels, choice.prefetch_to) + " " +
         std::to_string(choice.lines_ahead) + " " + std::to_string(choice.line_step) +
         (choice.touch == 0 ? "" : " " + std::to_string(choice.touch));
}

std::string to_value(std::int64_t bytes) { return std::to_string(bytes); }

std::string to_value(CopyWay way) { return name_of(kCopyWays, way); }

bool read_value(std::string_view text, RowChoice& choice) {
  const auto words = words_of(text);
  if (words.size() != 4 && words.size() != 5) return false;
  const auto stores = value_of(kStores, words[0]);
  const auto level = value_of(kLevels, words[1]);
  const auto ahead = number_of<std::int32_t>(words[2]);
  const auto step = number_of<std::int32_t>(words[3]);
  const auto touch = words.size() == 5 ? number_of<std::int32_t>(words[4]) : 0;
  if (!stores || !level || !ahead || !step || !touch) return false;
  choice = {*stores, *level, *ahead, *step, *touch};
  return true;
}

bool read_value(std::string_view text, std::int64_t& bytes) {
  const auto number = number_of<std::int64_t>(text);
  bytes = number.value_or(0);
  return number.has_value();
}

bool read_value(std::string_view text, CopyWay& way) {
  const auto found = value_of(kCopyWays, text);
  way = found.value_or(CopyWay::plain);
  return found.has_value();
}

/// Calls `visit(key, value)` for each number and choice of a plan.
template <class SomePlan, class Visit>
void for_each_entry(SomePlan& plan, Visit visit) {
  visit("thread_bytes", plan.thread_bytes);
  visit("copy.small_pages", plan.copy_small_pages);
  visit("copy.huge_pages", plan.copy_huge_pages);
  const auto of_direction = [&](const std::string& name, auto& direction) {
    visit(name + ".large_from", direction.large_from);
    const auto of_choices = [&](const std::string& kind, auto& choices) {
      for (std::size_t k = 0; k < choices.size(); ++k)
        visit(name + "." + kind + "." + std::to_string(kernels::kWidthClasses[k]), choices[k]);
    };
    of_choices("small", direction.small);
    of_choices("whole_lines", direction.whole_lines);
    of_choices("cut_lines", direction.cut_lines);
  };
  of_direction("gather", plan.gather);
  of_direction("scatter", plan.scatter);
}

/// The text as a message shows it. A damaged file can have one long line.
std::string shown(std::string_view text) { return "'" + std::string(text.substr(0, 80)) + "'"; }

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

PlanEntries plan_entries(const Plan& plan) {
  PlanEntries entries;
  for_each_entry(
      plan, [&](const std::string& key, const auto& value) { entries.emplace_back(key, to_value(value)); });
  return entries;
}

Plan plan_of(const PlanEntries& entries) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : entries) {
    if (!values.emplace(key, value).second) throw RowPlanError(shown(key) + " is given twice");
  }
  Plan plan;
  for_each_entry(plan, [&](const std::string& key, auto& value) {
    const auto found = values.find(key);
    if (found == values.end()) throw RowPlanError("'" + key + "' is missing");
    if (!read_value(found->second, value))
      throw RowPlanError(shown(key) + " cannot be " + shown(found->second));
    values.erase(found);
  });
  if (!values.empty()) throw RowPlanError(shown(values.begin()->first) + " is no part of a plan");
  if (const char* fault = kernels::fault_in(plan)) throw RowPlanError(fault);
  return plan;
}

std::string to_text(const PlanEntries& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += key + ": " + value + "\n";
  return text;
}

PlanEntries parse_entries(std::string_view text, const std::string& name) {
  PlanEntries entries;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto colon = line.find(':');
    if (colon == line.npos) {
      throw RowPlanError(name + ", line " + std::to_string(number) + ": " + shown(line) +
                         " is not of the form 'key: value'");
    }
    entries.emplace_back(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return entries;
}

}  // namespace speedtorch
