#include "reports/files/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reports/columns.h"
#include "reports/error.h"
#include "reports/files/emulated.h"
#include "reports/files/json_guard.h"
#include "reports/number.h"
#include "reports/style.h"
#include "reports/tables/answer.h"
#include "reports/utf8.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// ---- writing

std::string json_number(double value) { return std::isfinite(value) ? number_text(value) : "null"; }

std::string json_value(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (const auto* const text = std::get_if<std::string>(&value)) return json_text(*text);
  return cell_text(value);
}

std::string member(std::string_view name, std::string_view json) {
  return fmt::format("{}: {}", json_text(name), json);
}

template <typename Items, typename TextOf>
std::string array_of(const Items& items, TextOf text_of) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(text_of(item));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// The environment indented to stand as a member of the report; a line end inside a text is escaped, so each
/// that is there is one of the layout.
std::string indented(const Json& object) {
  std::string text;
  for (const char c : object.dump(2, ' ', false, Json::error_handler_t::replace)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text;
}

std::string case_of(const Record& record, const Layout& layout) {
  std::vector<std::string> identity;
  std::vector<std::string> measures;
  for (const Column& column : fixed_columns()) {
    auto& group = identity.size() < identity_columns().size() ? identity : measures;
    group.push_back(member(column.name, json_value(column.get(record))));
  }
  std::vector<std::string> further;
  for (const std::string& axis : layout.axes) {
    further.push_back(member(axis, json_value(cell_of(record.id.axes, axis))));
  }
  for (const std::string& plain : layout.more) {
    further.push_back(member(plain, json_value(cell_of(record.more, plain))));
  }
  std::vector<std::string> lines;
  for (const auto& group : {identity, measures, further}) {
    if (!group.empty()) lines.push_back(fmt::format("{}", fmt::join(group, ", ")));
  }
  lines.push_back(member("samples_s", array_of(record.samples_s, json_number)));
  return fmt::format("    {{{}}}", fmt::join(lines, ",\n     "));
}

std::string cases_of(const Report& report) {
  const Layout layout = layout_of(report);
  std::vector<std::string> cases;
  for (const Record& record : report.records) cases.push_back(case_of(record, layout));
  return cases.empty() ? "[]" : fmt::format("[\n{}\n  ]", fmt::join(cases, ",\n"));
}

// ---- reading

/// One place of a document: its value, and the file and the path to name it by ("cases[3].median_s").
class Place {
 public:
  Place(const Json& value, std::string_view file, std::string path = {})
      : value_(&value), file_(file), path_(std::move(path)) {}

  [[nodiscard]] const Json& value() const { return *value_; }
  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(key); }

  [[nodiscard]] Place at(std::string_view key) const {
    if (!has(key)) fail(fmt::format("field \"{}\" is missing", key));
    return {*value_->find(key), file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
  }

  [[nodiscard]] std::vector<Place> items() const {
    expect(value_->is_array(), "an array");
    std::vector<Place> items;
    for (const Json& item : *value_) {
      items.emplace_back(item, file_, fmt::format("{}[{}]", path_, items.size()));
    }
    return items;
  }

  void expect(bool holds, std::string_view right) const {
    if (!holds) fail(fmt::format("is {}; {} would be right", described(), right));
  }

  /// "t.json: cases[3].rows: "
  [[nodiscard]] std::string where() const {
    return fmt::format("{}: {}{}", file_, shortened(one_line(path_), kScreenWidth),
                       path_.empty() ? "" : ": ");
  }

  [[noreturn]] void fail(std::string_view what) const { throw ReportError(where() + one_line(what)); }

 private:
  [[nodiscard]] std::string described() const {
    constexpr std::size_t kEnough = 40;
    if (value_->is_structured()) return fmt::format("an {}", value_->type_name());
    const std::string text = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.size() <= kEnough ? text : fmt::format("a long {}", value_->type_name());
  }

  const Json* value_;
  std::string_view file_;
  std::string path_;
};

std::string text_at(const Place& place) {
  place.expect(place.value().is_string(), "a text");
  return place.value().get<std::string>();
}

std::vector<std::string> texts_at(const Place& place) {
  std::vector<std::string> texts;
  for (const Place& item : place.items()) texts.push_back(text_at(item));
  return texts;
}

std::uint64_t seed_at(const Place& place) {
  place.expect(place.value().is_number_unsigned(), "an integer from 0 to 2^64-1");
  return place.value().get<std::uint64_t>();
}

double sample_at(const Place& place) {
  if (place.value().is_null())
    return std::numeric_limits<double>::quiet_NaN();  // how the writer says "not finite"
  place.expect(place.value().is_number() && place.value().get<double>() >= 0, "a number from 0 on");
  return place.value().get<double>();
}

/// Integers that are not of 64 bits arrive here as doubles, so the column refuses them; those that need the
/// 64th bit must be caught, for get<std::int64_t>() would wrap.
Value value_at(const Place& place) {
  const Json& json = place.value();
  if (json.is_null()) return {};
  if (json.is_boolean()) return std::int64_t{json.get<bool>()};
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_unsigned()) {
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    place.expect(json.get<std::uint64_t>() <= kLargest, "an integer of at most 2^63-1");
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  place.expect(json.is_number_float(), "a single value");
  return json.get<double>();
}

void read_fixed(const Place& place, Record& record) {
  for (const Column& column : fixed_columns()) {
    const Place field = place.at(column.name);
    field.expect(!field.value().is_boolean(), column.kind == Kind::text ? "a text" : "a number");
    const Value value = value_at(field);
    try {
      column.set(record, value);
    } catch (const ReportError& error) {
      field.fail(error.what());
    }
  }
}

void read_further(const Place& place, const std::vector<std::string>& axes, Record& record) {
  for (const std::string& axis : axes) {
    if (!place.has(axis)) continue;
    Value value = value_at(place.at(axis));
    if (!std::holds_alternative<std::monostate>(value)) record.id.axes.emplace_back(axis, std::move(value));
  }
  for (const auto& [name, json] : place.value().items()) {
    const bool known =
        name == "samples_s" || fixed_column(name) != nullptr || std::ranges::find(axes, name) != axes.end();
    if (known || json.is_structured() || json.is_null()) continue;
    record.more.emplace_back(name, value_at(place.at(name)));
  }
}

Record record_at(const Place& place, const std::vector<std::string>& axes) {
  place.expect(place.value().is_object(), "an object");
  Record record;
  read_fixed(place, record);
  if (lacks_time(record)) place.at("median_s").fail(fmt::format("is null; {}", lacks_time_text));
  read_further(place, axes, record);
  for (const Place& sample : place.at("samples_s").items()) record.samples_s.push_back(sample_at(sample));
  return record;
}

void check_names(const Report& report, const Place& root) {
  try {
    layout_of(report);
  } catch (const ReportError& error) {
    root.fail(error.what());
  }
}

constexpr std::size_t kLongVersion = 40;

std::string version_at(const Place& place) {
  std::string version = text_at(place);
  if (version != "1" && !version.starts_with("1.")) {
    throw SchemaError(fmt::format("{}is \"{}\"; this program reads schema 1.x", place.where(),
                                  shortened(one_line(version), kLongVersion)));
  }
  return version;
}

Json environment_at(const Place& place) {
  place.expect(place.value().is_object(), "an object of objects");
  for (const auto& [name, part] : place.value().items()) place.at(name).expect(part.is_object(), "an object");
  return place.value();
}

bool interrupted_at(const Place& root) {
  if (!root.has("interrupted")) return false;
  const Place place = root.at("interrupted");
  place.expect(place.value().is_boolean(), "true or false");
  return place.value().get<bool>();
}

}  // namespace

std::string to_json(const Report& report) {
  const std::vector<std::string> members = {
      member("schema_version", json_text(report.schema_version)),
      member("program", json_text(report.program)),
      member("argv", array_of(report.argv, json_text)),
      member("seed", std::to_string(report.seed)),
      member("started_at", json_text(report.started_at)),
      member("interrupted", report.interrupted ? "true" : "false"),
      member("environment", indented(report.environment)),
      member("warnings", array_of(report.warnings, json_text)),
      member("axes", array_of(report.axes, json_text)),
      member("conclusion", array_of(answer_sentences(report), json_text)),
      member("cases", cases_of(report)),
  };
  return fmt::format("{{\n  {}\n}}\n", fmt::join(members, ",\n  "));
}

Report from_json(std::string_view text, std::string_view name) {
  const Json json = parse_json(text, name);
  const Place root(json, name);
  root.expect(json.is_object(), "an object");
  Report report;
  report.schema_version = version_at(root.at("schema_version"));
  report.program = text_at(root.at("program"));
  report.argv = texts_at(root.at("argv"));
  report.seed = seed_at(root.at("seed"));
  report.started_at = text_at(root.at("started_at"));
  report.interrupted = interrupted_at(root);
  report.environment = environment_at(root.at("environment"));
  report.warnings = texts_at(root.at("warnings"));
  report.axes = texts_at(root.at("axes"));
  for (const Place& place : root.at("cases").items()) report.records.push_back(record_at(place, report.axes));
  check_names(report, root);
  return report;
}

}  // namespace stbench::reports
