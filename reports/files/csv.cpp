#include "reports/files/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "reports/columns.h"
#include "reports/error.h"
#include "reports/files/csv_cells.h"
#include "reports/files/csv_reader.h"
#include "reports/files/emulated.h"
#include "reports/number.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kMostCases = 200'000;  // each is about a kilobyte

/// A text of the file in a message.
std::string shown_cell(std::string_view text) {
  constexpr std::size_t kShown = 40;
  return shortened(one_line(text.substr(0, kShown)), kShown);
}

/// A cell of a column whose kind the header does not tell: its quotes say that it is a text.
std::string free_cell(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) return cell_text(value);
  return text->empty() || real_from(*text) ? quoted_cell(*text) : text_cell(*text);
}

std::string fixed_cell(const Column& column, const Record& record) {
  const std::string text = cell_text(column.get(record));
  return column.kind == Kind::text ? text_cell(text) : text;
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
  if (kind == Kind::text) return text_of_cell(cell.text);
  if (cell.quoted) return text_of_cell(cell.text);
  if (cell.text.empty()) return {};
  if (const auto integer = integer_from(cell.text)) return *integer;
  if (const auto real = real_from(cell.text)) return *real;
  return text_of_cell(cell.text);
}

/// The header's entry per position: a fixed column, or the name of a further one.
struct Position {
  const Column* fixed = nullptr;
  std::string name;
  bool axis = false;
};

Position position_of(const std::string& name) {
  return {fixed_column(name), name, find(known_axes(), name) != nullptr};
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Report read(std::string_view text) {
    Report report;
    read_csv_rows(text, name_, [&](const CsvRow& row) {
      if (!positions_.empty()) return add(row, report);
      read_header(row);
      for (const Position& position : positions_) {
        if (position.axis) report.axes.push_back(position.name);
      }
    });
    if (positions_.empty())
      throw ReportError(fmt::format("{}: is empty; a line of column names would be right", name_));
    return report;
  }

 private:
  void add(const CsvRow& row, Report& report) const {
    if (report.records.size() == kMostCases)
      fail(row, fmt::format("more than {} cases; no report has so many", kMostCases));
    report.records.push_back(record_of(row));
  }

  void read_header(const CsvRow& row) {
    std::set<std::string, std::less<>> names;
    for (const CsvCell& cell : row.cells) {
      const std::string name = text_of_cell(cell.text);
      if (name.empty()) fail(cell, "a column has no name");
      if (name == "samples_s") fail(cell, "column \"samples_s\" is of the JSON only");
      if (!names.insert(name).second)
        fail(cell, fmt::format("column \"{}\" appears twice", shown_cell(name)));
      positions_.push_back(position_of(name));
    }
    for (const Column& column : fixed_columns()) {
      if (!names.contains(column.name)) {
        fail(row, fmt::format("column \"{}\" is missing; a report of schema 1 has it", column.name));
      }
    }
  }

  Record record_of(const CsvRow& row) const {
    if (row.cells.size() != positions_.size()) {
      fail(row, fmt::format("has {} cells; {} would be right, one per column", row.cells.size(),
                            positions_.size()));
    }
    Record record;
    for (std::size_t i = 0; i < positions_.size(); ++i) place(positions_[i], row.cells[i], record);
    if (lacks_time(record)) {
      const auto median = std::ranges::find(positions_, "median_s", &Position::name);
      fail(row.cells[static_cast<std::size_t>(median - positions_.begin())],
           fmt::format("median_s: is empty; {}", lacks_time_text));
    }
    return record;
  }

  void place(const Position& position, const CsvCell& cell, Record& record) const {
    if (position.fixed == nullptr) {
      Value value = read_cell(cell, Kind::integer);
      if (std::holds_alternative<std::monostate>(value)) return;
      (position.axis ? record.id.axes : record.more).emplace_back(position.name, std::move(value));
      return;
    }
    try {
      position.fixed->set(record, read_cell(cell, position.fixed->kind));
    } catch (const ReportError& error) {
      fail(cell, fmt::format("{}: {}", position.name, error.what()));
    }
  }

  [[noreturn]] void fail(const CsvRow& row, std::string_view what) const {
    fail(row.cells.empty() ? CsvCell{{}, false, row.line, 1} : row.cells.front(), what);
  }
  [[noreturn]] void fail(const CsvCell& cell, std::string_view what) const {
    throw ReportError(fmt::format("{}, line {}, column {}: {}", name_, cell.line, cell.column, what));
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
