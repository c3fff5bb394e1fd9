#include "reports/compare/conclusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/style.h"

namespace stbench::reports {
namespace {

using Cases = std::vector<const ComparedCase*>;

template <typename Counts>
Cases cases_where(const Comparison& comparison, Counts counts) {
  return those(pointers_to(comparison.cases), counts);
}

/// The one that changed most, of rows that changed.
const ComparedCase& worst(const Cases& rows) {
  return **std::ranges::max_element(
      rows, {}, [](const ComparedCase* compared) { return std::abs(std::log1p(*compared->change)); });
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// "34 %", and from twice the time on "3.2×".
std::string size_text(double change) {
  return change >= 1 ? fmt::format("{}×", significant(1 + change, 2))
                     : fmt::format("{}%", significant(100 * change, 2));
}

std::string direction_text(double change) {
  return change >= 0 ? size_text(change) + " slower" : size_text(std::expm1(-std::log1p(change))) + " faster";
}

std::string case_text(const Identity& id) {
  return fmt::format("{} {} {} ×{}", id.method, id.direction, id.placement, id.dim);
}

Conclusion about_slower(const Cases& slower, const Cases& missing) {
  std::string text;
  if (!slower.empty()) {
    const ComparedCase& row = worst(slower);
    text = fmt::format("Slower: {}, {} is {} (limit {}).", counted(slower.size(), "case", "cases"),
                       slower.size() == 1 ? case_text(row.id) : "the worst, " + case_text(row.id) + ",",
                       direction_text(*row.change), size_text(row.limit.value_or(0)));
  }
  if (!missing.empty()) {
    text += fmt::format("{}Missing: {}, for one {}.", text.empty() ? "" : " ",
                        counted(missing.size(), "case", "cases"), case_text(missing.front()->id));
  }
  return {Outcome::slower, 1, slower.empty() ? "Missing" : "Slower", text};
}

Conclusion about_state(const Comparison& comparison) {
  const Controls& controls = comparison.controls;
  std::string moved = fmt::format("LibTorch's own rows ({}) moved together: they are {} (limit {})",
                                  counted(controls.count, "control", "controls"),
                                  direction_text(controls.change), size_text(controls.limit));
  if (!controls.moved) {
    const ComparedCase& row = worst(cases_where(comparison, is_moved_control));
    moved = fmt::format("A control moved: {} is {} (limit {})", case_text(row.id),
                        direction_text(*row.change), size_text(row.limit.value_or(0)));
  }
  return {
      Outcome::inconclusive, 4, "Inconclusive",
      fmt::format(
          "Inconclusive: the machine's state differs between the sides. {}, and no change of this project "
          "can move them. Measure both sides again, in turn on one machine.",
          moved)};
}

/// The slowdown that each of the rows would have shown; infinity if one would have shown none.
double visible_in_all(const Cases& rows) {
  double most = 0;
  for (const ComparedCase* row : rows) most = std::max(most, row->sees.value_or(INFINITY));
  return most;
}

/// Processes a side with which the blindest row would have seen it: the reach falls with their square root.
std::string processes_text(const Cases& rows, double must_see) {
  const double reach = std::log1p(visible_in_all(rows)), target = std::log1p(must_see);
  std::size_t runs = 0;
  for (const ComparedCase* row : rows) runs = std::max({runs, row->base_runs, row->now_runs});
  const double needed = std::ceil(static_cast<double>(runs) * (reach / target) * (reach / target));
  return needed <= 100 ? fmt::format("about {:.0f} processes per side", needed)
                       : "a quieter machine: more than 100 processes per side would be needed here";
}

Conclusion about_blindness(const Cases& blind, const Cases& subjects, double must_see) {
  const double all = visible_in_all(subjects);
  const std::string seen = std::isinf(all)
                               ? std::string("some could not have shown any")
                               : fmt::format("only one of {} would have shown in each", size_text(all));
  return {Outcome::inconclusive, 4, "Inconclusive",
          fmt::format(
              "Inconclusive: a slowdown of {} could have gone unseen in {} of {}; {}. Measure again with {}, "
              "or fewer cases.",
              size_text(must_see), blind.size(), counted(subjects.size(), "case", "cases"), seen,
              std::isinf(all) ? "more samples" : processes_text(subjects, must_see))};
}

Conclusion about_none(const Cases& subjects, const ComparisonRules& rules) {
  if (subjects.empty())
    return {Outcome::no_slowdown, 0, "Nothing compared", "No case of this project was compared by numbers."};
  if (rules.must_see) {
    return {Outcome::no_slowdown, 0, "No slowdown",
            fmt::format("No slowdown of {} or more: each of {} would have shown it.",
                        size_text(*rules.must_see), counted(subjects.size(), "case", "cases"))};
  }
  const double all = visible_in_all(subjects);
  const std::string seen =
      std::isinf(all) ? std::string("any slowdown") : "a slowdown below " + size_text(all);
  return {
      Outcome::no_slowdown, 0, "No slowdown found",
      fmt::format(
          "No slowdown was found, but {} could have gone unseen; --must-see 10% makes that exit status 4.",
          seen)};
}

}  // namespace

Conclusion conclude(const Comparison& comparison, const ComparisonRules& rules, bool allow_missing) {
  const auto with = [&](Verdict verdict, bool any_part) {
    return cases_where(comparison, [&](const ComparedCase& compared) {
      return compared.verdict == verdict && (any_part || compared.part == Part::subject);
    });
  };
  if (const Cases wrong = with(Verdict::now_wrong, true); !wrong.empty()) {
    return {Outcome::wrong, 2, "Wrong",
            fmt::format("Wrong: {} in NEW, for one {}.", counted(wrong.size(), "result", "results"),
                        case_text(wrong.front()->id))};
  }
  const Cases missing = allow_missing ? Cases{} : with(Verdict::missing, true);
  const Cases slower = with(Verdict::slower, false);
  if (!missing.empty() || !slower.empty()) return about_slower(slower, missing);
  if (state_differs(comparison)) return about_state(comparison);
  const Cases subjects = cases_where(comparison, is_judged_subject);
  const Cases blind = cases_where(comparison, [&](const ComparedCase& compared) {
    return rules.must_see && is_judged_subject(compared) &&
           (compared.sees.value_or(INFINITY) > *rules.must_see ||
            compared.high.value_or(INFINITY) >= *rules.must_see);
  });
  return blind.empty() ? about_none(subjects, rules) : about_blindness(blind, subjects, *rules.must_see);
}

}  // namespace stbench::reports
