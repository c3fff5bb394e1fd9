/// The lines under a table: why a row is doubtful, wrong, failed or missing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/style.h"

namespace stbench::reports {

/// `method(placement)`, as SpeedTorch writes `SpeedTorch(PinnedCPU)`; one of the two alone if the other is
/// empty.
std::string who(const Identity& id);

/// A text of any length as lines of the screen, each but the first indented.
std::string paragraph(std::string_view text, std::size_t indent, Paint paint, Style style);

/// Reasons of the unstable, wrong and failed rows, rows of the same reason together, a few lines of each.
std::string reason_lines(const std::vector<const Record*>& rows, Style style);

/// One line per device and reason, with its placements, for what this machine cannot do; or nothing.
std::string waived_lines(const Report& report, Style style);

}  // namespace stbench::reports
