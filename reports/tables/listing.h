/// A report's rows as a list with chosen columns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// The sentence of a case, which the suites know how to say.
using SentenceOf = std::function<std::string(const Identity&)>;

/// All names that can be listed: `case` (the sentence), then the report's columns.
std::vector<std::string> listed_columns(const Report& report);

/// Those that are listed where none are named.
std::vector<std::string> usual_columns();

/// By the values of one column, numbers as numbers; rows without a value come last either way, equal ones
/// keep their order.
void sort_by(Report& report, const std::string& column, bool down, const SentenceOf& sentence_of);

/// A table of those columns, as wide as it needs: a list is for pipes, too.
std::string listing(const Report& report, const std::vector<std::string>& columns, Style style,
                    const SentenceOf& sentence_of);

}  // namespace stbench::reports
