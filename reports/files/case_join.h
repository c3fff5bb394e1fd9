/// The cases of several reports, joined by their identity.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// One case in the reports of two sides: one pointer per report, null if that report lacks it.
struct JoinedCase {
  Identity id;  ///< as the first report that has it writes it
  std::vector<const Record*> base, now;

  /// The records of both sides that have numbers.
  [[nodiscard]] std::vector<const Record*> measured() const;
};

/// The identity as a key. An axis at its default is left out, so that a report from before an axis was added
/// joins a later one.
std::string join_key(const Identity& id);
/// The same without the method: equal for the cases of one cell.
std::string cell_key(const Identity& id);

/// @param name of the report, for the message
/// @throws ReportError if the report has a case twice, with both places.
void require_distinct(const Report& report, std::string_view name);

/// In the order of the first report, then of the others. The records stay where they are.
/// @throws ReportError if a report has a case twice, with both places.
std::vector<JoinedCase> join_cases(std::span<const Report> base, std::span<const Report> now);

}  // namespace stbench::reports
