/// SIGINT and SIGTERM as a request to finish: the run writes what it has.
#pragma once

#include <csignal>

namespace stbench::harness {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one ends the process as it would have
/// without the guard. One guard at a time; it puts back what was installed before.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction previous_int_ {};
  struct sigaction previous_term_ {};
};

/// Returns the signal noted since the latest guard was made, or 0. The exit status is 128 plus it.
int interrupted_by();

}  // namespace stbench::harness
