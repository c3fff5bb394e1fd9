/// A side of a comparison in words: its revision, date and number of processes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/record.h"

namespace stbench::reports {

/// "BASE: revision 3ab32f81c0de, 2026-11-24T07:40:11Z, 5 processes"; each revision once, with "(changed)"
/// after one whose sources had further changes. The date is that of the first report. Facts that no report
/// has are left out.
std::string side_text(std::string_view side, std::span<const Report> reports);

}  // namespace stbench::reports
