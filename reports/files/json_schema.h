/// The JSON Schema of a report (draft 2020-12), made from the one table of columns.
#pragma once

#include <string>

namespace stbench::reports {

/// docs/report.schema.json, to the byte: a test holds the two against each other, and the schema against
/// reports.
std::string json_schema();

}  // namespace stbench::reports
