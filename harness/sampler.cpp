#include "harness/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "harness/case_id.h"
#include "harness/span.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"

namespace stbench::harness {
namespace {

using reports::Record;
using reports::Status;

constexpr double clock_steps = 1000;  // a sample this many clock steps long is read to 0.1 %
constexpr int most_repeats = 1 << 20;
constexpr double above_ceiling =
    1.02;  // faster than the fastest known copy by more than this is residue or wrong accounting

// This file is compiled twice, so that the loop has no spans unless they are recorded: with
// STBENCH_WITH_SPANS it is measure_with_spans(). A third time, for the test that counts instructions, without
// any thought of spans.
#ifdef STBENCH_WITH_SPANS
using SpanOfStep = Span;
#else
using SpanOfStep = NoSpan;
#endif
#ifdef STBENCH_WITHOUT_SPANS
#define STBENCH_SPAN(name, phase, subject)
#else
#define STBENCH_SPAN(name, phase, subject) const SpanOfStep name(phase, subject)
#endif

/// Runs in series that take less are short.
constexpr double short_run_s = 2e-3;

/// A row with more of its samples than this taken while the device was throttled is doubtful.
constexpr double many_throttled = 0.1;

/// Without the width itself, which is in the record: so rows with the same trouble share a line on the
/// screen.
std::string interval_too_wide(double half_width) {
  return fmt::format("interval wider than ±{:.0f} % of the median; quieten the machine or raise --samples",
                     half_width * 100);
}

/// A case and what was seen of it so far.
struct Entry {
  BenchmarkCase* one_case;
  Record record;
  std::string case_id;  ///< the case in words, for spans
  std::optional<std::int64_t>
      throttled;  ///< samples while the device was throttled; nothing if that is not known
  int repeat = 1;
  int next_set = 0;
  std::vector<double> latencies;  ///< of single runs, seconds
  bool running = true;            ///< neither failed nor wrong

  explicit Entry(BenchmarkCase& of) : one_case(&of) {
    record.id = of.id;
    record.payload_bytes = of.payload_bytes;
    record.index_bytes = of.index_bytes;
    record.more = of.more;
    case_id = format_case(of.id, {});
  }

  void drop(Status status, const std::string& reason) {
    running = false;
    record.status = status;
    record.reason = reports::one_line(reason);
    record.samples_s.clear();
  }
};

/// One group's measurement, from the first check to the last.
class Sampling {
 public:
  Sampling(std::vector<BenchmarkCase>& group, const SamplingRules& rules, const SamplerHooks& hooks)
      : rules_(rules), hooks_(hooks), order_(rules.seed) {
    for (auto& one_case : group) {
      entries_.emplace_back(one_case);
      // Neighbours of a cell start on different sets, so that none finds the rows that the one before it just
      // moved.
      entries_.back().next_set = static_cast<int>((entries_.size() - 1) % index_sets);
    }
    if (!hooks_.now_s) hooks_.now_s = steady_now;
  }

  std::vector<Record> run() {
    began_ = hooks_.now_s();
    for (auto& entry : entries_) warm_up(entry);
    are_short_ = fastest_in_series() < short_run_s;
    while (!stopped_ && !finished()) round();
    time_single_runs();
    for (auto& entry : entries_) {
      if (kept(entry)) attempt(entry, "check", [&] { check(entry); });
    }
    std::vector<Record> records;
    for (auto& entry : entries_) {
      if (kept(entry) || !entry.running) records.push_back(conclude(entry));
    }
    return records;
  }

 private:
  [[nodiscard]] int floor() const { return std::min(rules_.floor, rules_.most); }
  [[nodiscard]] bool kept(const Entry& entry) const {
    return entry.running && static_cast<int>(entry.record.samples_s.size()) >= floor();
  }

  /// Runs one step of a case with the watchdog told; an exception ends the case, not the run.
  template <class Action>
  void attempt(Entry& entry, std::string_view phase, Action action) {
    if (hooks_.enter) hooks_.enter(*entry.one_case, phase);
    STBENCH_SPAN(span, phase, entry.case_id);
    try {
      action();
    } catch (const std::exception& error) {
      entry.drop(Status::failed, error.what());
    }
    if (hooks_.leave) hooks_.leave();
  }

  void warm_up(Entry& entry) {
    if (stopping()) return;
    if (hooks_.progress) hooks_.progress(0, "checking " + entry.record.id.method);
    attempt(entry, "warm-up", [&] {
      check(entry);
      for (int run = 1; run < rules_.warmup && entry.running; ++run) time_once(entry, 1);
      if (entry.running) entry.repeat = repeats_for(entry);
    });
  }

  /// Seconds of the fastest run of a case in series; infinity if there is none.
  double fastest_in_series() {
    double fastest = std::numeric_limits<double>::infinity();
    for (auto& entry : entries_) {
      if (!entry.one_case->in_series || !entry.running || stopping()) continue;
      attempt(entry, "warm-up", [&] { fastest = std::min(fastest, time_once(entry, 1)); });
    }
    return fastest;
  }

  /// On another set than the sample's, whose data would be in the caches otherwise.
  void run_untimed(Entry& entry) {
    const int set = (entry.next_set + index_sets - 1) % index_sets;
    prepare(entry, set, 1);
    entry.one_case->run(set);
    entry.one_case->finish();
  }

  /// Vary, poison, run, compare.
  void check(Entry& entry) {
    auto& one_case = *entry.one_case;
    const int set = entry.next_set;
    if (rules_.verify != Verify::first) one_case.vary(set);
    one_case.poison(set);
    one_case.prepare(set);
    one_case.run(set);
    one_case.finish();
    compare(entry, set);
    advance(entry, 1);
  }

  void compare(Entry& entry, int set) {
    STBENCH_SPAN(span, "verify", entry.case_id);
    judge(entry, entry.one_case->verify(set));
  }

  static void judge(Entry& entry, const Check& found) {
    entry.record.verified_rows += found.rows;
    entry.record.mismatches += found.mismatches;
    if (found.mismatches > 0) {
      entry.drop(Status::wrong,
                 fmt::format("{} of {} rows differ: {}", found.mismatches, found.rows, found.first));
    }
  }

  static void advance(Entry& entry, int runs) { entry.next_set = (entry.next_set + runs) % index_sets; }

  /// Seconds of one operation, as the mean of `repeat` of them over rotating sets.
  double time_once(Entry& entry, int repeat) {
    const int last_set = (entry.next_set + repeat - 1) % index_sets;  // the one that is compared
    if (rules_.verify != Verify::first) entry.one_case->vary(last_set);
    if (rules_.verify == Verify::every) entry.one_case->poison(last_set);
    return time_prepared(entry, repeat);
  }

  double time_prepared(Entry& entry, int repeat) {
    auto& one_case = *entry.one_case;
    const int first = entry.next_set;
    prepare(entry, first, std::min(repeat, index_sets));
    double begin = 0;  // by their own clock there is none: what they took is put at the end of the call
    const double seconds =
        one_case.self_timed ? one_case.self_timed(first, repeat) : time_here(one_case, first, repeat, begin);
    if constexpr (SpanOfStep::made) trace(entry, begin, seconds, repeat);
    advance(entry, repeat);
    return seconds / repeat;
  }

  /// Fresh values and evicted caches for the sets that a sample works on.
  void prepare(Entry& entry, int first, int sets) {
    STBENCH_SPAN(span, "prepare", entry.case_id);
    for (int k = 0; k < sets; ++k) entry.one_case->prepare((first + k) % index_sets);
    entry.one_case->finish();  // what was queued here is not the sample's
  }

  /// The timed part of a sample, after the fact: nothing is done for it while the clock runs.
  void trace(const Entry& entry, double begin, double seconds, int repeat) const {
    auto* const current = Trace::current();
    if (current == nullptr) return;
    if (entry.one_case->self_timed) begin = hooks_.now_s() - seconds;
    current->add("timed", entry.case_id, begin, begin + seconds, repeat);
  }

  /// Seconds of `repeat` operations, from set `first` on, with the closing synchronise.
  double time_here(BenchmarkCase& one_case, int first, int repeat, double& begin) const {
    begin = hooks_.now_s();
    for (int k = 0, set = first; k < repeat; ++k, set = set + 1 == index_sets ? 0 : set + 1)
      one_case.run(set);
    one_case.finish();
    return hooks_.now_s() - begin;
  }

  /// How many runs make a sample long enough for the clock. Doubled until it is, since the first run is often
  /// slower.
  int repeats_for(Entry& entry) {
    int repeat = 1;
    while (entry.one_case->repeatable && repeat < most_repeats && !long_enough(entry, repeat)) repeat *= 2;
    return repeat;
  }

  /// True if `repeat` runs take as long as the clock needs in each of three samples. In a single one the
  /// scheduler can give the core to another process for milliseconds. A sample that is longer than such a
  /// break shows it alone.
  bool long_enough(Entry& entry, int repeat) {
    const double enough = clock_steps * rules_.clock_step_s;
    constexpr double longer_than_a_break = 1000;
    for (int look = 0; look < 3; ++look) {
      const double seconds = time_once(entry, repeat) * repeat;
      if (seconds < enough) return false;
      if (seconds > longer_than_a_break * enough) return true;
    }
    return true;
  }

  bool stopping() {
    stopped_ = stopped_ || (hooks_.stop && hooks_.stop());
    return stopped_;
  }

  void round() {
    std::vector<Entry*> turn;
    for (auto& entry : entries_) {
      if (entry.running && !cell_done(entry)) turn.push_back(&entry);
    }
    std::shuffle(turn.begin(), turn.end(), order_);
    for (auto* entry : turn) {
      if (stopping()) return;
      attempt(*entry, "sample", [&] {
        const int last_set = (entry->next_set + entry->repeat - 1) % index_sets;
        if (are_short_ && entry->one_case->in_series) run_untimed(*entry);
        const auto throttled_before = throttle_count(*entry);
        entry->record.samples_s.push_back(time_once(*entry, entry->repeat));
        if (entry->one_case->after_sample) entry->one_case->after_sample();
        count_throttled(*entry, throttled_before);
        check_sample(*entry, last_set);
      });
    }
    ++rounds_;
    report_progress();
  }

  /// The result of the sample, or of the block of single runs, that was just timed.
  void check_sample(Entry& entry, int last_set) {
    const auto& one_case = *entry.one_case;
    if (one_case.quick_check) judge(entry, one_case.quick_check(last_set));
    if (!entry.running) return;
    if (rules_.verify == Verify::every) return compare(entry, last_set);
    if (rules_.verify == Verify::sampled && one_case.spot_check) judge(entry, one_case.spot_check(last_set));
  }

  [[nodiscard]] std::optional<std::int64_t> throttle_count(const Entry& entry) const {
    return hooks_.throttle_count ? hooks_.throttle_count(*entry.one_case) : std::nullopt;
  }

  /// A throttled sample is kept, and counted: dropping it would hide what the machine does.
  void count_throttled(Entry& entry, const std::optional<std::int64_t>& before) const {
    const auto after = before ? throttle_count(entry) : std::nullopt;
    if (after) entry.throttled = entry.throttled.value_or(0) + (*after > *before ? 1 : 0);
  }

  /// A sample of short operations is the mean of many; here each is timed by itself, in blocks of a case that
  /// take turns, so that all cases see the same machine.
  void time_single_runs() {
    const double end = hooks_.now_s() + rules_.latency_seconds;
    std::vector<Entry*> turn;
    const auto wants_more = [&](const Entry& entry) {
      return kept(entry) && entry.one_case->latency && std::ssize(entry.latencies) < rules_.latency_runs;
    };
    const bool asked = std::any_of(entries_.begin(), entries_.end(), wants_more);
    if (asked) clock_read_s_ = clock_read();
    if (asked && hooks_.progress) hooks_.progress(1.0, "single runs");
    do {
      turn.clear();
      for (auto& entry : entries_) {
        if (wants_more(entry)) turn.push_back(&entry);
      }
      std::shuffle(turn.begin(), turn.end(), order_);
      for (auto* entry : turn) {
        if (stopping()) return;
        attempt(*entry, "latency", [&] { time_block(*entry); });
      }
    } while (!turn.empty() && hooks_.now_s() < end);
  }

  /// Runs once untimed, because the first run after another case is not warm. Then times up to 50 single
  /// runs. Past 2 ms it stops at the next run on `last_set`, the set that is compared. That set is varied
  /// before the first run: to vary or compare rows between two runs would bring them into the caches.
  void time_block(Entry& entry) {
    constexpr int most = 50;
    constexpr double enough_s = 2e-3;
    const auto room = static_cast<int>(rules_.latency_runs - std::ssize(entry.latencies));
    const int runs = std::min(most, room), last_set = (entry.next_set + runs) % index_sets;
    if (rules_.verify != Verify::first) entry.one_case->vary(last_set);
    const double begin = hooks_.now_s();
    time_prepared(entry, 1);  // not poisoned, which would bring all rows of the set into the caches
    for (int run = 0; run < runs; ++run) {
      const int set = entry.next_set;
      entry.latencies.push_back(time_prepared(entry, 1));
      if (set == last_set && hooks_.now_s() - begin > enough_s) break;
    }
    check_sample(entry, last_set);
  }

  /// The time of one clock reading, which is part of each single run's time.
  [[nodiscard]] double clock_read() const {
    constexpr int reads = 1001;
    std::vector<double> times;
    for (double before = hooks_.now_s(); std::ssize(times) < reads;) {
      const double now = hooks_.now_s();
      times.push_back(now - before);
      before = now;
    }
    return reports::median(times);
  }

  /// Quantiles as "SHARE:SECONDS", closer together in the tail.
  static std::string curve_of(const std::vector<double>& latencies) {
    std::string curve;
    for (const double share : {0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99,
                               0.995, 0.999, 1.0}) {
      curve +=
          fmt::format("{}{:g}:{:.4g}", curve.empty() ? "" : " ", share, reports::quantile(latencies, share));
    }
    return curve;
  }

  void add_latency(Entry& entry) const {
    using reports::Value;
    auto& more = entry.record.more;
    const bool told = entry.running && std::ssize(entry.latencies) >= fewest_latencies;
    const auto quantile = [&](double q) {
      return told ? Value(reports::quantile(entry.latencies, q)) : Value();
    };
    more.emplace_back("latency_p50_s", quantile(0.5));
    more.emplace_back("latency_p99_s", quantile(0.99));
    more.emplace_back("latency_runs",
                      told ? Value(static_cast<std::int64_t>(entry.latencies.size())) : Value());
    const bool this_clock = told && !entry.one_case->self_timed;
    more.emplace_back("latency_clock_s", this_clock ? Value(clock_read_s_) : Value());
    more.emplace_back("latency_curve", told ? Value(curve_of(entry.latencies)) : Value());
  }

  /// A cell ends as one, so that its cases keep the same number of samples, pair by pair.
  [[nodiscard]] bool cell_done(const Entry& entry) const {
    if (rounds_ < floor()) return false;
    return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& other) {
      return other.running && other.record.id.same_cell(entry.record.id) && !narrow(other);
    });
  }

  [[nodiscard]] bool narrow(const Entry& entry) const {
    return half_width(entry.record.samples_s) <= rules_.half_width;
  }

  /// Half the interval as a fraction of the median; infinite if there are too few samples for an interval.
  static double half_width(const std::vector<double>& samples) {
    const auto interval = reports::median_interval(samples);
    if (!interval) return std::numeric_limits<double>::infinity();
    return (interval->high - interval->low) / 2 / reports::median(samples);
  }

  [[nodiscard]] bool finished() const {
    if (rounds_ >= rules_.most) return true;
    if (rounds_ >= floor() && hooks_.now_s() - began_ > rules_.seconds) return true;
    return std::all_of(entries_.begin(), entries_.end(),
                       [&](const Entry& e) { return !e.running || cell_done(e); });
  }

  void report_progress() const {
    if (!hooks_.progress) return;
    const double by_rounds = static_cast<double>(rounds_) / rules_.most;
    const double by_time = (hooks_.now_s() - began_) / rules_.seconds;
    hooks_.progress(std::min(1.0, std::max(by_rounds, by_time)), fmt::format("round {}", rounds_));
  }

  Record conclude(Entry& entry) {
    auto& record = entry.record;
    record.more.emplace(record.more.begin(), "repeat", std::int64_t{entry.repeat});
    add_latency(entry);
    if (!entry.running) return record;
    if (entry.throttled) reports::set(record.more, "throttled", *entry.throttled);
    reports::summarise(record);
    if (const double width = half_width(record.samples_s); width > rules_.half_width) {
      record.status = Status::unstable;
      record.reason = std::isfinite(width) ? interval_too_wide(rules_.half_width)
                                           : "too few samples for an interval; raise --samples";
    }
    if (static_cast<double>(entry.throttled.value_or(0)) >
        many_throttled * static_cast<double>(record.samples)) {
      record.status = Status::unstable;
      record.reason = fmt::format(
          "more than {:.0f} % of the samples while the device was throttled; cool it or "
          "raise its power limit",
          many_throttled * 100);
    }
    if (const auto excess = excess_over_ceiling(entry)) {
      record.status = Status::unstable;
      record.reason = fmt::format("at least {:.2f} times the ceiling: cache residue or accounting", *excess);
    }
    return record;
  }

  /// The lower bound of this case's speed over the cell's fastest ceiling, if it is too good to be true.
  [[nodiscard]] std::optional<double> excess_over_ceiling(const Entry& entry) const {
    if (!entry.one_case->judged_by_ceiling) return std::nullopt;
    const Entry* ceiling = nullptr;
    for (const auto& other : entries_) {
      const bool candidate = other.running && other.one_case->role == Role::ceiling &&
                             other.record.id.same_cell(entry.record.id);
      if (!candidate) continue;
      if (!ceiling || reports::median(other.record.samples_s) < reports::median(ceiling->record.samples_s))
        ceiling = &other;
    }
    if (!ceiling || ceiling == &entry) return std::nullopt;
    const auto ratio = reports::ratio_interval(ceiling->record.samples_s, entry.record.samples_s);
    if (!ratio || ratio->low <= above_ceiling) return std::nullopt;
    return ratio->low;
  }

  SamplingRules rules_;
  SamplerHooks hooks_;
  std::mt19937_64 order_;
  std::vector<Entry> entries_;
  double began_ = 0;
  double clock_read_s_ = 0;
  int rounds_ = 0;
  bool stopped_ = false;
  bool are_short_ = false;  ///< runs of the cases in series
};

}  // namespace

#ifdef STBENCH_WITH_SPANS
std::vector<Record> measure_with_spans(std::vector<BenchmarkCase>& group, const SamplingRules& rules,
                                       const SamplerHooks& hooks) {
  return Sampling(group, rules, hooks).run();
}
#else
std::vector<Record> measure(std::vector<BenchmarkCase>& group, const SamplingRules& rules,
                            const SamplerHooks& hooks) {
#ifndef STBENCH_WITHOUT_SPANS
  if (spans_are_seen()) return measure_with_spans(group, rules, hooks);
#endif
  return Sampling(group, rules, hooks).run();
}
#endif

}  // namespace stbench::harness
