#include "harness/watchdog.h"

#include <algorithm>
#include <utility>

namespace stbench::harness {
namespace {

/// A limit that the clock can hold: a user's "for ever" must not wrap round to the past.
constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);

}  // namespace

Watchdog::Watchdog(std::chrono::duration<double> limit, std::function<void(std::string)> on_timeout)
    : limit_(std::min(limit, kLongest)), on_timeout_(std::move(on_timeout)) {
  if (limit_.count() > 0) thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void Watchdog::arm(std::string what, Clock::time_point latest) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
  set(Armed{std::move(what), std::min(end, latest)});
}

void Watchdog::disarm() { set(std::nullopt); }

void Watchdog::set(std::optional<Armed> armed) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  if (std::this_thread::get_id() != thread_.get_id()) changed_.wait(lock, [this] { return !calling_; });
  armed_ = std::move(armed);
  lock.unlock();
  changed_.notify_all();
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto is_armed = [this] { return armed_.has_value(); };
  while (!stop.stop_requested() && changed_.wait(lock, stop, is_armed)) {
    const Clock::time_point deadline = armed_->deadline;
    const auto is_changed = [&] { return !armed_ || armed_->deadline != deadline; };
    if (changed_.wait_until(lock, stop, deadline, is_changed) || stop.stop_requested()) continue;
    std::string what = std::move(armed_->what);
    armed_.reset();
    calling_ = true;
    lock.unlock();
    on_timeout_(std::move(what));
    lock.lock();
    calling_ = false;
    changed_.notify_all();
  }
}

}  // namespace stbench::harness
