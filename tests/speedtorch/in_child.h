/// Runs work in a child process, for changes that a process cannot undo: its limits, its user, its groups.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/address_sanitizer.h"

namespace speedtorch::test {

/// Returns whether all other threads of this process sleep.
inline bool other_threads_sleep() {
  const auto self = std::to_string(::gettid());
  std::error_code ended;
  for (std::filesystem::directory_iterator task("/proc/self/task", ended), end; task != end;
       task.increment(ended)) {
    if (task->path().filename() == self) continue;
    std::string stat;
    std::getline(std::ifstream(task->path() / "stat"), stat);  // "tid (name) state ..."; empty: it has ended
    const auto name_end = stat.rfind(") ");
    if (name_end != std::string::npos && stat[name_end + 2] != 'S') return false;
  }
  return true;
}

/// fork(), under AddressSanitizer once all other threads sleep, or after a second. The sanitizer's allocator
/// has locks that a fork does not take: a child that is forked while a thread starts or allocates waits for
/// them for ever.
inline pid_t fork_at_rest() {
  if (stbench::test::under_address_sanitizer()) {
    const auto at_rest = [] { return other_threads_sleep() && other_threads_sleep(); };
    for (int wait = 0; wait < 1000 && !at_rest(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ::fork();
}

/// Returns what `work` returns as text, or "threw: " and the message, or how the child ended. The child has
/// one thread, so `work` must not use LibTorch's.
template <class Work>
std::string in_child(Work work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "(no pipe)";
  const pid_t child = fork_at_rest();
  if (child == 0) {
    std::string answer;
    try {
      answer = work();
    } catch (const std::exception& error) {
      answer = std::string("threw: ") + error.what();
    }
    const auto written = ::write(ends[1], answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return answer + "(ended by signal " + std::to_string(WTERMSIG(status)) + ")";
  return answer;
}

/// For work that may hang or use LibTorch. Returns "right", "wrong", "threw", or how the child was ended (by
/// a signal if it hangs).
inline std::string in_forked_child(const std::function<bool()>& work) {
  const pid_t child = fork_at_rest();
  if (child == 0) {
    int answer = 2;
    try {
      answer = work() ? 0 : 1;
    } catch (...) {
    }
    ::_exit(answer);
  }
  int status = 0;
  for (int wait = 0; wait < 6000; ++wait) {  // 60 s: a thousand times what it takes
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "right" : WEXITSTATUS(status) == 1 ? "wrong" : "threw";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return "hung";
}

/// In a child: forbids it to start threads. @returns false if that is impossible
inline bool take_away_threads() {
  constexpr uid_t nobody = 65534;  // root has no such limit
  if (::geteuid() == 0 && ::setuid(nobody) != 0) return false;
  const rlimit one{1, 1};
  return ::setrlimit(RLIMIT_NPROC, &one) == 0;
}

}  // namespace speedtorch::test
