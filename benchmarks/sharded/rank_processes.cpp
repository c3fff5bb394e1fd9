#include "benchmarks/sharded/rank_processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "benchmarks/sharded/rank_server.h"
#include "benchmarks/suite/plain_words.h"
#include "benchmarks/suite/started_process.h"
#include "speedtorch/error.h"

namespace stbench {
namespace {

constexpr const char* this_host = "127.0.0.1";
constexpr int of_error = 2, of_lost_group = 3;  // exit statuses
constexpr auto time_to_end = std::chrono::seconds(5);

[[noreturn]] void refuse_start(const char* what, int error) {
  throw std::runtime_error(fmt::format("cannot start the ranks: {}: {}", what, std::strerror(error)));
}

/// Binds a port without listening to it. Rank 0 may still listen, since both share the address.
std::pair<speedtorch::Descriptor, int> hold_port() {
  speedtorch::Descriptor held(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(held.get(), any, size) != 0 || ::getsockname(held.get(), any, &size) != 0)
    refuse_start("no port", errno);
  return {std::move(held), ntohs(address.sin_port)};
}

/// True for a rank that ended because it lost the others.
bool lost_others(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == of_lost_group; }

}  // namespace

int serve_started_rank(const std::vector<std::string>& words) {
  try {
    const auto number = [&](std::size_t k) { return std::stoi(words.at(k)); };
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != number(5)) return of_error;  // rank 0 died before the line above
    const std::chrono::milliseconds timeout(number(4));
    serve_rank(speedtorch::RankGroup(
                   number(1), number(2),
                   {.interface = this_host, .address = this_host, .port = number(3), .timeout = timeout}),
               timeout);
    return 0;
  } catch (const speedtorch::GroupError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return of_lost_group;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", plain_words(error.what()).c_str());
    return of_error;
  }
}

RankProcesses::RankProcesses(int size, std::chrono::milliseconds timeout) {
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");  // of a launcher, whose store these ranks do not use
  std::tie(held_port_, port_) = hold_port();
  for (int rank = 1; rank < size; ++rank) start(rank, size, timeout);
}

RankProcesses::~RankProcesses() {
  for (auto& process : processes_) {
    if (process.ended) continue;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
  }
}

void RankProcesses::start(int rank, int size, std::chrono::milliseconds timeout) {
  Process process{-1, speedtorch::Descriptor(::memfd_create("stbench", MFD_CLOEXEC))};
  const speedtorch::Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  process.pid =
      start_program(this_program,
                    {"stbench", rank_command, std::to_string(rank), std::to_string(size),
                     std::to_string(port_), std::to_string(timeout.count()), std::to_string(::getpid())},
                    {nothing.get(), nothing.get(), process.messages.get()});
  if (process.pid < 0) refuse_start("posix_spawn", -process.pid);
  processes_.push_back(std::move(process));
}

/// A rank that was killed or failed by itself, before one that only lost the others.
const RankProcesses::Process* RankProcesses::culprit() const {
  const Process* found = nullptr;
  for (const auto& process : processes_) {
    if (!process.ended) continue;
    if (!lost_others(process.status)) return &process;
    if (found == nullptr) found = &process;
  }
  return found;
}

std::string RankProcesses::description(const Process& process) const {
  const auto who = fmt::format("rank {} of {} ", &process - processes_.data() + 1, processes_.size() + 1);
  if (WIFSIGNALED(process.status))
    return who + fmt::format("was ended by signal {}", WTERMSIG(process.status));
  const auto words = last_line_of(process.messages.get());
  return who + fmt::format("ended with exit status {}{}{}", WEXITSTATUS(process.status),
                           words.empty() ? "" : ": ", words);
}

std::string RankProcesses::how_one_ended() {
  const auto until = std::chrono::steady_clock::now() + time_to_end;
  for (;;) {
    for (auto& process : processes_)
      process.ended = process.ended || ::waitpid(process.pid, &process.status, WNOHANG) == process.pid;
    const auto* found = culprit();
    const bool certain = found != nullptr && !lost_others(found->status);
    if (certain || std::chrono::steady_clock::now() >= until)
      return found == nullptr ? "" : description(*found);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace stbench
