#include "harness/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

namespace stbench::harness {
namespace {

constexpr double kQuietStart_s = 2;
constexpr double kInPlaceEvery_s = 0.1;
constexpr double kPlainEvery_s = 10;
/// From this fraction on, the time taken so far says more about the rest than the plan does.
constexpr double kEnoughDone = 0.05;
constexpr std::string_view kEraseLine = "\r\x1b[K";

Progress::Target terminal_or_file() {
  Progress::Target target;
  const char* terminal = std::getenv("TERM");
  target.in_place = isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) target.columns = size.ws_col;
  target.now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  return target;
}

/// The first so many characters of a UTF-8 text: none is cut in two, and the line never wraps.
std::string first_characters(std::string_view text, int characters) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins_character && characters-- == 0) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

std::string human_time(double seconds) {
  const auto whole = static_cast<long>(std::lround(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress() : Progress(terminal_or_file()) {}

Progress::Progress(Target target)
    : target_(std::move(target)),
      start_s_(target_.now_s()),
      last_shown_s_(-std::numeric_limits<double>::infinity()) {}

Progress::~Progress() { clear(); }

void Progress::set_total(double seconds_estimate) {
  const std::lock_guard lock(mutex_);
  total_s_ = seconds_estimate;
}

void Progress::silence() {
  const std::lock_guard lock(mutex_);
  erase();
  silent_ = true;
}

void Progress::step(std::string_view what, double done_fraction) {
  const std::lock_guard lock(mutex_);
  if (silent_) return;
  const double now = target_.now_s();
  const double every = target_.in_place ? kInPlaceEvery_s : kPlainEvery_s;
  if (now - start_s_ < kQuietStart_s || now - last_shown_s_ < every) return;
  last_shown_s_ = now;
  const std::string text = line(what, std::clamp(done_fraction, 0.0, 1.0), now - start_s_);
  if (target_.in_place) {
    shown_ = first_characters(text, target_.columns - 1);
    print(fmt::format("{}{}", kEraseLine, shown_));
  } else {
    print(text + "\n");
  }
}

void Progress::note(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (silent_) return;
  const std::string shown = shown_;
  erase();
  print(fmt::format("{}{}", text, text.ends_with('\n') ? "" : "\n"));
  if (!shown.empty()) {
    print(shown);
    shown_ = shown;
  }
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  erase();
}

// A target that takes no more (a closed pipe) must not end the run: failures to print are let go.
void Progress::print(const std::string& text) {
  std::fputs(text.c_str(), target_.out);
  std::fflush(target_.out);
}

void Progress::erase() {
  if (shown_.empty()) return;
  print(std::string(kEraseLine));
  shown_.clear();
}

std::string Progress::line(std::string_view what, double done_fraction, double elapsed_s) const {
  std::string left;
  if (done_fraction >= kEnoughDone) {
    left = human_time(elapsed_s * (1 - done_fraction) / done_fraction);
  } else if (total_s_ > elapsed_s) {
    left = human_time(total_s_ - elapsed_s);
  }
  return fmt::format("[{:3.0f} %]{} {}", std::floor(100 * done_fraction),
                     left.empty() ? "" : " about " + left + " left:", what);
}

}  // namespace stbench::harness
