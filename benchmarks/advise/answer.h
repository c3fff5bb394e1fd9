/// The answer of `stbench advise`, from rows that were measured. Measures nothing.
///
/// A conclusion rests on steps: `--step-ms` plus the look-up (and the update). If two choices were measured
/// in the same rounds, they are compared by the median of the ratios of their steps and its interval.
/// Otherwise the ends of both medians' intervals bound the ratio. An unstable row counts with all its rounds
/// instead of the median's interval. A ratio is undecided if the limit is in its interval.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/advise/choices.h"
#include "benchmarks/advise/question.h"
#include "reports/record.h"
#include "reports/statistics/statistics.h"

namespace stbench::advise {

/// A choice that costs more than another is worth it if it makes a step shorter by this part of it.
inline constexpr double worth = 0.05;

/// A look-up that takes more of a step than all the rest makes its placement not worth it.
inline constexpr double most_of_step = 0.5;

/// A row whose time a step takes `times` times.
struct Part {
  const reports::Record* row = nullptr;
  double times = 1;
  const reports::Report* report = nullptr;  ///< of the row
};

/// A choice with the processor's caches (and of a file the page cache) in one state.
struct State {
  std::string caches;          ///< "warm", "cold"
  Part lookup;                 ///< gathers the rows of a batch
  std::optional<Part> update;  ///< steps them, of a table that trains
  bool estimated = false;      ///< the update was not measured: a cold look-up for each state stands for it
};

/// The quantiles of a look-up, seconds.
struct Quantiles {
  double p50 = 0, p99 = 0;
  bool p99_at_least = false;  ///< too few look-ups for a 99 % quantile: p99 is the slowest of them
  std::int64_t runs = 0;
};

/// Seconds that a step waits for the table, from the lowest to the highest that the rows allow.
struct Wait {
  double low = 0, median = 0, high = 0;
};

/// A choice with what was measured of it.
struct MeasuredChoice {
  Choice choice;
  std::vector<State> states;  ///< empty if it does not fit or was not measured; then choice says why

  [[nodiscard]] bool measured() const { return !states.empty(); }
};

enum class Verdict { within, beyond, open };

/// Steps with one choice over steps with another.
struct Comparison {
  double middle = 1;
  reports::Interval interval;
  bool paired = false;     ///< by common rounds
  bool estimated = false;  ///< a part was not measured
  /// The verdict on "a step is at most 1 + worth times as long".
  [[nodiscard]] Verdict verdict() const;
};

struct Answer {
  std::vector<MeasuredChoice> choices;         ///< the cheapest first
  std::optional<std::size_t> recommended;      ///< nothing if nothing was measured
  std::optional<std::size_t> cheaper, faster;  ///< the next ones, of those that fit or not
  std::vector<std::size_t>
      open;              ///< cheaper or equal choices of which it is not decided whether they suffice
  bool worth_it = true;  ///< false: waiting for the table takes most of a step, and memory would not
  std::vector<std::string> wrong;  ///< rows with wrong results, in words
};

/// Adds up the parts of a state.
Wait wait_of(const State& state);
/// The part of a step that waits for the table.
double share_of(double wait_s, double step_s);
/// p50 and p99 of the look-up in this state.
Quantiles quantiles_of(const State& state);
/// The part of the look-up's rows that a cache had; nothing if the choice has none.
std::optional<double> hit_rate_of(const State& state);
/// Steps with `a` over steps with `b`, over all states that both have.
Comparison compare_steps(const MeasuredChoice& a, const MeasuredChoice& b, double step_s);

/// @param choices of choices_for(), the cheapest first
/// @param reports of runs_for(); they outlive the answer, which points to their rows
Answer answer_of(const Question& question, const std::vector<Choice>& choices,
                 const std::vector<reports::Report>& reports);

}  // namespace stbench::advise
