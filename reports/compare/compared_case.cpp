#include "reports/compare/compared_case.h"

#include <algorithm>
#include <array>

namespace stbench::reports {

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 7> kNames = {"slower",     "now-wrong", "missing", "faster",
                                                      "unresolved", "same",      "new"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::size_t count(const Comparison& comparison, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(comparison.cases.begin(), comparison.cases.end(),
                    [&](const ComparedCase& compared) { return compared.verdict == verdict; }));
}

bool is_judged_subject(const ComparedCase& compared) {
  return compared.part == Part::subject && compared.change.has_value();
}

bool state_differs(const Comparison& comparison) {
  return comparison.controls.moved ||
         std::any_of(comparison.cases.begin(), comparison.cases.end(), is_moved_control);
}

bool is_moved_control(const ComparedCase& compared) {
  return compared.part == Part::control &&
         (compared.verdict == Verdict::slower || compared.verdict == Verdict::faster);
}

}  // namespace stbench::reports
