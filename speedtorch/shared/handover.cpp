#include "speedtorch/shared/handover.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kLongestName = 80;
constexpr int kBacklog = 64;                    // processes that may wait for an answer at once
constexpr milliseconds kBetweenTries{2};        // abstract sockets announce nothing
constexpr milliseconds kShortestAnswer{1'000};  // even if the caller would not wait for a holder
constexpr std::size_t kMostDescriptors = 2;

[[noreturn]] void refuse_socket(const std::string& name, const std::string& call) {
  const std::string answer = std::strerror(errno);
  throw SharingError(shared_title(name) + " has no socket: " + call + ": " + answer);
}

/// The sockets on which this process listens. A fork happens between two answers, and its child closes them.
class Listening {
 public:
  /// Never destroyed: a fork during the process's exit may still use it.
  static Listening& instance() {
    static auto* const all = new Listening;
    return *all;
  }
  void add(int socket) { sockets_.push_back(socket); }
  void close(int socket) {
    std::erase(sockets_, socket);
    ::close(socket);
  }
  std::mutex& mutex() { return mutex_; }

 private:
  Listening() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       for (const int socket : instance().sockets_) ::close(socket);
                       instance().sockets_.clear();
                       instance().mutex_.unlock();
                     });
  }
  std::mutex mutex_;
  std::vector<int> sockets_;
};

Descriptor new_socket(const std::string& name) {
  Descriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) refuse_socket(name, "socket");
  return made;
}

/// The process at the other end: the one that connected, or that listened.
ucred peer_of(int socket) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t length = sizeof(peer);
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
  return peer;
}

std::string process(pid_t pid) {
  return pid > 0 ? "process " + std::to_string(pid) : "a process of another PID namespace";
}

[[noreturn]] void refuse_taken(const std::string& name, const SocketAddress& at) {
  const auto asking = new_socket(name);
  const bool found = ::connect(asking.get(), at.get(), at.length) == 0;
  const auto peer = peer_of(asking.get());
  const auto holder = shared_title(name) + " is held by " + (found ? process(peer.pid) : "a process");
  if (found && peer.uid != ::geteuid())
    throw NameError(holder + " of user " + std::to_string(peer.uid) + " already; choose another name");
  throw NameError(holder + " already; end that, or choose another name");
}

int listen_at(const std::string& name, const SocketAddress& to) {
  const std::lock_guard no_fork(Listening::instance().mutex());
  const int made = new_socket(name).release();
  if (::bind(made, to.get(), to.length) == 0 && ::listen(made, kBacklog) == 0) {
    Listening::instance().add(made);
    return made;
  }
  const int error = errno;
  ::close(made);
  errno = error;
  if (error == EADDRINUSE) refuse_taken(name, to);
  refuse_socket(name, "bind");
}

void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

/// A message with descriptors, as sendmsg() and recvmsg() take it.
struct Message {
  explicit Message(SharedOffer& offer) : bytes{&offer, sizeof(offer)} {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  iovec bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr header{};
};

/// Waits until a process listens. @throws NameError, SharingError
Descriptor connect_to(const std::string& name, Asker asker, milliseconds timeout) {
  const auto to = shared_address(name, asker);
  const auto until = Clock::now() + timeout;
  for (;;) {
    auto asking = new_socket(name);
    if (::connect(asking.get(), to.get(), to.length) == 0) return asking;
    const bool is_busy = errno == EAGAIN;  // its queue is full
    if (!is_busy && errno != ECONNREFUSED && errno != EINTR) refuse_socket(name, "connect");
    if (Clock::now() >= until) {
      const auto waited = " after " + std::to_string(timeout.count()) + " ms";
      if (is_busy) throw SharingError("the holder of " + shared_title(name) + " does not answer" + waited);
      throw NameError("no process of user " + std::to_string(::geteuid()) + " holds " + shared_title(name) +
                      waited +
                      "; start its holder first, as the same user and in the same network namespace");
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void wait_for_answer(int socket, const std::string& holder, milliseconds timeout) {
  const auto until = Clock::now() + std::max(timeout, kShortestAnswer);
  for (;;) {
    pollfd waiting{socket, POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    const int found = ::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (found > 0) return;
    if ((found == 0 || errno != EINTR) && Clock::now() >= until)
      throw SharingError(holder + " does not answer within " +
                         std::to_string(std::max(timeout, kShortestAnswer).count()) +
                         " ms; it may be stopped");
  }
}

void take_descriptors(msghdr& header, Received& received) {
  for (auto* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t k = 0; k < count; ++k) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + k * sizeof(int), sizeof(fd));
      (received.rows.valid() ? received.locks : received.rows) = Descriptor(fd);
    }
  }
}

void check_version(const SharedOffer& offer, std::size_t bytes, const std::string& holder) {
  constexpr auto beginning = offsetof(SharedOffer, version) + sizeof(offer.version);
  if (bytes < beginning || offer.mark != SharedOffer::kMark)
    throw SharingError(holder + " is no holder of speedtorch: its answer begins otherwise");
  if (offer.version != SharedOffer::kVersion)
    throw SharingError(holder + " shares by version " + std::to_string(offer.version) +
                       ", and this process by version " + std::to_string(SharedOffer::kVersion) +
                       "; use one version of speedtorch in both");
  if (bytes == sizeof(offer) && offer.error != 0)
    throw SharingError(holder + " cannot send the descriptors of its memory: " + std::strerror(offer.error));
  if (bytes != sizeof(offer) || offer.dimensions == 0 || offer.dimensions > SharedOffer::kDimensions)
    throw SharingError(holder + " gives a damaged answer of " + std::to_string(bytes) + " bytes");
}

}  // namespace

void require_shared_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (!name.empty() && name.size() <= kLongestName && std::ranges::none_of(name, is_control)) return;
  throw OptionError("the name of a shared table has 1 to " + std::to_string(kLongestName) +
                    " bytes and no control characters; '" + name.substr(0, kLongestName) + "' has " +
                    std::to_string(name.size()) + " bytes");
}

std::string shared_title(const std::string& name) { return "the shared table '" + name + "'"; }

void require_wait(const std::string& what, milliseconds time) {
  if (time.count() >= 0 && time <= kLongestWait) return;
  throw OptionError(what + " is " + std::to_string(time.count()) + " ms; it is 0 to " +
                    std::to_string(kLongestWait.count()));
}

SocketAddress shared_address(const std::string& name, Asker asker) {
  auto path = '\0' + ("speedtorch/" + std::to_string(::geteuid())) + '/' + name;
  if (asker == Asker::writer) path += std::string("\0writer", 7);  // no name has such a byte
  SocketAddress to;
  to.address.sun_family = AF_UNIX;
  std::ranges::copy(path, to.address.sun_path);
  to.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return to;
}

Handover::Handover(std::string name, const SharedOffer& offer, const HandedDescriptors& descriptors)
    : name_(std::move(name)), offer_(offer), owner_(::getpid()), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.valid()) refuse_socket(name_, "eventfd");
  try {
    open_doors(descriptors);
    thread_ = start_thread(shared_title(name_), [this] { serve(); });
  } catch (...) {
    close_doors();
    throw;
  }
}

/// That for writers first: they ask at the other one before.
void Handover::open_doors(const HandedDescriptors& descriptors) {
  if (descriptors.locks >= 0)
    doors_.push_back(
        {listen_at(name_, shared_address(name_, Asker::writer)), {descriptors.writing, descriptors.locks}});
  doors_.push_back({listen_at(name_, shared_address(name_)), {descriptors.reading}});
}

void Handover::close_doors() {
  const std::lock_guard no_fork(Listening::instance().mutex());
  for (const auto& door : doors_) Listening::instance().close(door.socket);
}

Handover::~Handover() {
  const std::uint64_t one = 1;
  // Nothing else ends the thread. A signal may interrupt the call.
  while (::write(stop_.get(), &one, sizeof(one)) < 0) continue;
  thread_.join();
  close_doors();
}

bool Handover::is_of_parent() const { return ::getpid() != owner_; }

void Handover::serve() {
  block_signals();  // they are for the program's own threads
  std::vector<pollfd> watched;
  for (const auto& door : doors_) watched.push_back({door.socket, POLLIN, 0});
  watched.push_back({stop_.get(), POLLIN, 0});
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) <= 0) continue;
    if (watched.back().revents != 0) return;
    for (std::size_t k = 0; k < doors_.size(); ++k)
      if (watched[k].revents != 0) answer(doors_[k]);
  }
}

void Handover::answer(const Door& door) const {
  const std::lock_guard no_fork(Listening::instance().mutex());  // no child keeps the connection open
  const Descriptor peer(::accept4(door.socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer.valid()) {
    if (peer_of(peer.get()).uid == ::geteuid()) send_to(peer.get(), door.descriptors);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
    std::this_thread::sleep_for(kBetweenTries);  // until the process closes something
  }
}

/// Never waits, because the peer's buffer is empty. If the system refuses the descriptors, the peer gets the
/// reason, if it is still there.
void Handover::send_to(int peer, const std::vector<int>& descriptors) const {
  auto offer = offer_;
  Message message(offer);
  const auto bytes = descriptors.size() * sizeof(int);
  message.header.msg_controllen = CMSG_SPACE(bytes);
  auto* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
  if (::sendmsg(peer, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
  offer.error = errno;
  static_cast<void>(::send(peer, &offer, sizeof(offer), MSG_NOSIGNAL | MSG_DONTWAIT));
}

namespace {

/// Asks at one of the holder's addresses.
Received ask(const std::string& name, Asker asker, milliseconds timeout) {
  const auto asking = connect_to(name, asker, timeout);
  const auto peer = peer_of(asking.get());
  const auto holder = process(peer.pid) + ", which holds " + shared_title(name) + ",";
  if (peer.uid != ::geteuid())
    throw AccessError(holder + " is of user " + std::to_string(peer.uid) + ", and this process is of user " +
                      std::to_string(::geteuid()) + "; only processes of one user share a table");
  wait_for_answer(asking.get(), holder, timeout);
  Received received;
  received.holder = peer.pid;
  Message message(received.offer);
  const auto bytes = ::recvmsg(asking.get(), &message.header, MSG_CMSG_CLOEXEC);
  if (bytes <= 0) throw SharingError(holder + " ended before it handed the table over");
  take_descriptors(message.header, received);
  check_version(received.offer, static_cast<std::size_t>(bytes), holder);
  if (!received.rows.valid() || received.locks.valid() != (asker == Asker::writer))
    throw SharingError(holder + " gives no descriptors; this process may have none free (ulimit -n)");
  return received;
}

}  // namespace

Received receive_table(const std::string& name, Asker asker, milliseconds timeout) {
  require_shared_name(name);
  require_wait("the time-out", timeout);
  auto received = ask(name, Asker::reader, timeout);
  if (asker == Asker::reader || received.offer.locks == 0) return received;
  return ask(name, Asker::writer, timeout);
}

}  // namespace speedtorch
