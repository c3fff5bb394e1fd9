#include "benchmarks/program/row_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "reports/error.h"
#include "reports/files/file.h"
#include "reports/files/json_value.h"
#include "reports/style.h"
#include "speedtorch/error.h"
#include "speedtorch/rows/plan_text.h"

namespace stbench {
namespace {

constexpr const char* plan_variable = "SPEEDTORCH_PLAN";
constexpr const char* the_defaults = "fixed";  ///< a value of it

bool environment_names_a_plan() {
  const char* named = std::getenv(plan_variable);
  return named != nullptr && *named != '\0';
}

/// Returns the entries of a report's plan; null if it has none, as reports of earlier versions.
const nlohmann::ordered_json* plan_entries_of(const reports::Report& report) {
  const auto* const plan = reports::json_at(report.environment, "/row_plan/plan");
  return plan != nullptr && plan->is_object() ? plan : nullptr;
}

bool has_the_defaults(const reports::Report& report) {
  const auto* const origin = reports::json_at(report.environment, "/row_plan/origin");
  return origin != nullptr && origin->is_string() && origin->get<std::string>().starts_with("defaults");
}

speedtorch::PlanEntries texts_of(const nlohmann::ordered_json& plan) {
  speedtorch::PlanEntries entries;
  for (const auto& [key, value] : plan.items())
    entries.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return entries;
}

/// @throws speedtorch::RowPlanError
std::optional<speedtorch::Plan> row_plan_of(const reports::Report& report) {
  const auto* const plan = plan_entries_of(report);
  if (plan == nullptr) return std::nullopt;
  return speedtorch::plan_of(texts_of(*plan));
}

}  // namespace

nlohmann::ordered_json row_plan_environment() {
  const auto host = speedtorch::host_plan();
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  for (const auto& [key, value] : speedtorch::plan_entries(host.plan)) entries[key] = value;
  return {{"origin", host.origin}, {"plan", std::move(entries)}};
}

std::string row_plan_difference(const reports::Report& base, const reports::Report& now) {
  const auto *const old_plan = plan_entries_of(base), *const new_plan = plan_entries_of(now);
  if (old_plan == nullptr || new_plan == nullptr) return {};
  std::set<std::string> keys, differing;
  for (const auto* plan : {old_plan, new_plan})
    for (const auto& [key, value] : plan->items()) keys.insert(key);
  for (const auto& key : keys)
    if (old_plan->value(key, nlohmann::ordered_json()) != new_plan->value(key, nlohmann::ordered_json()))
      differing.insert(key);
  if (differing.empty()) return {};
  return fmt::format("The sides moved rows by different plans: {} of {} choices differ, such as {}.",
                     differing.size(), keys.size(), reports::one_line(*differing.begin()));
}

std::string row_plan_to_hand_on(const reports::Report& report, const std::string& file) {
  const auto* const plan = plan_entries_of(report);
  if (plan == nullptr || environment_names_a_plan()) return {};
  if (has_the_defaults(report)) return the_defaults;
  reports::ReportFile(file).write(speedtorch::to_text(texts_of(*plan)));
  return file;
}

HandedOnRowPlan::HandedOnRowPlan(const std::string& value) : is_set_(!value.empty()) {
  if (is_set_) ::setenv(plan_variable, value.c_str(), 1);
}

HandedOnRowPlan::~HandedOnRowPlan() {
  if (is_set_) ::unsetenv(plan_variable);
}

RowPlanOfBaseline::RowPlanOfBaseline(const std::vector<reports::Report>& reports) {
  if (reports.empty() || environment_names_a_plan()) return;
  if (has_the_defaults(reports.front())) {
    handed_on_.emplace(the_defaults);
    return;
  }
  std::optional<speedtorch::Plan> plan;
  try {
    plan = row_plan_of(reports.front());
  } catch (const speedtorch::RowPlanError& error) {
    fmt::print(stderr,
               "stbench: the baseline's row plan cannot be used ({}): this run uses its own plan; "
               "--save-baseline makes the baseline anew\n",
               reports::one_line(error.what()));
  }
  if (!plan) return;
  const auto folder = std::filesystem::temp_directory_path();
  path_ = (folder / fmt::format("stbench-baseline-{}.plan", ::getpid())).string();
  try {
    speedtorch::write_plan(path_, *plan);
  } catch (const speedtorch::FileError& error) {
    throw reports::ReportError(fmt::format("cannot hand on the baseline's plan: {}", error.what()));
  }
  handed_on_.emplace(path_);
}

RowPlanOfBaseline::~RowPlanOfBaseline() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace stbench
