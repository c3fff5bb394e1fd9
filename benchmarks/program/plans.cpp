#include "benchmarks/program/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "harness/errors.h"
#include "harness/pattern.h"
#include "harness/progress.h"
#include "harness/span.h"
#include "reports/group.h"
#include "reports/standard_output.h"
#include "reports/style.h"

namespace stbench {
namespace {

/// Drops the cases that --filter does not match. @returns true if some are left
bool filter(Plan& plan, const std::string& expression) {
  const harness::Pattern pattern(expression, "--filter");
  const auto unmatched = [&](const reports::Identity& id) { return !pattern.is_in(case_id_of(id)); };
  for (auto& group : plan.groups) std::erase_if(group->cases, unmatched);
  std::erase_if(plan.groups, [](const auto& group) { return group->cases.empty(); });
  std::erase_if(plan.waived, [&](const reports::Record& record) { return unmatched(record.id); });
  return !plan.groups.empty() || !plan.waived.empty();
}

/// "  method   speedtorch hybrid ...   [all]", the values on as many lines as fit the screen.
std::string axis_text(const AxisInfo& axis) {
  constexpr std::size_t columns = 98, indent = 16;
  const auto line = fmt::format("  {:<{}}{}   [{}]", axis.name, indent - 2, axis.values, axis.standard);
  return fmt::format("{}\n", fmt::join(reports::wrapped(line, columns, indent), "\n"));
}

}  // namespace

std::vector<Plan> plans_of(const Options& options, const harness::Machine& machine) {
  std::vector<Plan> plans;
  bool any = options.filter.empty();
  auto names = options.suites;
  std::ranges::stable_partition(names, [](const std::string& name) { return !suite_named(name).runs_last; });
  for (const auto& name : names) {
    const harness::Span span("plan", name);
    plans.push_back(suite_named(name).plan(options, machine));
    if (!options.filter.empty()) any = filter(plans.back(), options.filter) || any;
  }
  if (!any) {
    throw UsageError(fmt::format("--filter '{}' matches no case; --dry-run without it lists them",
                                 harness::shown_pattern(options.filter)));
  }
  return plans;
}

int list_cases(const Options& options) {
  double seconds = 0;
  std::size_t cases = 0;
  std::string text;
  for (const auto& plan : plans_of(options, harness::read_machine())) {
    for (const auto& group : plan.groups) {
      seconds += group->seconds;
      for (const auto& id : group->cases) text += case_id_of(id) + "\n", ++cases;
    }
    for (const auto& record : plan.waived)
      text += fmt::format("waived: {}: {}\n", case_id_of(record.id), record.reason);
    for (const auto& warning : plan.warnings) fmt::print(stderr, "{}\n", warning);
  }
  reports::write_standard_output(text);
  fmt::print(stderr, "{} cases; their samples take at most about {}\n", cases, harness::human_time(seconds));
  return 0;
}

int list_suites() {
  std::string text;
  auto all = reports::pointers_to(suites());
  std::ranges::stable_partition(all, [](const Suite* suite) { return suite->leads; });
  for (const auto* const one : all) {
    const auto& suite = *one;
    text += fmt::format("{}: {}\n", suite.name, suite.summary);
    for (const auto& axis : suite.describe()) text += axis_text(axis);
    text += suite.more();
  }
  reports::write_standard_output(text);
  return 0;
}

}  // namespace stbench
