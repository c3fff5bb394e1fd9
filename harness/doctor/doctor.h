/// Checks of the machine for what would distort a measurement: finding, affected rows, cure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/doctor/finding.h"
#include "harness/environment.h"
#include "reports/style.h"

namespace stbench::harness::doctor {

/// All checks, in the order of their findings.
const std::vector<Check>& checks();

/// The kernel's files below `sources.root`, and what the driver tells.
Sources read_sources(const EnvironmentSources& sources = {});

/// One finding a check.
std::vector<Finding> examine(const Sources& sources);

/// {"findings": [{"check", "verdict", "found", "rows", "cure"}, ...]}: `environment.doctor` of a report, and
/// what `stbench doctor --json` prints. A text that is empty is null.
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);

/// For people: what spoils, then what to know, then what is not known (checks of the same reason in one
/// line), and how many are fine.
std::string to_text(const std::vector<Finding>& findings, reports::Style style = reports::Style::plain);

}  // namespace stbench::harness::doctor
