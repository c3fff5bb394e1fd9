#include "benchmarks/program/exit_status.h"

#include <sys/wait.h>

#include <algorithm>

namespace stbench {
namespace {

using reports::Report;
using reports::Status;

constexpr int of_signals = 128;  // as shells have it

bool has(const Report& report, Status status) {
  return std::ranges::find(report.records, status, &reports::Record::status) != report.records.end();
}

}  // namespace

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
