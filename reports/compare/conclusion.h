/// What a comparison concludes: the exit status that a CI job gates on, and the sentences that say why.
#pragma once

#include <string>

#include "reports/compare/compared_case.h"

namespace stbench::reports {

/// In the order in which they decide: what stands first hides what comes after.
enum class Outcome {
  wrong,         ///< a result is wrong in NEW
  slower,        ///< a subject is slower, or missing where that is not allowed
  inconclusive,  ///< the machine's state differs, or a slowdown of `must_see` could have gone unseen
  no_slowdown,
};

struct Conclusion {
  Outcome outcome = Outcome::no_slowdown;
  int exit_status = 0;  ///< 2, 1, 4 or 0, in the order of Outcome
  std::string text;     ///< one paragraph for people: what was found, by how much, and what to do
};

/// Ceilings never count. If a control moved, the machine's state differs between the sides: no subject counts
/// as slower or faster then, because nobody knows whose change it is.
Conclusion conclude(const Comparison& comparison, const ComparisonRules& rules, bool allow_missing);

}  // namespace stbench::reports
