#include "reports/compare/compared_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "reports/columns.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

Value part_of(const ComparedCase& compared, const Column& column) {
  Record record;
  record.id = compared.id;
  return column.get(record);
}

/// Texts speak for themselves; "8" would need its name. Rows are followed by their width: "1000000 ×128".
std::string part_text(std::string_view name, const Value& value) {
  const std::string text = cell_text(value);
  if (name == "dim") return "×" + text;
  if (name == "rows") return text;
  const bool speaks = name == "suite" || name == "direction" || name == "placement" || name == "method" ||
                      name == "device" || name == "dtype" || name == "distribution";
  return text.empty() ? std::string() : speaks ? text : fmt::format("{}={}", name, text);
}

}  // namespace

CaseTexts case_texts(const ComparedRows& rows) {
  std::vector<std::string> common;
  std::vector<std::vector<std::string>> own(rows.size());
  const auto add = [&](std::string_view name, auto get, bool always) {
    const bool same = !always && std::ranges::all_of(rows, [&](const ComparedCase* row) {
      return get(*row) == get(*rows.front());
    });
    if (same && !rows.empty()) common.push_back(part_text(name, get(*rows.front())));
    if (same) return;
    for (std::size_t i = 0; i < rows.size(); ++i) own[i].push_back(part_text(name, get(*rows[i])));
  };
  for (const Column& column : identity_columns()) {
    add(
        column.name, [&](const ComparedCase& row) { return part_of(row, column); }, column.name == "method");
  }
  for (const std::string& axis : axes_of(rows)) {
    const Value* const standard = find(known_axes(), axis);
    const auto unusual = [&](const ComparedCase& row) {
      const Value value = cell_of(row.id.axes, axis);
      return standard != nullptr && value == *standard ? Value() : value;
    };
    add(axis, unusual, false);
  }
  CaseTexts result;
  const auto joined = [](std::vector<std::string>& words) {
    std::erase(words, "");
    return one_line(fmt::format("{}", fmt::join(words, " ")));
  };
  result.common = joined(common);
  for (auto& words : own) result.texts.push_back(joined(words));
  return result;
}

std::string factor_or_percent(double size) {
  return size >= 1 ? fmt::format("{}×", significant(1 + size, 2)) : fmt::format("{:.1f}%", 100 * size);
}

std::string percent(double change) {
  if (std::abs(change) < 0.0005) return "0.0%";
  return change >= 1 ? factor_or_percent(change) : fmt::format("{:+.1f}%", 100 * change);
}

std::string value_text(const ComparedCase& compared, const std::optional<double>& value) {
  if (!value) return std::string(kNoNumber);
  if (compared.metric == "ceiling") return fmt::format("{}%", significant(100 / *value, 3));
  if (compared.metric != "time" && !compared.metric.ends_with("_s")) return significant(*value, 4);
  const auto [scale, unit] = *value >= 1      ? std::pair(1.0, "s")
                             : *value >= 1e-3 ? std::pair(1e3, "ms")
                                              : std::pair(1e6, "us");
  return fmt::format("{} {}", significant(*value * scale, 4), unit);
}

std::string limit_text(const ComparedCase& compared) {
  if (!compared.limit) return std::string(kNoNumber);
  return (*compared.limit < 1 ? "±" : "") + factor_or_percent(*compared.limit);
}

}  // namespace stbench::reports
