#include "harness/span.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "harness/nvtx.h"
#include "reports/utf8.h"

namespace stbench::harness {
namespace {

std::atomic<Trace*> current_trace{nullptr};

std::string name_of(std::string_view phase, std::string_view subject) {
  return fmt::format("{}: {}", phase, subject);
}

}  // namespace

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Trace::Trace() : began_s_(steady_now()) { current_trace = this; }
Trace::~Trace() { current_trace = nullptr; }
Trace* Trace::current() { return current_trace; }

void Trace::add(std::string_view phase, std::string_view subject, double begin_s, double end_s, int runs) {
  const std::lock_guard lock(mutex_);
  events_.push_back({std::string(phase), std::string(subject), begin_s, end_s, runs});
}

std::string Trace::to_json(std::string_view program) const {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events = events_;
  }
  // Inner spans end first and are added first; viewers want the outer one first where both begin at once.
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return a.begin_s != b.begin_s ? a.begin_s < b.begin_s : a.end_s > b.end_s;
  });
  std::string text = fmt::format(
      "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
      "{{\"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"name\": \"process_name\", \"args\": {{\"name\": {}}}}}",
      reports::json_text(program));
  for (const Event& event : events) {
    text += fmt::format(
        ",\n{{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": {:.4f}, \"dur\": {:.4f}, \"cat\": {}, \"name\": "
        "{}, "
        "\"args\": {{\"subject\": {}{}}}}}",
        (event.begin_s - began_s_) * 1e6, (event.end_s - event.begin_s) * 1e6,
        reports::json_text(event.phase), reports::json_text(name_of(event.phase, event.subject)),
        reports::json_text(event.subject), event.runs > 0 ? fmt::format(", \"runs\": {}", event.runs) : "");
  }
  return text + "\n]}\n";
}

bool spans_are_seen() { return Trace::current() != nullptr || is_profiled(); }

Span::Span(std::string_view phase, std::string_view subject)
    : phase_(phase), subject_(subject), seen_(spans_are_seen()) {
  if (!seen_) return;
  push_nvtx_range(name_of(phase, subject));
  begin_s_ = steady_now();
}

Span::~Span() {
  if (!seen_) return;
  const double end_s = steady_now();
  pop_nvtx_range();
  if (auto* trace = Trace::current()) trace->add(phase_, subject_, begin_s_, end_s);
}

}  // namespace stbench::harness
