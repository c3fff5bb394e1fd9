#include "benchmarks/program/row_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "reports/error.h"
#include "speedtorch/error.h"
#include "speedtorch/plan_text.h"
#include "speedtorch/rows/tune.h"

namespace stbench {
namespace {

constexpr const char* plan_variable = "SPEEDTORCH_PLAN";

bool moves_rows_on_the_host(const Options& options) {
  constexpr std::array<std::string_view, 3> suites{"transfer", "embedding", "optimizer"};
  return std::ranges::any_of(options.suites, [&](const std::string& name) {
    return std::find(suites.begin(), suites.end(), name) != suites.end();
  });
}

bool environment_names_a_plan() {
  const char* named = std::getenv(plan_variable);
  return named != nullptr && *named != '\0';
}

}  // namespace

std::string prepare_row_plan(const Options& options) {
  if (!moves_rows_on_the_host(options) || environment_names_a_plan()) return {};
  if (speedtorch::host_plan().origin == "stored") return {};
  const auto tuning = speedtorch::tune();
  if (!tuning.stored.empty()) return {};
  return "the plan of row movements was tuned for this run only, as it cannot be stored: " +
         tuning.not_stored;
}

nlohmann::ordered_json row_plan_environment() {
  const auto host = speedtorch::host_plan();
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  for (const auto& [key, value] : speedtorch::plan_entries(host.plan)) entries[key] = value;
  return {{"origin", host.origin}, {"plan", std::move(entries)}};
}

std::optional<speedtorch::Plan> row_plan_of(const reports::Report& report) {
  const auto found = report.environment.find("row_plan");
  if (found == report.environment.end() || !found->is_object()) return std::nullopt;
  const auto plan = found->find("plan");
  if (plan == found->end() || !plan->is_object()) return std::nullopt;
  speedtorch::PlanEntries entries;
  for (const auto& [key, value] : plan->items()) {
    if (!value.is_string()) return std::nullopt;
    entries.emplace_back(key, value.get<std::string>());
  }
  try {
    return speedtorch::plan_of(entries);
  } catch (const speedtorch::RowPlanError&) {
    return std::nullopt;
  }
}

RowPlanOfBaseline::RowPlanOfBaseline(const std::vector<reports::Report>& reports) {
  if (reports.empty() || environment_names_a_plan()) return;
  const auto plan = row_plan_of(reports.front());
  if (!plan) return;
  const auto folder = std::filesystem::temp_directory_path();
  path_ = (folder / fmt::format("stbench-baseline-{}.plan", ::getpid())).string();
  try {
    speedtorch::write_plan(path_, *plan);
  } catch (const speedtorch::FileError& error) {
    throw reports::ReportError(fmt::format("cannot hand on the baseline's plan: {}", error.what()));
  }
  ::setenv(plan_variable, path_.c_str(), 1);
}

RowPlanOfBaseline::~RowPlanOfBaseline() {
  if (path_.empty()) return;
  ::unsetenv(plan_variable);
  ::unlink(path_.c_str());
}

}  // namespace stbench
