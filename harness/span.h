/// Named spans of a run, for our own trace and for NVIDIA's profilers.
///
/// A span is `phase: subject`. The subject is a case ID or a group's title, so that a profile joins to the
/// rows of the report. Without a trace or a profiler no span is created, and the sampler's loop is compiled
/// without spans (a test counts its instructions).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::harness {

/// Seconds of the steady clock.
double steady_now();

/// Collects the spans of this process for as long as it lives; there is one at a time.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The one that lives, or null.
  static Trace* current();

  /// @param runs operations that ran in the span, if it is a sample's
  void add(std::string_view phase, std::string_view subject, double begin_s, double end_s, int runs = 0);

  /// The spans so far in the format of Chrome's and Perfetto's viewers: complete events ("ph": "X") of one
  /// thread, in microseconds since the trace began, outer spans before inner ones.
  /// @param program name and version, for the viewer
  [[nodiscard]] std::string to_json(std::string_view program) const;

 private:
  struct Event {
    std::string phase, subject;
    double begin_s, end_s;
    int runs;
  };

  double began_s_;
  mutable std::mutex mutex_;  ///< a watchdog may write the spans during the run
  std::vector<Event> events_;
};

/// True if a trace or a profiler records spans.
bool spans_are_seen();

/// A span from here to the end of the scope, on the calling thread.
class Span {
 public:
  /// True if code that creates many spans should run.
  static constexpr bool made = true;

  /// Both texts must outlive the span.
  Span(std::string_view phase, std::string_view subject);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::string_view phase_, subject_;
  double begin_s_ = 0;
  bool seen_;
};

/// A no-op in place of a span that nothing records.
struct NoSpan {
  static constexpr bool made = false;
  NoSpan(std::string_view /*phase*/, std::string_view /*subject*/) {}
};

}  // namespace stbench::harness
