/// Calibrates a machine by several processes of the same program; reads and writes the result.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/compare/calibrated_spreads.h"
#include "reports/record.h"

namespace stbench::reports {

/// The spreads alone. @throws ReportError for fewer than two reports, or one with a case twice.
Calibration spreads_of(std::span<const Report> reports);

/// Spreads and false alarms, from at least three reports: a pair's spread comes from the others.
/// @throws ReportError for fewer, or for a report with a case twice.
Calibration calibrate(std::span<const Report> reports);

std::string to_json(const Calibration& calibration);
/// @param name of the file, for messages. @throws ReportError naming the place and what would be right.
Calibration calibration_from_json(std::string_view text, std::string_view name);

}  // namespace stbench::reports
