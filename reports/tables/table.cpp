#include "reports/tables/table.h"

#include <functional>
#include <string>
#include <vector>

#include "reports/group.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

std::string closing_lines(const Report& report, Style style) {
  std::string text;
  for (const std::string& warning : report.warnings) {
    Style plain = style;
    plain.coloured = false;
    text += paragraph("warning: " + warning, 2, Paint::doubtful, plain);
  }
  if (report.interrupted)
    text +=
        lines_of("Interrupted: only the cases that were finished by then are here.", 2, Paint::none, style);
  return text;
}

}  // namespace

std::string render_tables(const Report& report, Style style, const TablesOf& tables_of) {
  const Rows shown = those(pointers_to(report.records), [&](const Record& record) {
    return record.status != Status::waived || tables_of(record.id.suite).waived_too;
  });
  const auto suite_of = [](const Record& record) { return record.id.suite; };
  std::vector<std::string> texts;
  for (const Rows& rows : group_by(shown, suite_of))
    texts.push_back(tables_of(suite_of(*rows.front())).tables(rows, style));
  texts.push_back(waived_lines(report, style));
  texts.push_back(closing_lines(report, style));
  return sections(texts, std::identity{});
}

}  // namespace stbench::reports
