/// What holds of each reader of reports, whatever the bytes: a report or a ReportError, and what was read is
/// written and read again as the same; comparing it with itself finds nothing.
#pragma once

#include <string>
#include <string_view>

#include "reports/compare/comparison.h"
#include "reports/error.h"
#include "reports/files/csv.h"
#include "reports/files/json.h"
#include "reports/tables/table.h"
#include "tests/fuzz.h"
#include "tests/reports/suites.h"

namespace stbench::reports {

using test::require;

/// A refusal names the file, the line and the column, and can be printed on a terminal.
inline void check_refusal(std::string_view message) {
  require(message.starts_with("fuzz"), "a refusal names the file");
  for (const char c : message)
    require(static_cast<unsigned char>(c) >= 0x20, "a refusal is one line of text");
  require(message.size() < 1000, "a refusal is short");
}

using Writer = std::string (*)(const Report&);
using Reader = Report (*)(std::string_view text, std::string_view name);

/// @param write to_csv or to_json, @param read the reader of the same
inline void check_report(const Report& report, Writer write, Reader read) {
  const std::string text = write(report);
  require(write(read(text, "fuzz")) == text, "what was read is written and read again as the same");
  render_tables(report, Style::plain, tables_of);
  const std::vector<Report> side = {report};
  try {
    const Comparison comparison = compare(side, side);
    require(count(comparison, Verdict::slower) == 0, "a report is not slower than itself");
    require(count(comparison, Verdict::faster) == 0, "a report is not faster than itself");
    require(count(comparison, Verdict::added) == 0, "a report has nothing new to itself");
  } catch (const ReportError& error) {
    require(!std::string_view(error.what()).empty(), "a refusal says something");
  }
}

inline void fuzz_reader(std::string_view text, Writer write, Reader read) {
  Report report;
  try {
    report = read(text, "fuzz");
  } catch (const ReportError& error) {
    return check_refusal(error.what());
  }
  check_report(report, write, read);
}

}  // namespace stbench::reports
