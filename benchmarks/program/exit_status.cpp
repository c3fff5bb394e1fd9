#include "benchmarks/program/exit_status.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "benchmarks/suite/suite.h"
#include "reports/number.h"
#include "reports/style.h"

namespace stbench {
namespace {

using reports::Report;
using reports::Status;

constexpr int of_signals = 128;  // as shells have it

bool has(const Report& report, Status status) {
  return std::ranges::find(report.records, status, &reports::Record::status) != report.records.end();
}

}  // namespace

std::vector<std::string> unmet(const std::vector<Expectation>& expectations, const reports::Report& report) {
  std::vector<std::string> lines;
  for (const auto& expectation : expectations) {
    bool any = false;
    for (const auto& record : report.records) {
      const auto case_id = case_id_of(record.id);
      if (!record.gb_per_s || !expectation.filter.is_in(case_id)) continue;
      any = true;
      if (*record.gb_per_s < expectation.gb_per_s)
        lines.push_back(fmt::format("{} GB/s, {:g} are expected: {}",
                                    reports::significant(*record.gb_per_s, 3), expectation.gb_per_s,
                                    case_id));
    }
    if (!any)
      lines.push_back(
          fmt::format("nothing measured matches --expect '{}'", harness::shown_pattern(expectation.text)));
  }
  return lines;
}

int exit_status(const Report& report, const std::vector<Expectation>& expectations, int signal) {
  if (signal != 0) return of_signals + signal;
  if (has(report, Status::wrong)) return 1;
  if (has(report, Status::failed)) return 2;
  return unmet(expectations, report).empty() ? 0 : 1;
}

int exit_status_beside_baseline(int compared, const std::vector<Report>& reports,
                                const std::vector<Expectation>& expectations) {
  const auto is_wrong = [](const Report& report) { return has(report, Status::wrong); };
  if (std::ranges::any_of(reports, is_wrong)) return 2;
  if (compared != 0) return compared;
  const auto is_as_expected = [&](const Report& report) { return unmet(expectations, report).empty(); };
  return std::ranges::all_of(reports, is_as_expected) ? 0 : 1;
}

int exit_status_of_process(int status) {
  return WIFSIGNALED(status) ? of_signals + WTERMSIG(status) : WEXITSTATUS(status);
}

bool is_of_signal(int status) { return status > of_signals; }

}  // namespace stbench
