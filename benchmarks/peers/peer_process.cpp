#include "benchmarks/peers/peer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "benchmarks/suite/plain_words.h"
#include "benchmarks/suite/started_process.h"
#include "reports/number.h"

namespace stbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_answer = std::size_t{64} << 10;
constexpr const char* said_more = "it said more than it was asked";
constexpr auto grace = std::chrono::milliseconds(500);  // for a peer that was told to end

/// The child's work before it is another program: only calls that are safe beside a parent whose memory it
/// still shares. Returns if that fails.
void become(char* const* words, int stdio, int messages, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  ::setpgid(0, 0);                        // an interrupt from the terminal is for us alone
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(stdio, STDIN_FILENO);
  ::dup2(stdio, STDOUT_FILENO);
  ::dup2(messages, STDERR_FILENO);
  ::execvp(words[0], words);
}

/// vfork, because fork would make every page of the tables cost its next writer a fault.
/// @throws PeerMissing with the system's reason where the command cannot be executed
pid_t spawn(const std::vector<std::string>& command, int stdio, int messages) {
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));  // execvp's signature
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // a handler of ours must not run in the child
  volatile int error = 0;  // the child writes it: the memory is shared until it executes
  const pid_t pid = ::vfork();
  if (pid == 0) {
    become(words.data(), stdio, messages, parent);
    error = errno;
    ::_exit(127);
  }
  if (pid < 0) error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid > 0 && error != 0) ::waitpid(pid, nullptr, 0);
  if (error != 0) throw PeerMissing(std::strerror(error));
  return pid;
}

/// A descriptor that is none of the standard three, which the child gives away.
speedtorch::Descriptor above_the_standard_three(const speedtorch::Descriptor& fd) {
  speedtorch::Descriptor above(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!above.valid()) throw PeerError(fmt::format("no descriptor for the peer: {}", std::strerror(errno)));
  return above;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

/// The text behind the first word, if that is `word`; nullptr else.
const char* behind(const std::string& line, std::string_view word) {
  if (!line.starts_with(word) || (line.size() > word.size() && line[word.size()] != ' ')) return nullptr;
  return line.c_str() + std::min(line.size(), word.size() + 1);
}

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command, PeerTerms terms)
    : terms_(std::move(terms)) {
  start(command);
  try {
    read_hello();
  } catch (...) {
    if (alive()) end(/*kill=*/true);
    throw;
  }
}

PeerProcess::~PeerProcess() {
  if (!alive()) return;
  constexpr std::string_view quit = "quit\n";
  [[maybe_unused]] const auto sent = ::send(socket_.get(), quit.data(), quit.size(), MSG_NOSIGNAL);
  end(/*kill=*/false);
}

void PeerProcess::start(const std::vector<std::string>& command) {
  int ends[2];
  // A socket, not two pipes: writing to a peer that is gone is then an error without a signal.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw PeerError(fmt::format("socketpair: {}", std::strerror(errno)));
  socket_ = speedtorch::Descriptor(ends[0]);
  const auto theirs = above_the_standard_three(speedtorch::Descriptor(ends[1]));
  messages_ = above_the_standard_three(speedtorch::Descriptor(::memfd_create("stbench", MFD_CLOEXEC)));
  pid_ = spawn(command, theirs.get(), messages_.get());
}

void PeerProcess::read_hello() {
  const auto line = read_line();
  if (const char* what = behind(line, "missing")) throw PeerMissing(plain_words(what));
  const char* text = behind(line, "hello");
  const auto hello =
      nlohmann::ordered_json::parse(text == nullptr ? "" : text, nullptr, /*exceptions=*/false);
  if (!hello.is_object() || !hello.contains("protocol") || !hello["protocol"].is_number_integer())
    give_up(fmt::format("it began with '{}' instead of hello", plain_words(line)));
  if (const auto theirs = hello["protocol"].get<std::int64_t>(); theirs != peer_protocol) {
    give_up(
        fmt::format("it speaks version {} of the lines, this program version {}; take both from one release",
                    theirs, peer_protocol));
  }
  if (!hello.contains("versions") || !hello["versions"].is_object()) return;
  for (const auto& [name, version] : hello["versions"].items()) {
    if (version.is_string()) versions_[plain_words(name)] = plain_words(version.get<std::string>());
  }
}

std::string PeerProcess::ask(const std::string& request, std::string_view expected) {
  if (!alive()) throw PeerError(terms_.who + " is not there any more");
  refuse_surplus();
  send(request + "\n");
  const auto line = read_line();
  if (!unread_.empty()) give_up(said_more);
  if (const char* answer = behind(line, expected)) return answer;
  if (const char* error = behind(line, "error"))
    throw PeerError(fmt::format("{} says: {}", terms_.who, plain_words(error)));
  give_up(fmt::format("it answered '{}' instead of {}", plain_words(line), expected));
}

double PeerProcess::ask_seconds(const std::string& request) {
  const auto text = ask(request, "seconds");
  const auto seconds = reports::real_from(text);
  if (seconds.value_or(0) <= 0)
    throw PeerError(fmt::format("the peer's seconds are '{}'", plain_words(text)));
  return *seconds;
}

/// A line that nobody asked for would be taken as the answer to the next request.
void PeerProcess::refuse_surplus() {
  char some;
  ssize_t count = 0;
  do {
    count = ::recv(socket_.get(), &some, sizeof some, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count > 0 || !unread_.empty()) give_up(said_more);
  if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) give_up("");  // it is gone
}

void PeerProcess::send(const std::string& line) {
  for (std::size_t sent = 0; sent < line.size();) {
    const auto some = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) give_up("");
    sent += static_cast<std::size_t>(some);
  }
}

std::string PeerProcess::read_line() {
  const auto begin = Clock::now();
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > longest_answer) give_up("it answered with an endless line");
    pollfd waiting{socket_.get(), POLLIN, 0};
    const int ready =
        ::poll(&waiting, 1, milliseconds_left(std::chrono::duration<double>(Clock::now() - begin).count()));
    if (ready <= 0) continue;  // the time is up, or a signal came
    char some[4096];
    const auto count = ::recv(socket_.get(), some, sizeof some, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) give_up("");
    unread_.append(some, static_cast<std::size_t>(count));
  }
}

/// How long to wait for more of an answer before this is asked again. Gives the peer up if it is not to be
/// waited for any longer.
int PeerProcess::milliseconds_left(double waited_s) {
  constexpr double look_again_ms = 1000;
  if (terms_.stop()) give_up("the run was interrupted");
  if (terms_.limit_s <= 0) return static_cast<int>(look_again_ms);
  const double left_s = terms_.limit_s - waited_s;
  if (left_s <= 0)
    give_up(fmt::format("it gave no answer within {:g} s, {}", terms_.limit_s, terms_.limit_words));
  return static_cast<int>(std::min(left_s * 1000 + 1, look_again_ms));
}

/// Ends the peer; with no reason of ours, how it ended is the reason.
void PeerProcess::give_up(const std::string& reason) {
  const auto ended = end(/*kill=*/!reason.empty());
  if (!reason.empty()) throw PeerError(fmt::format("{} was ended: {}", terms_.who, reason));
  const auto words = last_line_of(messages_.get());
  throw PeerError(fmt::format("{} {}{}{}", terms_.who, ended, words.empty() ? "" : ": ", words));
}

/// Returns how it ended.
std::string PeerProcess::end(bool kill) {
  if (!alive())
    throw std::logic_error("a peer is ended once: without its number, kill() would mean every process");
  socket_ = speedtorch::Descriptor();  // its standard input ends
  int status = 0;
  const auto until = Clock::now() + grace;
  while (!kill && ::waitpid(pid_, &status, WNOHANG) == 0) {
    kill = Clock::now() >= until;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (kill) break;
  }
  if (kill) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  return how_it_ended(status);
}

}  // namespace stbench
