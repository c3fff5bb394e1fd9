/// Reports with everything in them that a writer or a reader can stumble over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

/// A report of up to 8 cases from a seed: extreme doubles, null everywhere, texts with quotes, commas, line
/// ends, UTF-8 and the looks of numbers. Valid UTF-8, no NUL.
Report random_report(std::uint64_t seed);

/// The schema's fixed columns as docs/schema.md and the design have them, written down once more.
extern const std::vector<std::string> kSchemaColumns;

/// Every cell of every case on a line of its own, doubles as the hexadecimal digits of their bits, texts as
/// those of their bytes; made without the code under test. Null cells of axes and plain columns are written
/// too.
std::string dump_cases(const Report& report);

}  // namespace stbench::reports
