/// A whole report as JSON.
///
/// One object; a case has the names of the CSV and `samples_s`. Numbers are numbers with the digits of the
/// CSV, null stands for what was not measured. A case is a few lines: identity, measures, further columns,
/// samples. The conclusion (tables/answer.h) is written, and not read: it follows from the cases.
#pragma once

#include <string>
#include <string_view>

#include "reports/record.h"

namespace stbench::reports {

/// @throws ReportError if the report's column names are not distinct.
std::string to_json(const Report& report);

/// Refuses what is not schema 1.x, nesting deeper than 32 (while parsing), duplicate keys, and fields that
/// are missing or of the wrong kind. Further fields of a case that hold one value are kept as plain columns
/// (true and false as 1 and 0); other unknown fields are left out.
/// @param name of the file, for messages.
/// @throws ReportError naming the file, the field and what would be right.
Report from_json(std::string_view text, std::string_view name);

}  // namespace stbench::reports
