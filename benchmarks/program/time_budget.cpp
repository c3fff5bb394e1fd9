#include "benchmarks/program/time_budget.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "harness/progress.h"

namespace stbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double reserved_part = 0.1, most_reserved_s = 5;
constexpr std::size_t named_groups = 12;

/// 0 if the kernel does not tell.
double process_age_s() {
  constexpr int start_field = 22, fields_before_the_name_ends = 2;
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the name may have blanks
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = fields_before_the_name_ends; i < start_field; ++i) fields >> field;
  timespec now{};
  if (!fields || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double started_s = std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started_s);
}

}  // namespace

TimeBudget::TimeBudget(double budget_s, std::function<double()> elapsed_s)
    : budget_s_(budget_s), elapsed_s_(std::move(elapsed_s)) {}

std::optional<double> TimeBudget::begin_group(double wanted_s) {
  if (!is_set()) return wanted_s;
  begun_s_ = elapsed_s_();
  const double left = budget_s_ - std::min(reserved_part * budget_s_, most_reserved_s) - begun_s_;
  const double share = planned_s_ > 0 ? std::min(1.0, wanted_s / planned_s_) : 1;
  planned_s_ -= wanted_s;
  if (left <= overhead_s()) return std::nullopt;
  sampling_s_ = std::clamp(left * share - overhead_s(), 0.0, wanted_s);
  wanted_sum_s_ += wanted_s, sampling_sum_s_ += sampling_s_;
  return sampling_s_;
}

void TimeBudget::end_group() {
  overheads_s_ += std::max(0.0, elapsed_s_() - begun_s_ - sampling_s_);
  ++groups_;
}

bool TimeBudget::is_over() const {
  return is_set() && elapsed_s_() >= budget_s_ - std::min(reserved_part * budget_s_, most_reserved_s);
}

bool TimeBudget::is_spent() const { return is_set() && elapsed_s_() >= budget_s_; }

Clock::time_point TimeBudget::deadline() const {
  if (!is_set()) return Clock::time_point::max();
  constexpr double longest = 365.0 * 24 * 3600;  // a longer time would wrap round to the past
  const std::chrono::duration<double> left(std::min(budget_s_ - elapsed_s_(), longest));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

std::string TimeBudget::reason() const {
  return fmt::format("the time budget of {} ended first; a larger --time-budget measures it",
                     harness::human_time(budget_s_));
}

std::vector<std::string> TimeBudget::cuts(const std::vector<std::string>& left_out) const {
  constexpr double cut = 0.99;
  std::vector<std::string> sentences;
  const auto name = fmt::format("--time-budget {}", harness::human_time(budget_s_));
  if (sampling_sum_s_ < cut * wanted_sum_s_)
    sentences.push_back(
        fmt::format("{}: at most {} of sampling instead of {}, so cells may have fewer rounds", name,
                    harness::human_time(sampling_sum_s_), harness::human_time(wanted_sum_s_)));
  if (!left_out.empty()) {
    const auto named = std::min(left_out.size(), named_groups);
    const auto more = left_out.size() - named;
    sentences.push_back(fmt::format(
        "{}: not measured: {}{}", name,
        fmt::join(left_out.begin(), left_out.begin() + static_cast<std::ptrdiff_t>(named), "; "),
        more == 0 ? "" : fmt::format("; and {} more, which the report names case by case", more)));
  }
  return sentences;
}

std::function<double()> seconds_since_start() {
  return [age = process_age_s(), now = Clock::now()] {
    return age + std::chrono::duration<double>(Clock::now() - now).count();
  };
}

}  // namespace stbench
