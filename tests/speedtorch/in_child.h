/// Work in a process of its own, for what a process cannot take back: its limits, its user, its groups.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <string>

namespace speedtorch::test {

/// What `work` returns as text, or "threw: " and the message, or how the child ended. The child has one
/// thread: `work` must not use LibTorch's.
template <class Work>
std::string in_child(Work work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "(no pipe)";
  const pid_t child = ::fork();
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

}  // namespace speedtorch::test
