/// The conclusion of a comparison: the exit status that gates a CI job, and the reasons in words.
#pragma once

#include <string>

#include "reports/compare/compared_case.h"

namespace stbench::reports {

/// In order of precedence: an earlier one hides the later ones.
enum class Outcome {
  wrong,         ///< a result is wrong in NEW
  slower,        ///< a subject is slower, or missing if that is not allowed
  inconclusive,  ///< the machine's state differs, or a slowdown of `must_see` could have gone unseen
  no_slowdown,
};

struct Conclusion {
  Outcome outcome = Outcome::no_slowdown;
  int exit_status = 0;  ///< 2, 1, 4 or 0, in the order of Outcome
  std::string word;     ///< "Wrong", "Slower", "Missing", "Inconclusive", "No slowdown", "No slowdown found",
                        ///< "Nothing compared"
  std::string text;     ///< one paragraph for people: what was found, by how much, and what to do
};

/// Ceilings never count. If a control moved, no subject counts as slower or faster, because the machine's
/// state differs between the sides.
Conclusion conclude(const Comparison& comparison, const ComparisonRules& rules, bool allow_missing);

}  // namespace stbench::reports
