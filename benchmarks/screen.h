/// What the user sees on stdout besides the tables, and whether it may have colour.
#pragma once

#include <string>

#include "harness/machine.h"
#include "reports/record.h"
#include "reports/style.h"

namespace stbench {

/// Colour for `always`, and for `auto` on a terminal that is not dumb and where NO_COLOR is not set.
reports::Style style_for(const std::string& color);

/// The program and the machine in one line.
std::string machine_line(const harness::Machine& machine);

/// Tables, the answer, and how to run one row again.
std::string screen_text(const reports::Report& report, reports::Style style);

}  // namespace stbench
