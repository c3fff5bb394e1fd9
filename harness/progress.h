/// Progress of a run on stderr, for runs longer than two seconds.
#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace stbench::harness {

/// On a terminal it overwrites one line; else it prints a line at most every 10 seconds. No progress
/// line appears in the first two seconds. Thread-safe.
class Progress {
 public:
  struct Target {
    std::FILE* out = stderr;
    bool in_place = false;          ///< the target is a terminal
    int columns = 80;               ///< of the terminal
    std::function<double()> now_s;  ///< seconds from any start, never less than before
  };

  /// stderr and the steady clock; in place where stderr is a terminal that can move its cursor.
  Progress();
  explicit Progress(Target target);
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the planned duration of the run, which is used until enough of the run is done.
  void set_total(double seconds_estimate);

  /// @param what is being done, @param done_fraction of the whole run, from 0 to 1
  void step(std::string_view what, double done_fraction);

  /// Prints nothing from now on.
  void silence();

  /// True if a line is overwritten in place: the target is a terminal.
  [[nodiscard]] bool is_in_place() const { return target_.in_place; }

  /// Prints a message as lines of its own, above the progress line.
  void note(std::string_view text);

  /// Takes the progress line away, so that the terminal is free for other output.
  void clear();

 private:
  void print(const std::string& text);
  void erase();
  [[nodiscard]] std::string line(std::string_view what, double done_fraction, double elapsed_s) const;

  Target target_;
  double start_s_;
  double last_shown_s_;
  double total_s_ = 0;
  bool silent_ = false;
  std::string shown_;  ///< the line on the terminal, or empty
  std::mutex mutex_;
};

/// A time as people say it: 8 s, 1 min 20 s, 2 h 5 min.
std::string human_time(double seconds);

}  // namespace stbench::harness
