#include "reports/tables/table.h"

#include <string>
#include <vector>

#include "reports/group.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

Rows shown_rows(const Report& report, const TablesOf& tables_of) {
  Rows rows;
  for (const Record& record : report.records) {
    if (record.status != Status::waived || tables_of(record.id.suite).waived_too) rows.push_back(&record);
  }
  return rows;
}

std::string closing_lines(const Report& report) {
  std::string text;
  for (const std::string& warning : report.warnings) {
    text += paragraph("warning: " + warning, 2, Paint::doubtful, Style::plain);
  }
  if (report.interrupted) text += "Interrupted: only the cases that were finished by then are here.\n";
  return text;
}

}  // namespace

std::string render_tables(const Report& report, Style style, const TablesOf& tables_of) {
  std::vector<std::string> sections;
  const auto suite_of = [](const Record& record) { return record.id.suite; };
  for (const Rows& rows : group_by(shown_rows(report, tables_of), suite_of))
    sections.push_back(tables_of(suite_of(*rows.front())).tables(rows, style));
  sections.push_back(waived_lines(report, style));
  sections.push_back(closing_lines(report));
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty()) text += (text.empty() ? "" : "\n") + section;
  }
  return text;
}

}  // namespace stbench::reports
