#include "harness/interrupt.h"

#include <atomic>

namespace stbench::harness {
namespace {

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing that locks");

extern "C" void note_signal(int signal) {
  int none = 0;
  if (noted_signal.compare_exchange_strong(none, signal)) return;
  // Delivered when this handler returns, with the effect it has by default.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

// A signal that was ignored before is noted too: shells ignore SIGINT for a background job, and `kill -INT`
// on one is a request all the same.
InterruptGuard::InterruptGuard() {
  noted_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

int interrupted_by() { return noted_signal; }

}  // namespace stbench::harness
