#include "reports/compare/comparison_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "reports/columns.h"
#include "reports/files/csv_cells.h"
#include "reports/files/json_value.h"
#include "reports/group.h"
#include "reports/style.h"
#include "reports/utf8.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;
using Cell = std::pair<std::string, Value>;

Value real(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Value(*number) : Value();
}

Value whole(const std::optional<std::int64_t>& number) { return number ? Value(*number) : Value(); }

/// The columns of a comparison, the identity's first, then the axes in one list for all rows.
std::vector<Cell> cells_of(const ComparedCase& compared, const std::vector<std::string>& axes) {
  Record record;
  record.id = compared.id;
  std::vector<Cell> cells;
  for (const Column& column : identity_columns()) cells.emplace_back(column.name, column.get(record));
  for (const std::string& axis : axes) cells.emplace_back(axis, cell_of(compared.id.axes, axis));
  cells.emplace_back("verdict", std::string(to_string(compared.verdict)));
  cells.emplace_back("metric", compared.metric);
  cells.emplace_back("part", std::string(to_string(compared.part)));
  cells.emplace_back("base", real(compared.base));
  cells.emplace_back("new", real(compared.now));
  cells.emplace_back("change", real(compared.change));
  cells.emplace_back("ci_low", real(compared.low));
  cells.emplace_back("ci_high", real(compared.high));
  cells.emplace_back("limit", real(compared.limit));
  cells.emplace_back("sees", real(compared.sees));
  cells.emplace_back("p", real(compared.p));
  cells.emplace_back("base_runs", static_cast<std::int64_t>(compared.base_runs));
  cells.emplace_back("new_runs", static_cast<std::int64_t>(compared.now_runs));
  cells.emplace_back("needs_runs", whole(compared.needs_runs));
  cells.emplace_back("needs_samples", whole(compared.needs_samples));
  cells.emplace_back("note", one_line(compared.note));
  return cells;
}

std::string csv_cell(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? cell_text(value) : text_cell(*text);
}

}  // namespace

std::string comparison_csv(const Comparison& comparison) {
  const std::vector<std::string> axes = axes_of(pointers_to(comparison.cases));
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    text += fmt::format("{}\r\n", fmt::join(cells, ","));
  };
  for (const ComparedCase& compared : comparison.cases) {
    std::vector<std::string> names, cells;
    for (const auto& [name, value] : cells_of(compared, axes)) {
      names.push_back(text_cell(name));
      cells.push_back(csv_cell(value));
    }
    if (text.empty()) add_line(names);
    add_line(cells);
  }
  return text;
}

std::string comparison_json(const Comparison& comparison, const ComparisonRules& rules,
                            const Conclusion& conclusion) {
  Json json = Json::object();
  json["comparison_schema"] = "1.1";
  json["effect"] = rules.effect;
  json["metric"] = valid_utf8(rules.metric);
  json["false_alarms"] = rules.false_alarms;
  json["must_see"] = rules.must_see ? Json(*rules.must_see) : Json();
  json["exit_status"] = conclusion.exit_status;
  json["conclusion"] = valid_utf8(conclusion.text);
  json["verdicts"] = Json::object();
  for (const Verdict verdict : {Verdict::slower, Verdict::now_wrong, Verdict::missing, Verdict::faster,
                                Verdict::unresolved, Verdict::same, Verdict::added}) {
    json["verdicts"][std::string(to_string(verdict))] = count(comparison, verdict);
  }
  json["controls"] = {{"count", comparison.controls.count},
                      {"change", comparison.controls.change},
                      {"limit", json_of(real(comparison.controls.limit))},
                      {"moved", comparison.controls.moved}};
  json["notes"] = comparison.notes;
  json["cases"] = Json::array();
  const std::vector<std::string> axes = axes_of(pointers_to(comparison.cases));
  for (const ComparedCase& compared : comparison.cases) {
    Json row = Json::object();
    for (const auto& [name, value] : cells_of(compared, axes)) row[valid_utf8(name)] = json_of(value);
    json["cases"].push_back(std::move(row));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stbench::reports
