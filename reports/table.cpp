#include "reports/table.h"

#include "reports/group.h"
#include "reports/notes.h"
#include "reports/plain_table.h"
#include "reports/transfer_table.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

Rows shown_rows(const Report& report) {
  Rows rows;
  for (const Record& record : report.records) {
    if (record.status != Status::waived) rows.push_back(&record);
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

std::string render_tables(const Report& report, Style style) {
  std::vector<std::string> sections;
  for (const Rows& suite : group_by(shown_rows(report), [](const Record& r) { return r.id.suite; })) {
    const bool transfer = suite.front()->id.suite == "transfer";
    sections.push_back(transfer ? transfer_tables(suite, style) : plain_table(suite, style));
  }
  sections.push_back(waived_lines(report, style));
  sections.push_back(closing_lines(report));
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty()) text += (text.empty() ? "" : "\n") + section;
  }
  return text;
}

}  // namespace stbench::reports
