#include "reports/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "reports/error.h"
#include "reports/number.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

constexpr std::size_t kIdentityColumns = 12;

template <typename Field>
constexpr Kind kKindOf = std::is_same_v<Field, std::int64_t>            ? Kind::integer
                         : std::is_same_v<Field, std::optional<double>> ? Kind::real
                                                                        : Kind::text;

std::string shown(const Value& value) {
  constexpr std::size_t kEnough = 40;
  if (std::holds_alternative<std::monostate>(value)) return "empty";
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? cell_text(value) : fmt::format("\"{}\"", one_line(text->substr(0, kEnough)));
}

[[noreturn]] void refuse(const Value& value, std::string_view right) {
  throw ReportError(fmt::format("is {}; {} would be right", shown(value), right));
}

Value to_value(const std::string& field) { return field; }
Value to_value(Status field) { return std::string(to_string(field)); }
Value to_value(std::int64_t field) { return field; }
Value to_value(const std::optional<double>& field) {
  return field && std::isfinite(*field) ? Value(*field) : Value();
}

void assign(std::string& field, const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) refuse(value, "a text");
  field = *text;
}

void assign(Status& field, const Value& value) {
  std::string text;
  assign(text, value);
  field = status_from(text);
}

void assign(std::int64_t& field, const Value& value) {
  const auto* const number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < 0) refuse(value, "an integer from 0 to 2^63-1");
  field = *number;
}

void assign(std::optional<double>& field, const Value& value) {
  constexpr std::string_view kRight = "a finite number from 0 on, or nothing";
  if (std::holds_alternative<std::string>(value)) refuse(value, kRight);
  field.reset();
  if (const auto* const real = std::get_if<double>(&value)) field = *real;
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) field = static_cast<double>(*integer);
  if (field && *field < 0) refuse(value, kRight);
}

/// The field of a record, or of its identity, that a pointer to a member names.
template <auto Member>
constexpr auto& field_of(auto& record) {
  if constexpr (std::is_invocable_v<decltype(Member), Record&>) {
    return record.*Member;
  } else {
    return record.id.*Member;
  }
}

template <auto Member>
constexpr Column column(std::string_view name) {
  using Field = std::remove_cvref_t<decltype(field_of<Member>(std::declval<Record&>()))>;
  return {name, kKindOf<Field>, [](const Record& record) { return to_value(field_of<Member>(record)); },
          [](Record& record, const Value& value) { assign(field_of<Member>(record), value); }};
}

constexpr std::array kColumns = {
    column<&Identity::suite>("suite"),
    column<&Identity::direction>("direction"),
    column<&Identity::placement>("placement"),
    column<&Identity::method>("method"),
    column<&Identity::device>("device"),
    column<&Identity::dtype>("dtype"),
    column<&Identity::index_dtype>("index_dtype"),
    column<&Identity::distribution>("distribution"),
    column<&Identity::rows>("rows"),
    column<&Identity::dim>("dim"),
    column<&Identity::batch>("batch"),
    column<&Identity::cores>("cores"),
    column<&Record::status>("status"),
    column<&Record::reason>("reason"),
    column<&Record::samples>("samples"),
    column<&Record::median_s>("median_s"),
    column<&Record::ci_low_s>("ci_low_s"),
    column<&Record::ci_high_s>("ci_high_s"),
    column<&Record::min_s>("min_s"),
    column<&Record::p05_s>("p05_s"),
    column<&Record::p95_s>("p95_s"),
    column<&Record::payload_bytes>("payload_bytes"),
    column<&Record::index_bytes>("index_bytes"),
    column<&Record::gb_per_s>("gb_per_s"),
    column<&Record::copy_fraction>("copy_fraction"),
    column<&Record::speedup>("speedup"),
    column<&Record::verified_rows>("verified_rows"),
    column<&Record::mismatches>("mismatches"),
};

/// The names taken so far; a second of the same name could not be told apart when read back.
class Names {
 public:
  Names() : taken_{"samples_s"} {
    for (const Column& fixed : kColumns) taken_.emplace(fixed.name);
  }
  void take(const std::string& name) {
    if (name.empty()) throw ReportError("a column without a name cannot be written");
    if (!taken_.insert(name).second)
      throw ReportError(fmt::format("column \"{}\" appears twice in a report", name));
  }

 private:
  std::set<std::string, std::less<>> taken_;
};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Columns& registered_axes() {
  static Columns axes;
  return axes;
}

void check_axes(const Record& record, const std::vector<std::string>& axes) {
  for (const auto& [name, value] : record.id.axes) {
    if (!contains(axes, name))
      throw ReportError(fmt::format("axis \"{}\" of a case is not among the report's axes", name));
  }
}

}  // namespace

std::span<const Column> fixed_columns() { return kColumns; }

std::span<const Column> identity_columns() { return fixed_columns().first(kIdentityColumns); }

const Column* fixed_column(std::string_view name) {
  const auto* const found = std::ranges::find(kColumns, name, &Column::name);
  return found == kColumns.end() ? nullptr : found;
}

const Columns& known_axes() { return registered_axes(); }

const Value& know_axis(std::string_view name, const Value& standard) {
  auto& axes = registered_axes();
  auto place = std::ranges::find_if(axes, [&](const auto& axis) { return axis.first >= name; });
  if (place == axes.end() || place->first != name) place = axes.emplace(place, name, standard);
  if (place->second != standard) throw std::logic_error(fmt::format("axis \"{}\" has two defaults", name));
  return place->second;
}

Layout layout_of(const Report& report) {
  Names names;
  Layout layout;
  layout.axes = report.axes;
  for (const std::string& axis : layout.axes) names.take(axis);
  for (const Record& record : report.records) {
    check_axes(record, layout.axes);
    for (const auto& [name, value] : record.more) {
      const bool first_of_record = find(record.more, name) == &value;
      if (first_of_record && contains(layout.more, name)) continue;
      names.take(name);
      layout.more.push_back(name);
    }
  }
  return layout;
}

Value cell_of(const Columns& columns, std::string_view name) {
  const Value* const value = find(columns, name);
  if (value == nullptr) return {};
  const auto* const real = std::get_if<double>(value);
  return real != nullptr && !std::isfinite(*real) ? Value() : *value;
}

Value cell_of(const Record& record, std::string_view name) {
  if (const Column* const column = fixed_column(name)) return column->get(record);
  return cell_of(find(record.id.axes, name) != nullptr ? record.id.axes : record.more, name);
}

std::optional<double> number_of(const Columns& columns, std::string_view name) {
  return number_of(cell_of(columns, name));
}

std::optional<double> number_of(const Value& value) {
  if (const auto* const real = std::get_if<double>(&value)) return *real;
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::string cell_text(const Value& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return number_text(*whole);
  if (const auto* const real = std::get_if<double>(&value)) return number_text(*real);
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

std::string identity_key(const Record& record, std::initializer_list<std::string_view> without) {
  std::string key;
  const auto add = [&](std::string_view name, const Value& value) {
    if (std::ranges::find(without, name) != without.end()) return;
    const std::string text = cell_text(value);
    // The length keeps a text with blanks apart. A comparison makes thousands of keys; with fmt::format they
    // took a quarter of its time.
    key.append(name).append("=").append(std::to_string(text.size())).append(":").append(text).append(" ");
  };
  for (const Column& part : identity_columns()) add(part.name, part.get(record));
  for (const auto& [name, value] : record.id.axes) add(name, value);
  return key;
}

}  // namespace stbench::reports
