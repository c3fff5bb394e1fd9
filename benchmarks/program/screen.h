/// The text on stdout besides the tables, and whether it may have colour.
#pragma once

#include <unistd.h>

#include <string>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench {

/// Colour for `always`, and for `auto` on a terminal that is not dumb and where NO_COLOR is not set. As wide
/// as COLUMNS says, else as the terminal, else kScreenWidth; from 40 to 160 columns.
reports::Style style_for(const std::string& color, int descriptor = STDOUT_FILENO);

/// True if the descriptor is a terminal that can move its cursor.
bool is_terminal(int descriptor);

/// True if the tables go to stdout: no report takes it, and it is open. A closed one is fine as long as a
/// file takes the results. @throws UsageError if nothing takes them
bool shows_tables(bool report_takes_stdout, bool file_takes_results);

/// The program and the machine of a report in one sentence; empty for one without an environment (a CSV).
std::string machine_text(const reports::Report& report);

/// The same as lines of the screen.
std::string machine_line(const reports::Report& report, reports::Style style);

/// The machine and the screen as Markdown.
std::string markdown_of(const reports::Report& report);

/// Tables, what spoils numbers on the machine, the answer, and how to run one row again.
std::string screen_text(const reports::Report& report, reports::Style style);

}  // namespace stbench
