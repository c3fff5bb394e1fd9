#include "benchmarks/program/own_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/option_table.h"
#include "harness/interrupt.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "speedtorch/system/unfinished.h"

namespace stbench {
namespace {

using Words = std::vector<std::string>;

/// Options of the process that starts the others, which only measure.
const OptionSpec* not_measured(std::string_view name) {
  for (const auto& spec : option_table()) {
    if (spec.name == name && spec.has(option_rule::not_measured)) return &spec;
  }
  return nullptr;
}

/// The arguments of one process: the measurement's, and where to write the report.
Words arguments_for(const Options& options, const std::string& report) {
  Words words{"stbench", "run"};
  bool skip = false;
  for (const auto& word : options.measuring_words) {
    const bool was_skipped = std::exchange(skip, false);
    if (was_skipped) continue;
    const auto name = word.substr(0, word.find('='));
    if (const auto* spec = not_measured(name)) {
      skip = name == word && !spec->value.empty();
      continue;
    }
    words.push_back(word);
  }
  words.insert(words.end(), {"--json", report});
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

/// @param show lets it print
pid_t start(const Words& words, bool show) {
  const speedtorch::Descriptor nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const pid_t pid = start_self(words, {STDIN_FILENO, show ? STDOUT_FILENO : nothing.get()});
  if (pid < 0)
    throw reports::ReportError(fmt::format("cannot start a process: {}", reports::system_reason(-pid)));
  return pid;
}

/// Waits, and hands on what asks us to finish. @returns the exit status, 128 + signal where it was killed
int wait_for(pid_t pid) {
  constexpr auto pause = std::chrono::milliseconds(20);
  int status = 0;
  for (bool told = false;; std::this_thread::sleep_for(pause)) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return exit_status_of_process(status);
    if (ended < 0 && errno != EINTR)
      throw reports::ReportError(fmt::format("lost a process: {}", reports::system_reason(errno)));
    if (const int signal = harness::interrupted_by(); signal != 0 && !std::exchange(told, true))
      ::kill(pid, signal);
  }
}

}  // namespace

pid_t start_self(std::vector<std::string> words, std::initializer_list<int> streams,
                 char* const* environment) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int number = 0; const int stream : streams)
    ::posix_spawn_file_actions_adddup2(&actions, stream, number++);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments.data(), environment);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -error;
}

OwnRuns run_processes(const Options& options, int processes, bool show) {
  const ReportsFolder folder;
  const harness::InterruptGuard interrupts;
  OwnRuns runs;
  for (int i = 0; i < processes; ++i) {
    const auto report = folder.file(fmt::format("{}.json", i + 1));
    if (processes > 1) fmt::print(stderr, "process {} of {}\n", i + 1, processes);
    std::fflush(nullptr);
    const int status = wait_for(start(arguments_for(options, report), show));
    std::error_code ignored;
    const bool reported = std::filesystem::exists(report, ignored);
    if (reported) runs.reports.push_back(reports::read_report(report));
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

}  // namespace stbench
