/// Measurements in separate processes. Only several processes show the variance between processes: memory
/// layout, other load.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/suite/options.h"
#include "reports/record.h"

namespace stbench {

struct OwnRuns {
  std::vector<reports::Report> reports;  ///< of all processes; the last may be incomplete
  int exit_status = 0;                   ///< of the first that did not, else 0
};

/// Runs the options' measurement as so many processes, one after the other; it ends with the first whose exit
/// status is not 0 (that one's report is kept, too).
/// @param show lets the processes print what a run prints
/// @throws reports::ReportError where a process cannot be started or leaves no report.
OwnRuns run_processes(const Options& options, int processes, bool show);

/// The processes of two programs, BASE's and NEW's.
struct RunsInTurn {
  std::array<std::vector<reports::Report>, 2> reports;
  int exit_status = 0;  ///< 128 + signal if one asked us to finish: the reports are incomplete then
};

/// run_in_turn() asks these about the reports.
struct TurnRules {
  /// After the first process of each side; no ends the runs.
  std::function<bool(const RunsInTurn&)> goes_on;
  /// After each pair, of BASE's report and NEW's: why it should be measured again, or an empty text.
  std::function<std::string(const reports::Report&, const reports::Report&)> fault_of_pair;
};

/// Runs the same measurement with two programs, one process after the other. The sides take turns, and each
/// begins every other pair, so that drift of the machine's speed affects both equally. A pair is measured
/// again at most twice, and at most as many times in all as a side has processes. A failed case is left to
/// the comparison. NEW's processes move rows by the plan in BASE's first report, or by their own defaults if
/// BASE has its defaults, unless SPEEDTORCH_PLAN is set. If the first of NEW refuses that plan, stderr says
/// so, and NEW's processes take their own.
/// @param programs files to execute, BASE's and NEW's
/// @param words options of a run, which both programs know
/// @param processes of each side
/// @param quiet says nothing of each process
/// @throws reports::ReportError naming the side, and the command and its exit status if a process ends
/// without a report or finds a wrong result; reports::SchemaError for a report of an unknown schema
RunsInTurn run_in_turn(const std::array<std::string, 2>& programs, const std::vector<std::string>& words,
                       int processes, const TurnRules& rules, bool quiet = false);

}  // namespace stbench
