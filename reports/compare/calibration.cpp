#include "reports/compare/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/columns.h"
#include "reports/compare/comparable.h"
#include "reports/compare/comparison.h"
#include "reports/compare/judge.h"
#include "reports/compare/metric.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/files/json_guard.h"
#include "reports/files/json_value.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "1.0";

std::optional<double> deviation(const std::vector<Measured>& processes) {
  if (processes.size() < 2) return std::nullopt;
  Scatter scatter;
  scatter.add(values_of(processes));
  return std::sqrt(scatter.squares / scatter.freedom);
}

/// The pair i, j by the spread that the other processes show.
void count_pair(std::span<const Report> reports, std::size_t i, std::size_t j, FalseAlarms& alarms) {
  std::vector<Report> others;
  for (std::size_t k = 0; k < reports.size(); ++k) {
    if (k != i && k != j) others.push_back(reports[k]);
  }
  const auto spreads = others.size() < 2 ? CalibratedSpreads() : CalibratedSpreads(spreads_of(others));
  const Comparison comparison = compare(reports.subspan(i, 1), reports.subspan(j, 1), {}, &spreads);
  const auto rows = std::ranges::count_if(comparison.cases, is_moved);
  ++alarms.pairs;
  alarms.alarmed_pairs += rows > 0 ? 1 : 0;
  alarms.alarmed_rows += static_cast<std::size_t>(rows);
  alarms.rows += comparison.cases.size();
}

// ---- JSON

Json json_of_case(const CalibratedCase& row) {
  Record record;
  record.id = row.id;
  Json json = Json::object();
  for (const Column& column : identity_columns())
    json[std::string(column.name)] = json_of(column.get(record));
  Json axes = Json::object();
  for (const auto& [name, value] : row.id.axes) axes[name] = json_of(value);
  json["axes"] = axes;
  json["processes"] = row.processes;
  json["spread_time"] = row.time ? Json(*row.time) : Json();
  json["spread_ceiling"] = row.ceiling ? Json(*row.ceiling) : Json();
  return json;
}

/// Reads with one message for whatever does not fit: people do not write this file.
class CalibrationReader {
 public:
  explicit CalibrationReader(std::string_view name) : name_(name) {}

  Calibration read(const Json& json) const {
    const std::string schema = text(json, "calibration_schema");
    if (!schema.starts_with("1.")) fail("calibration_schema", "a calibration of schema 1.x");
    Calibration calibration;
    calibration.program = text(json, "program");
    calibration.started_at = text(json, "started_at");
    for (const Json& word : at(json, "argv")) calibration.argv.push_back(word.is_string() ? word : Json("?"));
    calibration.machine = at(json, "machine");
    calibration.processes = whole(json, "processes");
    const Json& alarms = at(json, "false_alarms");
    calibration.false_alarms = {whole(alarms, "pairs"), whole(alarms, "alarmed_pairs"), whole(alarms, "rows"),
                                whole(alarms, "alarmed_rows")};
    for (const Json& row : at(json, "cases")) calibration.cases.push_back(read_case(row));
    return calibration;
  }

 private:
  [[nodiscard]] CalibratedCase read_case(const Json& json) const {
    CalibratedCase row;
    Record record;
    try {
      for (const Column& column : identity_columns()) column.set(record, value(at(json, column.name)));
    } catch (const ReportError& error) {
      fail("cases", error.what());
    }
    row.id = record.id;
    for (const auto& [name, axis] : at(json, "axes").items()) row.id.axes.emplace_back(name, value(axis));
    row.processes = whole(json, "processes");
    row.time = spread(json, "spread_time");
    row.ceiling = spread(json, "spread_ceiling");
    return row;
  }

  [[nodiscard]] const Json& at(const Json& json, std::string_view key) const {
    if (!json.is_object() || !json.contains(key)) fail(key, "a field of that name");
    return *json.find(key);
  }
  [[nodiscard]] std::string text(const Json& json, std::string_view key) const {
    const Json& found = at(json, key);
    if (!found.is_string()) fail(key, "a text");
    return found.get<std::string>();
  }
  [[nodiscard]] std::size_t whole(const Json& json, std::string_view key) const {
    const Json& found = at(json, key);
    if (!found.is_number_unsigned()) fail(key, "a whole number");
    return found.get<std::size_t>();
  }
  [[nodiscard]] std::optional<double> spread(const Json& json, std::string_view key) const {
    const Json& found = at(json, key);
    if (found.is_null()) return std::nullopt;
    if (!found.is_number() || !(found.get<double>() >= 0)) fail(key, "a number, zero or more, or null");
    return found.get<double>();
  }
  [[nodiscard]] Value value(const Json& json) const {
    if (json.is_string()) return json.get<std::string>();
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (json.is_number()) return json.get<double>();
    if (json.is_null()) return {};
    fail("cases", "texts and numbers");
  }
  [[noreturn]] void fail(std::string_view key, std::string_view right) const {
    throw ReportError(
        fmt::format("{}: {}: {} would be right; stbench calibrate writes a new file", name_, key, right));
  }

  std::string_view name_;
};

}  // namespace

Calibration spreads_of(std::span<const Report> reports) {
  if (reports.size() < 2) throw ReportError("a spread takes two reports of the same thing, better ten");
  Calibration calibration;
  calibration.program = reports.front().program;
  calibration.argv = reports.front().argv;
  calibration.started_at = reports.front().started_at;
  calibration.machine = machine_of(reports.front());
  calibration.processes = reports.size();
  const std::vector<JoinedCase> joined = join_cases(reports, {});
  const std::vector<MeasuredCase> times = measured_cases(joined, "time");
  const std::vector<MeasuredCase> against = measured_cases(joined, "auto");
  for (std::size_t i = 0; i < joined.size(); ++i) {
    CalibratedCase row{joined[i].id, times[i].base.size(), deviation(times[i].base), std::nullopt};
    if (against[i].metric == "ceiling") row.ceiling = deviation(against[i].base);
    if (!follows_from_others(joined[i]) && row.time) calibration.cases.push_back(row);
  }
  return calibration;
}

Calibration calibrate(std::span<const Report> reports) {
  if (reports.size() < 3)
    throw ReportError(
        "a calibration takes three reports of the same thing, better ten: one to learn from for each pair");
  Calibration calibration = spreads_of(reports);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    for (std::size_t j = i + 1; j < reports.size(); ++j) count_pair(reports, i, j, calibration.false_alarms);
  }
  return calibration;
}

std::string to_json(const Calibration& calibration) {
  Json json = Json::object();
  json["calibration_schema"] = kSchema;
  json["program"] = calibration.program;
  json["argv"] = calibration.argv;
  json["started_at"] = calibration.started_at;
  json["machine"] = calibration.machine;
  json["processes"] = calibration.processes;
  const FalseAlarms& alarms = calibration.false_alarms;
  json["false_alarms"] = {{"pairs", alarms.pairs},
                          {"alarmed_pairs", alarms.alarmed_pairs},
                          {"rows", alarms.rows},
                          {"alarmed_rows", alarms.alarmed_rows}};
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the closing brace and its line, for a row a line
  text += ",\n  \"cases\": [";
  std::string_view gap = "\n    ";
  for (const CalibratedCase& row : calibration.cases) {
    text += fmt::format("{}{}", gap, json_of_case(row).dump(-1, ' ', false, Json::error_handler_t::replace));
    gap = ",\n    ";
  }
  return text + "\n  ]\n}\n";
}

Calibration calibration_from_json(std::string_view text, std::string_view name) {
  return CalibrationReader(name).read(parse_json(text, name));
}

}  // namespace stbench::reports
