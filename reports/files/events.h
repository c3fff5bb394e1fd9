/// A report as it comes about: one JSON object a line, so that what was measured is there however the run
/// ended.
///
/// The first line is the report without its cases (`"event": "start"`), then a line a case as it is finished
/// (`"case"`), a second one where the case changed later (a last check that failed); at the end of a whole
/// run `"end"` with what is known only then.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// Makes the lines of one run from its report, each time of what is new in it.
class EventLines {
 public:
  /// The lines, each with its end, for what the report has more or other than at the last call: the start,
  /// cases.
  std::string update(const Report& report);
  /// The same, and the last line: the report is whole.
  std::string end(const Report& report);

 private:
  bool started_ = false;
  std::vector<std::string> written_;  ///< of each record by its place: what would make another line of it
};

/// True where a text begins as such lines do.
bool are_events(std::string_view text);

/// The report that the lines tell; `interrupted` where they have no end. A last line that is cut off is left
/// out.
/// @param name of the file, for messages. @throws ReportError naming the line and what is wrong with it.
Report from_events(std::string_view text, std::string_view name);

}  // namespace stbench::reports
