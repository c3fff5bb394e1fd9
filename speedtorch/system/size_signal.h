/// Turns writes beyond the limit on file sizes (RLIMIT_FSIZE, ulimit -f) into ordinary errors.
#pragma once

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace speedtorch {

/// While it lives, a write of this thread beyond the limit fails with EFBIG and does not end the process by
/// SIGXFSZ. A library must not change the process's signal handlers, so it blocks the signal in this thread
/// and consumes the one that a write caused. Keeps errno.
class SizeSignalBlocked {
 public:
  SizeSignalBlocked() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~SizeSignalBlocked() {
    const int error = errno;
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&signals_, nullptr, &at_once) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  SizeSignalBlocked(const SizeSignalBlocked&) = delete;
  SizeSignalBlocked& operator=(const SizeSignalBlocked&) = delete;

 private:
  sigset_t signals_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace speedtorch
