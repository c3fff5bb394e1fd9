#include "reports/compare/compared_case.h"

#include <algorithm>
#include <array>

#include "reports/group.h"

namespace stbench::reports {

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 7> kNames = {"slower",     "now-wrong", "missing", "faster",
                                                      "unresolved", "same",      "new"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::size_t count(const Comparison& comparison, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(comparison.cases, verdict, &ComparedCase::verdict));
}

std::vector<std::string> axes_of(const std::vector<const ComparedCase*>& cases) {
  std::vector<std::string> axes;
  for (const ComparedCase* compared : cases) {
    for (const auto& [name, value] : compared->id.axes) add_once(axes, name);
  }
  return axes;
}

bool is_judged_subject(const ComparedCase& compared) {
  return compared.part == Part::subject && compared.change.has_value();
}

bool state_differs(const Comparison& comparison) {
  return comparison.controls.moved || std::ranges::any_of(comparison.cases, is_moved_control);
}

bool is_moved(const ComparedCase& compared) {
  return compared.verdict == Verdict::slower || compared.verdict == Verdict::faster;
}

bool is_moved_control(const ComparedCase& compared) {
  return compared.part == Part::control && is_moved(compared);
}

}  // namespace stbench::reports
