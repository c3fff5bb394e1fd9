/// Texts of compared cases, for tables of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/compared_case.h"

namespace stbench::reports {

using ComparedRows = std::vector<const ComparedCase*>;

inline constexpr std::string_view kNoNumber = "-";

/// Words that are the same in all rows are printed once.
struct CaseTexts {
  std::string common;              ///< of all rows
  std::vector<std::string> texts;  ///< of each row, what is not common
};

CaseTexts case_texts(const ComparedRows& rows);

/// "4.2%"; from twice as slow on, a factor says more: "2.1×".
std::string factor_or_percent(double size);
/// "+4.2%", "-1.0%", "2.1×".
std::string percent(double change);
/// Seconds, or the share of the ceiling if the case is compared with it.
std::string value_text(const ComparedCase& compared, const std::optional<double>& value);
/// "±4.2%"
std::string limit_text(const ComparedCase& compared);

}  // namespace stbench::reports
