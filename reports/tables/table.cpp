#include "reports/tables/table.h"

#include "reports/group.h"
#include "reports/tables/memory_table.h"
#include "reports/tables/notes.h"
#include "reports/tables/plain_table.h"
#include "reports/tables/step_tables.h"
#include "reports/tables/sweep_tables.h"
#include "reports/tables/training_table.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

/// What was waived stands below all tables; the memory table has it, too, beside the seed's figures, and that
/// of batches, where it is who ran out of memory.
Rows shown_rows(const Report& report) {
  Rows rows;
  for (const Record& record : report.records) {
    const bool in_table = record.id.suite == "memory" || trains_batches(record);
    if (record.status != Status::waived || in_table) rows.push_back(&record);
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
    if (suite.front()->id.suite == "memory") {
      sections.push_back(memory_tables(suite, style));
      continue;
    }
    if (trains_batches(*suite.front())) {
      sections.push_back(training_tables(suite, style));
      continue;
    }
    if (times_steps(*suite.front())) {
      sections.push_back(step_tables(suite, style));
      continue;
    }
    if (suite.front()->id.suite != "transfer") {
      sections.push_back(plain_table(suite, style));
      continue;
    }
    const SweepRows rows = split_sweeps(suite);
    sections.push_back(transfer_tables(rows.others, style));
    sections.push_back(width_tables(rows.widths, style));
    sections.push_back(latency_tables(suite, style));
    sections.push_back(reason_lines(rows.batches, style));
    sections.push_back(round_trip_tables(rows.trips, style));
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
