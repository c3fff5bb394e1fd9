/// Runs work in several processes that are the ranks of a group on this host.
#pragma once

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "speedtorch/sharded/rank_group.h"

namespace speedtorch::test {

/// A port of this host that no other test takes, as long as the object lives. A rank can listen to it,
/// because the holder does not listen and shares the address.
class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    constexpr int first = 20000, count = 10000;  // below those that the system gives out by itself
    for (number_ = first + ::getpid() % count; !bound(); number_ = first + (number_ + 1) % count) {
    }
    constexpr int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  }
  ~HeldPort() { ::close(socket_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  [[nodiscard]] bool bound() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(number_));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    return ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  int socket_;
  int number_;
};

inline GroupOptions on_this_host(const HeldPort& port,
                                 std::chrono::milliseconds timeout = std::chrono::minutes(2)) {
  return {.interface = "lo", .address = "127.0.0.1", .port = port.number(), .timeout = timeout};
}

/// Reads until the writer ends, at most two minutes: a hundred times what it takes.
inline std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (pollfd ready{fd, POLLIN, 0}; ::poll(&ready, 1, 120000) > 0;) {
    const auto got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text + "(hung)";
}

/// Returns the answer of each rank: what `work` returned, or "threw: " and the message. A rank that ended or
/// stopped itself answers nothing; those named in `stopped` are killed when the others have answered.
inline std::vector<std::string> in_ranks(int size, const std::function<std::string(int rank)>& work,
                                         int stopped = -1) {
  std::vector<pid_t> children;
  std::vector<int> answers;
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return {"(no pipe)"};
    children.push_back(::fork());
    if (children.back() == 0) {
      at::set_num_threads(1);  // the child of a process with threads has none of them
      std::string answer;
      try {
        answer = work(rank);
      } catch (const std::exception& error) {
        answer = std::string("threw: ") + error.what();
      }
      const auto written = ::write(ends[1], answer.data(), answer.size());
      ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    answers.push_back(ends[0]);
  }
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  const auto finish = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    texts[r] = read_all(answers[r]);
    ::close(answers[r]);
    ::kill(children[r], SIGKILL);
    int status = 0;
    ::waitpid(children[r], &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      texts[r] += "(ended by signal " + std::to_string(WTERMSIG(status)) + ")";
  };
  for (int rank = 0; rank < size; ++rank)
    if (rank != stopped) finish(rank);
  if (stopped >= 0) {
    ::kill(children[static_cast<std::size_t>(stopped)], SIGKILL);
    finish(stopped);
  }
  return texts;
}

}  // namespace speedtorch::test
