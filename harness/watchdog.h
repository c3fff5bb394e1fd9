/// A limit on how long one thing may take.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace stbench::harness {

/// Calls back in its own thread if something exceeds the limit. It cannot stop what hangs: the callback
/// reports and ends the process, or only takes note.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param limit of each armed thing; zero or less is no limit
  /// @param on_timeout called once for each armed thing that passed its limit; it throws nothing
  Watchdog(std::chrono::duration<double> limit, std::function<void(std::string what)> on_timeout);

  /// Starts the limit of `what`, replacing the armed one. @param latest the end of any limit
  void arm(std::string what, Clock::time_point latest = Clock::time_point::max());

  /// Stops it. Waits for a callback that has begun (unless called from it), so none runs after the return.
  void disarm();

 private:
  struct Armed {
    std::string what;
    Clock::time_point deadline;
  };

  void watch(const std::stop_token& stop);
  void set(std::optional<Armed> armed);

  std::chrono::duration<double> limit_;
  std::function<void(std::string)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Armed> armed_;
  bool calling_ = false;
  std::jthread thread_;  ///< the last, so that it ends before what it uses
};

}  // namespace stbench::harness
