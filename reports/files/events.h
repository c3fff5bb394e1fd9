/// A report as a stream, one JSON object per line, so that a run that is killed keeps its finished cases.
///
/// The first line is the report without its cases (`"event": "start"`). Each finished case adds a line
/// (`"case"`), and another one if the case changes later (a last check failed). A complete run ends with
/// `"end"` and the values that are known only then.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// Writes the lines of one run from its report, at each call those of new content.
class EventLines {
 public:
  /// Returns the lines (start, cases), each with its end, for what is new or changed since the last call.
  std::string update(const Report& report);
  /// The same, and the last line: the report is whole.
  std::string end(const Report& report);

 private:
  bool started_ = false;
  std::vector<std::string> written_;  ///< per record: the content whose change adds a line
};

/// True if a text begins as such lines do.
bool are_events(std::string_view text);

/// Returns the report of the lines; `interrupted` if they have no end. A truncated last line is ignored.
/// @param name of the file, for messages. @throws ReportError naming the line, or the
/// field (cases[3].rows), and what is wrong with it.
Report from_events(std::string_view text, std::string_view name);

}  // namespace stbench::reports
