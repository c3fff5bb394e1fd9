#include "benchmarks/advise/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "benchmarks/suite/suite.h"
#include "harness/sampler.h"
#include "reports/columns.h"

namespace stbench::advise {
namespace {

using reports::Interval;
using reports::Record;
using reports::Status;

using Reports = std::vector<reports::Report>;

constexpr double no_end = std::numeric_limits<double>::infinity();

bool is_cold(const Record& row) {
  const auto* cache = reports::find(row.id.axes, "cache");
  return cache != nullptr && *cache == reports::Value("cold");
}

bool has_times(const Record& row) {
  return has_numbers(row.status) && row.median_s && !row.samples_s.empty();
}

/// The row with times, the fastest of those that `counts` accepts; else one without; else none.
template <class Counts>
Part best(const Reports& reports, Counts counts) {
  Part found;
  for (const auto& report : reports) {
    for (const auto& row : report.records) {
      if (!counts(row)) continue;
      const bool better =
          found.row == nullptr ||
          (has_times(row) && (!has_times(*found.row) || *row.median_s < *found.row->median_s));
      if (better) found = {&row, 1, &report};
    }
  }
  return found;
}

/// The row is one of the choice's placement, by a method that keeps rows if the choice has a cache.
bool is_of(const Record& row, const Choice& choice) {
  return row.id.placement == to_string(choice.placement) &&
         (row.id.method == "row_cache") == (choice.cache_bytes > 0);
}

Part lookup_row(const Reports& reports, const Choice& choice, bool cold) {
  return best(reports, [&](const Record& row) {
    return row.id.suite == "transfer" && row.id.direction == "to" && is_of(row, choice) &&
           is_cold(row) == cold;
  });
}

Part update_row(const Reports& reports, const Choice& choice, bool cold) {
  return best(reports, [&](const Record& row) {
    return row.id.suite == "optimizer" && is_of(row, choice) && is_cold(row) == cold;
  });
}

/// Why the part has no times; empty if it has.
std::string without_times(const Part& part) {
  if (part.row == nullptr) return "its rows are missing from the report";
  if (has_times(*part.row)) return {};
  if (!part.row->reason.empty()) return part.row->reason;
  return fmt::format("its row is {} and has no time", to_string(part.row->status));
}

/// Sets the states of a choice, or why there are none.
class Attach {
 public:
  Attach(const Question& question, const Reports& reports) : question_(question), reports_(reports) {}

  MeasuredChoice operator()(const Choice& choice) const {
    MeasuredChoice measured{choice, {}};
    if (!choice.misfit.empty() || !choice.unmeasured.empty()) return measured;
    for (const auto& caches : choice.caches) {
      State state{caches, lookup_row(reports_, choice, caches == "cold"), std::nullopt, false};
      auto missing = without_times(state.lookup);
      if (missing.empty() && question_.trains()) missing = add_update(choice, state);
      if (missing.empty()) {
        measured.states.push_back(state);
      } else {
        measured.choice.unmeasured = missing;
      }
    }
    if (measured.measured()) measured.choice.unmeasured.clear();
    return measured;
  }

 private:
  /// A step touches each row in the table and in each state. In a file, the look-up has already read the
  /// table's rows; one more look-up per state estimates the rest.
  /// @returns why there are no times; empty if there are
  std::string add_update(const Choice& choice, State& state) const {
    state.estimated = choice.name == "file";
    state.update = state.estimated ? state.lookup : update_row(reports_, choice, state.caches == "cold");
    if (state.estimated) state.update->times = question_.states;
    return without_times(*state.update);
  }

  const Question& question_;
  const Reports& reports_;
};

/// The interval of the row's median; of an unstable row all its rounds.
Interval interval_of(const Record& row) {
  if (row.status == Status::unstable) {
    const auto [low, high] = std::ranges::minmax(row.samples_s);
    return {low, high};
  }
  if (row.ci_low_s && row.ci_high_s) return {*row.ci_low_s, *row.ci_high_s};
  return {0, no_end};  // too few samples say nothing
}

void add(Wait& wait, const Part& part) {
  const auto interval = interval_of(*part.row);
  wait.low += part.times * interval.low;
  wait.median += part.times * *part.row->median_s;
  wait.high += part.times * interval.high;
}

/// Samples of the rounds that both rows have, of the same group. A cell that is done earlier than another
/// has the first rounds.
std::size_t common_rounds(const State& a, const State& b) {
  const auto single = [](const State& state) { return !state.update && state.lookup.times == 1; };
  if (!single(a) || !single(b)) return 0;
  const auto* group_a = reports::find(a.lookup.row->more, "group");
  const auto* group_b = reports::find(b.lookup.row->more, "group");
  const bool same =
      a.lookup.report == b.lookup.report && group_a != nullptr && group_b != nullptr && *group_a == *group_b;
  return same ? std::min(a.lookup.row->samples_s.size(), b.lookup.row->samples_s.size()) : 0;
}

std::vector<double> steps(const State& state, std::size_t rounds, double step_s) {
  auto samples = state.lookup.row->samples_s;
  samples.resize(rounds);
  for (auto& sample : samples) sample += step_s;
  return samples;
}

std::optional<Comparison> paired(const State& a, const State& b, double step_s) {
  const auto rounds = common_rounds(a, b);
  if (rounds == 0) return std::nullopt;
  const auto of_a = steps(a, rounds, step_s), of_b = steps(b, rounds, step_s);
  const auto interval = reports::ratio_interval(of_a, of_b);
  if (!interval) return std::nullopt;
  const auto ratios = reports::ratios(of_a, of_b);
  Comparison found{reports::median(ratios), *interval, true, false};
  const bool unstable = a.lookup.row->status == Status::unstable || b.lookup.row->status == Status::unstable;
  if (unstable) {
    const auto [low, high] = std::ranges::minmax(ratios);
    found.interval = {low, high};
  }
  return found;
}

Comparison compare(const State& a, const State& b, double step_s) {
  if (const auto found = paired(a, b, step_s)) return *found;
  const auto wait_a = wait_of(a), wait_b = wait_of(b);
  const auto low = (step_s + wait_a.low) / (step_s + wait_b.high);
  const auto high = wait_a.high == no_end ? no_end : (step_s + wait_a.high) / (step_s + wait_b.low);
  return {
      (step_s + wait_a.median) / (step_s + wait_b.median), {low, high}, false, a.estimated || b.estimated};
}

const State& state_like(const MeasuredChoice& choice, const std::string& caches) {
  const auto found = std::ranges::find(choice.states, caches, &State::caches);
  return found == choice.states.end() ? choice.states.front() : *found;
}

/// The longest median wait over its states: what it must be judged by.
double longest_wait(const MeasuredChoice& choice) {
  double longest = 0;
  for (const auto& state : choice.states) longest = std::max(longest, wait_of(state).median);
  return longest;
}

/// The quantiles of single runs. If a look-up is too short for the clock, each of its samples is a mean.
std::optional<Quantiles> single_runs(const Record& row) {
  const auto* p50 = reports::find(row.more, "latency_p50_s");
  const auto* p99 = reports::find(row.more, "latency_p99_s");
  const auto* runs = reports::find(row.more, "latency_runs");
  if (p50 == nullptr || p99 == nullptr || runs == nullptr || !std::holds_alternative<double>(*p50) ||
      !std::holds_alternative<double>(*p99) || !std::holds_alternative<std::int64_t>(*runs))
    return std::nullopt;
  return Quantiles{std::get<double>(*p50), std::get<double>(*p99), false, std::get<std::int64_t>(*runs)};
}

/// Compares the look-ups of two choices that cost the same.
/// @returns within: `a` is faster
Verdict faster_lookup(const MeasuredChoice& a, const MeasuredChoice& b) {
  const auto found = compare_steps(a, b, 0);
  if (found.interval.high < 1) return Verdict::within;
  return found.interval.low > 1 ? Verdict::beyond : Verdict::open;
}

/// Finds what to recommend.
class Decide {
 public:
  Decide(Answer& answer, const Question& question) : answer_(answer), question_(question) {}

  void operator()() {
    choose_of_each_rank();
    if (chosen_.empty()) return;
    const auto fastest =
        *std::ranges::min_element(chosen_, {}, [&](std::size_t k) { return longest_wait(choice(k)); });
    for (const auto k : chosen_) {
      const auto verdict = k == fastest ? Verdict::within : against(k, fastest);
      if (verdict == Verdict::within) {
        answer_.recommended = k;
        break;
      }
      if (verdict == Verdict::open) answer_.open.push_back(k);
    }
    add_equal_ones();
    set_neighbours();
    judge_share();
  }

 private:
  [[nodiscard]] const MeasuredChoice& choice(std::size_t k) const { return answer_.choices[k]; }
  [[nodiscard]] Verdict against(std::size_t k, std::size_t other) const {
    return compare_steps(choice(k), choice(other), question_.step_s).verdict();
  }

  /// Takes the first of the choices that cost the same, unless a later one is faster.
  void choose_of_each_rank() {
    for (std::size_t k = 0; k < answer_.choices.size(); ++k) {
      if (!choice(k).measured() || choice(k).choice.compared_only) continue;
      const bool is_new = chosen_.empty() || choice(chosen_.back()).choice.rank != choice(k).choice.rank;
      if (is_new) {
        chosen_.push_back(k);
      } else if (faster_lookup(choice(k), choice(chosen_.back())) == Verdict::within) {
        chosen_.back() = k;
      }
    }
  }

  void add_equal_ones() {
    const auto& recommended = choice(*answer_.recommended);
    for (std::size_t k = 0; k < answer_.choices.size(); ++k) {
      const auto& other = choice(k).choice;
      if (k == *answer_.recommended || !choice(k).measured() || other.compared_only ||
          other.rank != recommended.choice.rank)
        continue;
      if (faster_lookup(choice(k), recommended) == Verdict::open) answer_.open.push_back(k);
    }
  }

  [[nodiscard]] std::optional<std::size_t> nearest(bool below) const {
    const int rank = choice(*answer_.recommended).choice.rank;
    std::optional<std::size_t> found;
    for (std::size_t k = 0; k < answer_.choices.size(); ++k) {
      const int other = choice(k).choice.rank;
      const bool chosen = !choice(k).measured() || std::ranges::find(chosen_, k) != chosen_.end();
      if (!chosen || choice(k).choice.compared_only || (below ? other >= rank : other <= rank)) continue;
      // One that was measured says more than one that was not.
      const bool nearer = !found || (choice(k).measured() && !choice(*found).measured()) ||
                          (below && choice(k).measured() >= choice(*found).measured());
      if (nearer) found = k;
    }
    return found;
  }

  void set_neighbours() {
    answer_.cheaper = nearest(true);
    answer_.faster = nearest(false);
  }

  /// A file that is all there is room for may not be worth it, which memory always is.
  void judge_share() {
    const auto& recommended = choice(*answer_.recommended);
    double low = no_end;
    for (const auto& state : recommended.states) low = std::min(low, wait_of(state).low);
    answer_.worth_it = !in_file(recommended.choice) || share_of(low, question_.step_s) <= most_of_step;
  }

  /// Rows that are not in memory are read from the disk.
  static bool in_file(const Choice& one) { return one.name == "file" || one.cache_bytes > 0; }

  Answer& answer_;
  const Question& question_;
  std::vector<std::size_t> chosen_;  ///< one of each rank, the cheapest first
};

}  // namespace

Verdict Comparison::verdict() const {
  if (interval.high <= 1 + worth) return Verdict::within;
  return interval.low > 1 + worth ? Verdict::beyond : Verdict::open;
}

Wait wait_of(const State& state) {
  Wait wait;
  add(wait, state.lookup);
  if (state.update) add(wait, *state.update);
  return wait;
}

double share_of(double wait_s, double step_s) { return wait_s == no_end ? 1 : wait_s / (step_s + wait_s); }

Quantiles quantiles_of(const State& state) {
  const auto& row = *state.lookup.row;
  const auto runs = static_cast<std::int64_t>(row.samples_s.size());
  const auto* repeat = reports::find(row.more, "repeat");
  const bool single = repeat == nullptr || *repeat == reports::Value(std::int64_t{1});
  if (!single) {
    if (const auto found = single_runs(row)) return *found;
  }
  if (single && runs >= harness::fewest_latencies)
    return {reports::median(row.samples_s), reports::quantile(row.samples_s, 0.99), false, runs};
  return {reports::median(row.samples_s), std::ranges::max(row.samples_s), true, runs};
}

std::optional<double> hit_rate_of(const State& state) {
  return reports::number_of(state.lookup.row->more, "hit_rate");
}

Comparison compare_steps(const MeasuredChoice& a, const MeasuredChoice& b, double step_s) {
  std::optional<Comparison> all;
  for (const auto* caches : {"warm", "cold"}) {
    const auto found = compare(state_like(a, caches), state_like(b, caches), step_s);
    if (!all) {
      all = found;
      continue;
    }
    all->interval = {std::min(all->interval.low, found.interval.low),
                     std::max(all->interval.high, found.interval.high)};
    all->middle = std::max(all->middle, found.middle);
    all->paired = all->paired && found.paired;
    all->estimated = all->estimated || found.estimated;
  }
  return *all;
}

Answer answer_of(const Question& question, const std::vector<Choice>& choices,
                 const std::vector<reports::Report>& reports) {
  Answer answer;
  const Attach attach(question, reports);
  for (const auto& choice : choices) answer.choices.push_back(attach(choice));
  for (const auto& report : reports) {
    for (const auto& row : report.records) {
      if (row.status == Status::wrong)
        answer.wrong.push_back(fmt::format("{}: {}", case_id_of(row.id), row.reason));
    }
  }
  Decide(answer, question)();
  return answer;
}

}  // namespace stbench::advise
