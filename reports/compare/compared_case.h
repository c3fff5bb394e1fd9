/// The result of a comparison, per case and over all cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/metric.h"
#include "reports/record.h"

namespace stbench::reports {

/// If a control moved, the machine's state differs between the sides. Then no subject is slower or faster:
/// the machine may be the cause.
enum class Verdict { slower, now_wrong, missing, faster, unresolved, same, added };

/// "slower", "now-wrong", "missing", "faster", "unresolved", "same", "new".
std::string_view to_string(Verdict verdict);

struct ComparisonRules {
  double effect = 0.02;         ///< a shift below this is none
  std::string metric = "auto";  ///< metric.h
  double false_alarms = 0.01;   ///< of comparisons of the same thing, at most
  /// The slowdown that must be detectable in every subject; none: no requirement.
  std::optional<double> must_see = std::nullopt;
};

struct ComparedCase {
  Identity id;
  Part part = Part::subject;
  Verdict verdict = Verdict::unresolved;
  std::string metric;               ///< "ceiling", "time", or a column
  std::optional<double> base, now;  ///< seconds, time over the ceiling's, or the column's unit
  std::optional<double> change;     ///< 0.05 is 5 % slower
  std::optional<double> low, high;  ///< of the change, 95 % of this row alone
  std::optional<double> limit;      ///< smaller changes are not significant
  std::optional<double> sees;       ///< the slowdown that 80 % of comparisons would detect
  std::optional<double> p;          ///< of the rank test; Holm's for two single runs
  std::size_t base_runs = 0, now_runs = 0;
  std::optional<std::int64_t> needs_runs;     ///< per side, to resolve it, about
  std::optional<std::int64_t> needs_samples;  ///< per run, the fewest that any test needs
  std::string note;                           ///< one line
};

/// All controls taken together.
struct Controls {
  std::size_t count = 0;
  double change = 0;  ///< their mean: 0.05 is 5 % slower
  double limit = 0;   ///< from which on they moved
  bool moved = false;
};

struct Comparison {
  std::vector<ComparedCase> cases;
  Controls controls;
  std::vector<std::string> notes;  ///< what a reader should know, a sentence or two each
};

std::size_t count(const Comparison& comparison, Verdict verdict);

/// The axes of the cases' identities, each once.
std::vector<std::string> axes_of(const std::vector<const ComparedCase*>& cases);

/// True for a subject whose change is known.
bool is_judged_subject(const ComparedCase& compared);

/// True if the case is slower or faster.
bool is_moved(const ComparedCase& compared);

/// True for a control that is slower or faster.
bool is_moved_control(const ComparedCase& compared);

/// True if a control moved, or all together: the machine's state differs between the sides.
bool state_differs(const Comparison& comparison);

}  // namespace stbench::reports
