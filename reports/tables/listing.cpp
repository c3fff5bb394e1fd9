#include "reports/tables/listing.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "reports/columns.h"
#include "reports/tables/grid.h"

namespace stbench::reports {
namespace {

constexpr std::string_view kCaseColumn = "case";

Value value_of(const Record& record, const std::string& name, const CaseIdOf& case_id_of) {
  return name == kCaseColumn ? Value(case_id_of(record.id)) : cell_of(record, name);
}

bool is_empty(const Value& value) { return std::holds_alternative<std::monostate>(value); }

/// Numbers before texts, integers and reals together.
bool less(const Value& a, const Value& b) {
  const auto number = [](const Value& value) {
    const auto* const integer = std::get_if<std::int64_t>(&value);
    return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
  };
  const auto* const a_text = std::get_if<std::string>(&a);
  const auto* const b_text = std::get_if<std::string>(&b);
  if (a_text != nullptr && b_text != nullptr) return *a_text < *b_text;
  if (a_text != nullptr || b_text != nullptr) return b_text != nullptr;
  return number(a) < number(b);
}

std::string cell(const Value& value) {
  constexpr int kDigits = 4;
  const auto* const real = std::get_if<double>(&value);
  return real != nullptr ? significant(*real, kDigits) : one_line(cell_text(value));
}

}  // namespace

std::vector<std::string> listed_columns(const Report& report) {
  std::vector<std::string> names{std::string(kCaseColumn)};
  for (const Column& column : fixed_columns()) names.emplace_back(column.name);
  const Layout layout = layout_of(report);
  names.insert(names.end(), layout.axes.begin(), layout.axes.end());
  names.insert(names.end(), layout.more.begin(), layout.more.end());
  return names;
}

std::vector<std::string> usual_columns() {
  return {"status", "median_s", "gb_per_s", "copy_fraction", "speedup", std::string(kCaseColumn)};
}

void sort_by(Report& report, const std::string& column, bool down, const CaseIdOf& case_id_of) {
  std::vector<std::pair<Value, std::size_t>> keys;
  for (std::size_t i = 0; i < report.records.size(); ++i)
    keys.emplace_back(value_of(report.records[i], column, case_id_of), i);
  std::ranges::stable_sort(keys, [&](const auto& a, const auto& b) {
    if (is_empty(a.first) || is_empty(b.first)) return !is_empty(a.first) && is_empty(b.first);
    return down ? less(b.first, a.first) : less(a.first, b.first);
  });
  std::vector<Record> sorted;
  sorted.reserve(keys.size());
  for (const auto& [key, place] : keys) sorted.push_back(std::move(report.records[place]));
  report.records = std::move(sorted);
}

std::string listing(const Report& report, const std::vector<std::string>& columns, Style style,
                    const CaseIdOf& case_id_of) {
  std::vector<Heading> headings;
  for (const auto& name : columns) headings.push_back({name, Align::right, need::asked});
  std::vector<std::vector<GridCell>> rows;
  for (const Record& record : report.records) {
    auto& row = rows.emplace_back();
    for (Heading& heading : headings) {
      const Value value = value_of(record, heading.text, case_id_of);
      if (std::holds_alternative<std::string>(value)) heading.align = Align::left;
      row.push_back({cell(value)});
    }
  }
  Grid grid(std::move(headings), 0);
  for (auto& row : rows) grid.add(std::move(row));
  style.width = std::numeric_limits<std::size_t>::max();
  return grid.render(style);
}

}  // namespace stbench::reports
