#include "reports/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/columns.h"
#include "reports/csv_reader.h"
#include "reports/error.h"
#include "reports/number.h"
#include "reports/utf8.h"

namespace stbench::reports {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool needs_quotes(std::string_view text) {
  return text.find_first_of("\",\r\n") != std::string_view::npos || text.starts_with(' ') ||
         text.ends_with(' ') || text.starts_with('\t') || text.ends_with('\t') ||
         text.starts_with("\xEF\xBB\xBF");
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string text_cell(std::string_view raw) {
  const std::string text = valid_utf8(raw);
  return needs_quotes(text) ? in_quotes(text) : text;
}

/// A cell of a column whose kind the header does not tell: its quotes say that it is a text.
std::string free_cell(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) return cell_text(value);
  return text->empty() || real_from(*text) ? in_quotes(*text) : text_cell(*text);
}

std::string fixed_cell(const Column& column, const Record& record) {
  return text_cell(cell_text(column.get(record)));
}

std::string header(const Layout& layout) {
  std::vector<std::string> names;
  for (const Column& column : fixed_columns()) names.emplace_back(column.name);
  for (const std::string& axis : layout.axes) names.push_back(text_cell(axis));
  for (const std::string& plain : layout.more) names.push_back(text_cell(plain));
  return fmt::format("{}{}", fmt::join(names, ","), kLineEnd);
}

std::string line_of(const Record& record, const Layout& layout) {
  std::vector<std::string> cells;
  for (const Column& column : fixed_columns()) cells.push_back(fixed_cell(column, record));
  for (const std::string& axis : layout.axes) cells.push_back(free_cell(cell_of(record.id.axes, axis)));
  for (const std::string& plain : layout.more) cells.push_back(free_cell(cell_of(record.more, plain)));
  return fmt::format("{}{}", fmt::join(cells, ","), kLineEnd);
}

Value read_cell(const CsvCell& cell, Kind kind) {
  if (kind == Kind::text) return cell.text;
  if (cell.quoted) return cell.text;
  if (cell.text.empty()) return {};
  if (const auto integer = integer_from(cell.text)) return *integer;
  if (const auto real = real_from(cell.text)) return *real;
  return cell.text;
}

/// What the header says of each position: a fixed column, or the name of a further one.
struct Position {
  const Column* fixed = nullptr;
  std::string name;
  bool axis = false;
};

Position position_of(const std::string& name) {
  const auto columns = fixed_columns();
  const auto fixed =
      std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.name == name; });
  const bool axis = find(known_axes(), name) != nullptr;
  return {fixed == columns.end() ? nullptr : &*fixed, name, axis};
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Report read(std::string_view text) {
    const std::vector<CsvRow> rows = csv_rows(text, name_);
    if (rows.empty())
      throw ReportError(fmt::format("{}: is empty; a line of column names would be right", name_));
    read_header(rows.front());
    Report report;
    for (const Position& position : positions_) {
      if (position.axis) report.axes.push_back(position.name);
    }
    for (auto row = rows.begin() + 1; row != rows.end(); ++row) report.records.push_back(record_of(*row));
    return report;
  }

 private:
  void read_header(const CsvRow& row) {
    std::vector<std::string> names;
    for (const CsvCell& cell : row.cells) {
      if (cell.text.empty()) fail(row, "a column has no name");
      if (std::find(names.begin(), names.end(), cell.text) != names.end()) {
        fail(row, fmt::format("column \"{}\" appears twice", cell.text));
      }
      names.push_back(cell.text);
      positions_.push_back(position_of(cell.text));
    }
    if (std::find(names.begin(), names.end(), "samples_s") != names.end()) {
      fail(row, "column \"samples_s\" is of the JSON only");
    }
    for (const Column& column : fixed_columns()) {
      if (std::find(names.begin(), names.end(), column.name) == names.end()) {
        fail(row, fmt::format("column \"{}\" is missing; a report of schema 1 has it", column.name));
      }
    }
  }

  Record record_of(const CsvRow& row) const {
    if (row.cells.size() != positions_.size()) {
      fail(row,
           fmt::format("has {} cells; {} would be right, one a column", row.cells.size(), positions_.size()));
    }
    Record record;
    for (std::size_t i = 0; i < positions_.size(); ++i) place(row, positions_[i], row.cells[i], record);
    return record;
  }

  void place(const CsvRow& row, const Position& position, const CsvCell& cell, Record& record) const {
    if (position.fixed == nullptr) {
      Value value = read_cell(cell, Kind::integer);
      if (std::holds_alternative<std::monostate>(value)) return;
      (position.axis ? record.id.axes : record.more).emplace_back(position.name, std::move(value));
      return;
    }
    try {
      position.fixed->set(record, read_cell(cell, position.fixed->kind));
    } catch (const ReportError& error) {
      fail(row, fmt::format("column {}: {}", position.name, error.what()));
    }
  }

  [[noreturn]] void fail(const CsvRow& row, std::string_view what) const {
    throw ReportError(fmt::format("{}, line {}: {}", name_, row.line, what));
  }

  std::string_view name_;
  std::vector<Position> positions_;
};

}  // namespace

std::string to_csv(const Report& report) {
  const Layout layout = layout_of(report);
  std::string text = header(layout);
  for (const Record& record : report.records) text += line_of(record, layout);
  return text;
}

Report from_csv(std::string_view text, std::string_view name) { return Reader(name).read(text); }

}  // namespace stbench::reports
