#include "benchmarks/program/own_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/row_plan.h"
#include "benchmarks/suite/started_process.h"
#include "benchmarks/suite/suite.h"
#include "harness/interrupt.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "speedtorch/system/unfinished.h"

namespace stbench {
namespace {

using Words = std::vector<std::string>;

/// The options without those of the process that starts the others.
Words measuring_options(const Options& options) {
  Words words;
  bool skip = false;
  for (const auto& word : options.measuring_words) {
    const bool was_skipped = std::exchange(skip, false);
    if (was_skipped) continue;
    const auto name = word.substr(0, word.find('='));
    if (const auto* spec = option_named(name); spec != nullptr && spec->has(option_rule::not_measured)) {
      skip = name == word && !spec->value.empty();
      continue;
    }
    words.push_back(word);
  }
  return words;
}

/// The folder that the processes write their reports to. It goes with this process; if that is killed, the
/// next run removes it.
class ReportsFolder {
 public:
  ReportsFolder() {
    reports::remove_leftovers_and_warn(place());
    if (folder_.error() != 0)
      throw reports::ReportError(fmt::format("cannot make a folder in \"{}\": {}",
                                             std::filesystem::temp_directory_path().string(),
                                             reports::system_reason(folder_.error())));
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  static std::string place() {
    return (std::filesystem::temp_directory_path() / "stbench-processes").string();
  }

  speedtorch::UnfinishedFolder folder_{place(), 0700};
};

/// @param show lets it print, and read the terminal
pid_t start(const std::string& program, const Words& words, bool show) {
  const speedtorch::Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto stream = [&](int own) { return show ? own : nothing.get(); };
  const pid_t pid = start_program(program, words, {stream(STDIN_FILENO), stream(STDOUT_FILENO)});
  if (pid < 0)
    throw reports::ReportError(fmt::format("cannot start {}: {}", program, reports::system_reason(-pid)));
  return pid;
}

/// Waits, and hands on what asks us to finish. @returns the exit status, 128 + signal if it was killed
int wait_for(pid_t pid) {
  constexpr auto pause = std::chrono::milliseconds(20);
  int status = 0;
  for (bool told = false;; std::this_thread::sleep_for(pause)) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return exit_status_of_process(status);
    if (ended != 0)
      throw reports::ReportError(fmt::format("lost a process: {}", reports::system_reason(errno)));
    if (const int signal = harness::interrupted_by(); signal != 0 && !std::exchange(told, true))
      ::kill(pid, signal);
  }
}

/// Runs a program with these options of a run, and reads the report that it leaves, if any.
/// @returns the exit status
int measure(const std::string& program, const Words& options, const std::string& report, bool show,
            std::vector<reports::Report>& reports) {
  Words words{"stbench", "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--json", report});
  std::fflush(nullptr);
  const int status = wait_for(start(program, words, show));
  std::error_code ignored;
  if (std::filesystem::exists(report, ignored)) reports.push_back(reports::read_report(report));
  return status;
}

/// The first case with that status and its reason, or an empty text.
std::string first_with(reports::Status status, const reports::Report& report) {
  const auto found = std::ranges::find(report.records, status, &reports::Record::status);
  if (found == report.records.end()) return {};
  return fmt::format("; {} is {}: {}", case_id_of(found->id), to_string(status), found->reason);
}

/// Lets a process that measured with failures pass: the comparison counts them.
/// @throws reports::ReportError if it has no report, or a wrong result
void require_measured(std::string_view side, const std::string& command, int status,
                      const reports::Report* report) {
  const auto fault =
      report == nullptr ? " and without a report" : first_with(reports::Status::wrong, *report);
  const bool has_failures = report != nullptr && !first_with(reports::Status::failed, *report).empty();
  if (fault.empty() && (status == 0 || has_failures)) return;
  throw reports::ReportError(
      fmt::format("{}: \"{}\" ended with exit status {}{}", side, command, status, fault));
}

/// Calls `work`; its errors name the side.
template <class Work>
int named(std::string_view side, Work work) {
  try {
    return work();
  } catch (const reports::SchemaError& error) {
    throw reports::SchemaError(fmt::format("{}: {}", side, error.what()));
  } catch (const reports::ReportError& error) {
    throw reports::ReportError(fmt::format("{}: {}", side, error.what()));
  }
}

}  // namespace

OwnRuns run_processes(const Options& options, int processes, bool show) {
  const ReportsFolder folder;
  const harness::InterruptGuard interrupts;
  OwnRuns runs;
  for (int i = 0; i < processes; ++i) {
    const auto report = folder.file(fmt::format("{}.json", i + 1));
    if (processes > 1 && !options.quiet) fmt::print(stderr, "process {} of {}\n", i + 1, processes);
    const int status = measure(this_program, measuring_options(options), report, show, runs.reports);
    const bool reported = runs.reports.size() > static_cast<std::size_t>(i);
    if (is_of_signal(status) && harness::interrupted_by() == 0) {
      fmt::print(stderr, "stbench: process {} was killed (exit status {}){}\n", i + 1, status,
                 reported ? "" : " and left no report");
    } else if (!reported && !is_of_signal(status)) {
      throw reports::ReportError(
          fmt::format("process {} ended with exit status {} and without a report", i + 1, status));
    }
    runs.exit_status = status;
    if (status != 0) break;
  }
  return runs;
}

RunsInTurn run_in_turn(const std::array<std::string, 2>& programs, const Words& words, int processes,
                       const TurnRules& rules, bool quiet) {
  constexpr std::array names{"BASE", "NEW"};
  const ReportsFolder folder;
  const harness::InterruptGuard interrupts;
  RunsInTurn runs;
  constexpr int kMostOfPair = 2, kRefused = 2;  // the exit status if the environment or a word is refused
  int repeated = 0, of_pair = 0;
  std::string plan_of_base;  // NEW takes it, so that the code is compared and not a stored plan
  for (int pair = 0; pair < processes;) {
    for (const int turn : {0, 1}) {
      const auto side = static_cast<std::size_t>(pair + turn) % 2;
      auto& reports = runs.reports[side];
      const auto count = reports.size() + 1;
      if (!quiet) fmt::print(stderr, "{}, process {} of {}\n", names[side], count, processes);
      const auto file = folder.file(fmt::format("{}-{}-{}.json", names[side], count, repeated));
      const auto measure_by = [&](const std::string& plan) {
        const HandedOnRowPlan handed_on(plan);
        return named(names[side], [&] { return measure(programs[side], words, file, false, reports); });
      };
      int status = measure_by(side == 1 ? plan_of_base : "");
      if (side == 1 && !plan_of_base.empty() && reports.empty() && status == kRefused) {
        fmt::print(
            stderr,
            "stbench: NEW ended with exit status {} and may refuse BASE's row plan: measuring it again "
            "by its own plan\n",
            status);
        plan_of_base.clear();
        status = measure_by("");
      }
      runs.exit_status = exit_status_of_process(harness::interrupted_by());
      if (runs.exit_status != 0) return runs;
      require_measured(names[side], fmt::format("{} run {}", programs[side], fmt::join(words, " ")), status,
                       reports.size() == count ? &reports.back() : nullptr);
      if (pair == 0 && repeated == 0 && side == 0)
        plan_of_base = row_plan_to_hand_on(reports.front(), folder.file("BASE.plan"));
    }
    if (pair == 0 && repeated == 0 && !rules.goes_on(runs)) return runs;
    const auto fault = rules.fault_of_pair(runs.reports[0].back(), runs.reports[1].back());
    if (fault.empty() || of_pair == kMostOfPair || repeated == processes) {
      if (!fault.empty() && !quiet) fmt::print(stderr, "keeping both processes {}: {}\n", pair + 1, fault);
      ++pair, of_pair = 0;
      continue;
    }
    ++repeated, ++of_pair;
    if (!quiet) fmt::print(stderr, "measuring both processes {} again: {}\n", pair + 1, fault);
    for (auto& reports : runs.reports) reports.pop_back();
  }
  return runs;
}

}  // namespace stbench
