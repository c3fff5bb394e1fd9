/// Named stretches of time of a run: for a trace of our own and for NVIDIA's profilers, which get the same
/// names.
///
/// A span is `phase: subject`, where the subject is a case ID, or a group's title: so a profile joins
/// to the rows of the report. Without a trace and without a profiler nothing is made, and the sampler's loop
/// is compiled without spans: a test counts its instructions.
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

  /// @param runs operations that ran in between, where that is told: the span is a sample's
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
  mutable std::mutex mutex_;  ///< a watchdog may write what there is while the run goes on
  std::vector<Event> events_;
};

/// True where a span would be seen: by a trace, or by a profiler.
bool spans_are_seen();

/// From here to the end of the scope, on the calling thread.
class Span {
 public:
  /// Whether code that makes many of them should be there at all.
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

/// What stands for a span where none is seen: nothing.
struct NoSpan {
  static constexpr bool made = false;
  NoSpan(std::string_view /*phase*/, std::string_view /*subject*/) {}
};

}  // namespace stbench::harness
