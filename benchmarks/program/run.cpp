#include "benchmarks/program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/libtorch_environment.h"
#include "benchmarks/program/new_report.h"
#include "benchmarks/program/plans.h"
#include "benchmarks/program/report_sink.h"
#include "benchmarks/program/row_plan.h"
#include "benchmarks/program/screen.h"
#include "benchmarks/program/time_budget.h"
#include "benchmarks/suite/suite.h"
#include "harness/clock_watch.h"
#include "harness/interrupt.h"
#include "harness/machine.h"
#include "harness/progress.h"
#include "harness/sampler.h"
#include "harness/span.h"
#include "harness/startable_threads.h"
#include "harness/watchdog.h"
#include "reports/error.h"
#include "reports/files/emulated.h"
#include "reports/group.h"
#include "reports/standard_output.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "reports/tables/answer.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using reports::Identity;
using reports::Record;
using reports::Report;
using reports::Status;

bool is_on_gpu(const Identity& id) {
  return id.device != "cpu" || id.placement == "pinned" || id.placement == "device";
}

/// The threads of the largest case and its callers, and the one that watches the time.
std::int64_t threads_of(const Options& options, const harness::Machine& machine) {
  const auto largest = [](const std::vector<std::int64_t>& numbers, std::int64_t otherwise) {
    return numbers.empty() ? otherwise : std::ranges::max(numbers);
  };
  return largest(options.cores, static_cast<std::int64_t>(machine.allowed_cpus.size())) +
         largest(options.callers, 0) + 1;
}

/// One run of the program, from the plan to the reports.
class Run {
 public:
  Run(const Options& options, const harness::Machine& machine)
      : options_(options),
        machine_(machine),
        sink_(options),
        report_(new_report(options, machine)),
        clocks_(environment_sources(), machine.allowed_cpus),
        budget_(options.time_budget_s, seconds_since_start()) {
    plans_ = plans_of(options, machine);
    for (const auto& plan : plans_) {
      report_.environment.update(plan.environment);
      report_.warnings.insert(report_.warnings.end(), plan.warnings.begin(), plan.warnings.end());
    }
  }

  int execute() {
    harness::require_threads(threads_of(options_, machine_));
    const auto style = style_for(options_.color);
    if (options_.quiet) progress_.silence();
    if (sink_.shows_tables() && !options_.quiet) reports::write_standard_output(machine_line(report_, style));
    report_.environment["row_plan"] = row_plan_environment();
    const harness::InterruptGuard interrupts;
    sink_.progress(report_);
    measure_all();
    progress_.clear();
    finish(report_);
    const auto unwritten = sink_.write(report_, shown_text(report_));
    for (const auto& line : unmet(options_.expectations, report_)) fmt::print(stderr, "stbench: {}\n", line);
    if (!unwritten.empty()) throw reports::ReportError(unwritten);
    return exit_status(report_, options_.expectations, harness::interrupted_by());
  }

 private:
  void measure_all() {
    const bool unlimited = options_.timeout_s == 0 && budget_.is_set();  // the budget is a limit, too
    watchdog_.emplace(
        std::chrono::duration<double>(unlimited ? std::numeric_limits<double>::max() : options_.timeout_s),
        [this](const std::string& phase) { give_up(phase); });
    double seconds = 0;
    std::size_t groups = 0;
    for (const auto& plan : plans_) {
      for (const auto& group : plan.groups) seconds += group->seconds, ++groups;
    }
    budget_.plan(seconds);
    progress_.set_total(options_.samples   ? 0
                        : budget_.is_set() ? std::min(seconds, options_.time_budget_s)
                                           : seconds);
    shows_each_group_ = groups > 1 && progress_.is_in_place() && sink_.shows_tables();
    std::size_t done = 0;
    double saved = 0;  // what quiet groups did not need of their time; noisy ones after them may have it
    for (auto& plan : plans_) {
      add(plan.waived);
      for (auto& group : plan.groups) {
        if (harness::interrupted_by() != 0) break;
        const auto begin = Clock::now();
        const double share = 1.0 / static_cast<double>(groups);
        const double lent = budget_.is_set() ? 0 : saved / static_cast<double>(groups - done);
        measure_within_budget(*group, group->seconds + lent, static_cast<double>(done) * share, share);
        settle(plan);
        const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
        saved = std::max(0.0, saved - lent + group->seconds - taken);
        ++done;
      }
      if (plan.groups.empty()) continue;
      progress_.step("last checks of the tables", static_cast<double>(done) / static_cast<double>(groups));
      const auto& last = *plan.groups.back();
      const harness::Span span("last check", last.title);
      limited(last.cases.front(), "last check", plan.last_check);
      settle(plan);
    }
  }

  void settle(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    plan.settle(report_.records);
    sink_.progress(report_);
  }

  /// The tables and notes that are printed at the end.
  [[nodiscard]] std::string shown_text(const Report& report) const {
    if (!sink_.shows_tables()) return {};
    const auto style = style_for(options_.color);
    return options_.quiet ? reports::answer(report, style) : screen_text(report, style);
  }

  /// Measures the group in the time that is left for it, if any.
  void measure_within_budget(Group& group, double wanted_s, double before, double share) {
    const auto seconds = budget_.begin_group(wanted_s);
    if (seconds) {
      group.seconds = *seconds;
      measure_group(group, before, share);
      budget_.end_group();
    }
    if (!budget_.is_set() || harness::interrupted_by() != 0) return;
    const std::lock_guard lock(mutex_);
    add_left_out(report_, group);
  }

  /// Adds the group's cases that the report lacks, which the time budget left out, and notes the group.
  void add_left_out(Report& report, const Group& group) {
    bool any = false;
    for (const auto& id : group.cases) {
      if (std::ranges::find(report.records, id, &Record::id) != report.records.end()) continue;
      report.records.push_back(reports::unmeasured(id, Status::waived, budget_.reason()));
      add_role(report.records.back());
      any = true;
    }
    if (any) reports::add_once(left_out_, group.title);
  }

  /// Prints the rows of a group that was just measured, above the progress; the tables come at the end, with
  /// the last checks behind them.
  void show_group(const Group& group, std::vector<Record> records) {
    const auto style = style_for(options_.color, STDERR_FILENO);
    reports::derive(records);
    progress_.note(fmt::format(
        "{}\n{}", reports::painted(group.title, reports::Paint::bold, style),
        tables_of(records.front().id.suite).finished(reports::pointers_to(std::as_const(records)), style)));
  }

  void measure_group(Group& group, double before, double share) {
    const harness::Span span("group", group.title);
    progress_.step(group.title, before);
    std::vector<Record> records;
    try {
      GroupBench bench(*this, group, before, share);
      records = group.measure(bench);
    } catch (const std::exception& error) {
      records = failed(group, error.what());
    }
    records = add(std::move(records));
    if (shows_each_group_ && !records.empty()) show_group(group, std::move(records));
  }

  /// The part of this run that a group may use.
  class GroupBench final : public Bench {
   public:
    GroupBench(Run& run, const Group& group, double before, double share)
        : run_(run), group_(group), before_(before), share_(share) {}

    void limited(const char* phase, const std::function<void()>& step) override {
      limited(group_.cases.front(), phase, step);
    }
    void limited(const Identity& id, const char* phase, const std::function<void()>& step) override {
      const harness::Span span(phase, group_.title);
      run_.limited(id, phase, step);
    }
    std::vector<Record> sample(std::vector<harness::BenchmarkCase>& cases) override {
      auto clocks_before = run_.clocks_of(group_);
      auto records = harness::measure(cases, run_.rules(group_), run_.hooks(*this));
      for (auto& record : records) record.more.emplace_back("group", run_.groups_);
      run_.keep_clocks(std::move(clocks_before), run_.clocks_of(group_));
      ++run_.groups_;
      return records;
    }
    void progress(std::string_view what, double fraction) override {
      run_.progress_.step(fmt::format("{}, {}", group_.title, what), before_ + fraction * share_);
    }
    [[nodiscard]] bool stop() const override {
      return harness::interrupted_by() != 0 || run_.budget_.is_over();
    }

   private:
    Run& run_;
    const Group& group_;
    double before_, share_;
  };

  /// Clocks, temperature, power and throttling of the devices that the group works on.
  [[nodiscard]] nlohmann::ordered_json clocks_of(const Group& group) const {
    std::set<std::string> devices{"cpu"};
    for (const auto& id : group.cases) devices.insert(id.device);
    return clocks_.read(devices);
  }

  /// By the number that the group's records have in their column `group`.
  void keep_clocks(nlohmann::ordered_json before, nlohmann::ordered_json after) {
    const std::lock_guard lock(mutex_);
    report_.environment["groups"][std::to_string(groups_)] = {{"before", std::move(before)},
                                                              {"after", std::move(after)}};
  }

  /// Does a step under its time limit. For what belongs to no single case, the first of its group stands.
  void limited(const Identity& id, const char* phase, const std::function<void()>& step) {
    enter(id, phase);
    const std::unique_ptr<harness::Watchdog, Disarm> disarm(&*watchdog_);
    step();
  }

  /// Disarms at the end of the scope, also when it is left by an exception.
  struct Disarm {
    void operator()(harness::Watchdog* watchdog) const { watchdog->disarm(); }
  };

  void enter(const Identity& id, std::string_view phase) {
    {
      const std::lock_guard lock(mutex_);
      current_ = id;
    }
    watchdog_->arm(std::string(phase), budget_.deadline());
  }

  static std::vector<Record> failed(const Group& group, const std::string& reason) {
    std::vector<Record> records;
    for (const auto& id : group.cases) records.push_back(reports::unmeasured(id, Status::failed, reason));
    return records;
  }

  [[nodiscard]] harness::SamplingRules rules(const Group& group) const {
    harness::SamplingRules rules;
    rules.warmup = options_.warmup;
    rules.seconds = group.seconds;
    rules.verify = options_.verify == "every"   ? harness::Verify::every
                   : options_.verify == "first" ? harness::Verify::first
                                                : harness::Verify::sampled;
    rules.clock_step_s = machine_.clock_step_s;
    rules.seed = options_.seed;
    if (options_.samples) {
      rules.floor = rules.most = *options_.samples;
      rules.latency_runs = harness::fewest_latencies;
      rules.seconds = std::numeric_limits<double>::infinity();
    }
    if (budget_.is_set()) {
      rules.floor = TimeBudget::fewest_rounds;
      rules.latency_seconds = std::min(rules.latency_seconds, group.seconds);
    }
    return rules;
  }

  harness::SamplerHooks hooks(GroupBench& bench) {
    harness::SamplerHooks hooks;
    hooks.stop = [&bench] { return bench.stop(); };
    hooks.enter = [this](const harness::BenchmarkCase& one_case, std::string_view phase) {
      enter(one_case.id, phase);
    };
    hooks.leave = [this] { watchdog_->disarm(); };
    hooks.throttle_count = [this](const harness::BenchmarkCase& one_case) {
      return clocks_.throttle_count(one_case.id.device);
    };
    hooks.progress = [&bench](double fraction, std::string_view what) { bench.progress(what, fraction); };
    return hooks;
  }

  /// @returns the records as they were added
  std::vector<Record> add(std::vector<Record> records) {
    if (speedtorch::cuda_status().emulated)
      for (auto& record : records)
        if (is_on_gpu(record.id)) reports::forget_times(record);
    std::ranges::for_each(records, add_role);
    const std::lock_guard lock(mutex_);
    report_.records.insert(report_.records.end(), records.begin(), records.end());
    return records;
  }

  /// Derived records and figures; the same for a whole run and for one that is cut short.
  void finish(Report& report) const {
    report.interrupted = harness::interrupted_by() != 0;
    for (auto& sentence : budget_.cuts(left_out_)) report.warnings.push_back(std::move(sentence));
    for (const auto& name : options_.suites) suite_named(name).derive(report.records, options_);
    reports::derive(report.records);
  }

  /// A step passed its limit. It cannot be stopped, so the report is written from here and the process ends.
  void give_up(const std::string& phase) {
    const std::lock_guard lock(mutex_);
    auto report = report_;
    const bool in_budget = !budget_.is_spent();
    if (in_budget) {
      report.records.push_back(reports::unmeasured(
          current_, Status::failed,
          fmt::format("no end after {:g} s ({}); --timeout sets the limit", options_.timeout_s, phase)));
      add_role(report.records.back());
    } else {
      for (const auto& plan : plans_)
        for (const auto& group : plan.groups) add_left_out(report, *group);
    }
    report.warnings.emplace_back(
        "the run broke off: tables above 1 GiB did not get their last check as a whole");
    progress_.clear();
    if (in_budget) {
      const auto& record = report.records.back();
      std::fprintf(stderr, "stbench: %s: %s\n", case_id_of(record.id).c_str(), record.reason.c_str());
    }
    finish(report);
    if (const auto unwritten = sink_.write(report, in_budget ? std::string() : shown_text(report));
        !unwritten.empty())
      std::fprintf(stderr, "stbench: %s\n", unwritten.c_str());
    std::fflush(nullptr);
    std::_Exit(exit_status(report, options_.expectations, harness::interrupted_by()));
  }

  using Clock = std::chrono::steady_clock;

  const Options& options_;
  const harness::Machine machine_;
  ReportSink sink_;
  std::mutex mutex_;  ///< of the next two, which the watchdog's thread reads
  Report report_;
  Identity current_;
  harness::ClockWatch clocks_;
  std::int64_t groups_ = 0;
  std::vector<Plan> plans_;
  TimeBudget budget_;
  std::vector<std::string> left_out_;  ///< titles of groups that the time budget left out
  bool shows_each_group_ = false;
  harness::Progress progress_;
  std::optional<harness::Watchdog> watchdog_;  ///< made when measuring begins
};

}  // namespace

int run(const Options& options) {
  bool follows = false;
  for (const auto& name : options.suites) {
    const auto& suite = suite_named(name);
    if (suite.launched_rank(options).value_or(0) == 0) continue;
    suite.follow(options);
    follows = true;
  }
  if (follows) return 0;
  if (options.dry_run) return list_cases(options);
  return Run(options, harness::read_machine()).execute();
}

}  // namespace stbench
