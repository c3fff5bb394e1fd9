/// The time that a run may take (--time-budget): less sampling first, then cells that are left out.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stbench {

/// Divides what is left of the time among the groups to come, by what the preset has for each. The last tenth
/// of the budget (five seconds at most) is for the last checks and the reports.
class TimeBudget {
 public:
  /// Rounds that a cell gets even if its time is up: fewer give no 95 % interval.
  static constexpr int fewest_rounds = 6;

  /// @param budget_s of the whole run, 0 for any time; @param elapsed_s seconds since the run began
  TimeBudget(double budget_s, std::function<double()> elapsed_s);

  [[nodiscard]] bool is_set() const { return budget_s_ > 0; }
  /// The preset's time for all groups, in seconds.
  void plan(double seconds) { planned_s_ = seconds; }

  /// Begins a group. @param wanted_s the preset's time for it
  /// @returns the seconds that it may be sampled for; nothing if there is no time left for it
  std::optional<double> begin_group(double wanted_s);
  /// Ends it, so that its preparation and checks count in the estimate for the next ones.
  void end_group();

  /// True if sampling has to end.
  [[nodiscard]] bool is_over() const;
  /// True if the run has to end.
  [[nodiscard]] bool is_spent() const;
  /// When the run has to end, on the steady clock; the far future without a budget.
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const;

  /// The reason of a case that was left out.
  [[nodiscard]] std::string reason() const;
  /// Sentences for the report: how far sampling was cut, and the groups that were left out.
  /// @param left_out their titles
  [[nodiscard]] std::vector<std::string> cuts(const std::vector<std::string>& left_out) const;

 private:
  [[nodiscard]] double overhead_s() const { return groups_ == 0 ? 0 : overheads_s_ / groups_; }

  double budget_s_;
  std::function<double()> elapsed_s_;
  double planned_s_ = 0;  ///< of the groups to come
  double begun_s_ = 0, sampling_s_ = 0;
  double overheads_s_ = 0;  ///< of the groups that ended
  int groups_ = 0;
  double wanted_sum_s_ = 0, sampling_sum_s_ = 0;
};

/// A clock of the seconds since this process began; it starts at 0 if the kernel does not tell.
std::function<double()> seconds_since_start();

}  // namespace stbench
