#include "harness/doctor/two_cpus.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/doctor/checks.h"
#include "speedtorch/system/affinity.h"

namespace stbench::harness::doctor {
namespace {

using Clock = std::chrono::steady_clock;

/// Allowed CPUs that the kernel takes for two cores; empty if there are none.
std::vector<int> two_cores(const speedtorch::SystemFiles& files) {
  const auto allowed = allowed_cpus(files);
  if (allowed.empty()) return {};
  const int first = allowed.front();
  const auto siblings = speedtorch::number_list(
      files.first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", first))
          .value_or(fmt::to_string(first)));
  for (const int other : allowed) {
    if (std::ranges::find(siblings, other) == siblings.end()) return {first, other};
  }
  return {};
}

/// Two threads wait here for each other, again and again.
class Meeting {
 public:
  void sleep() {
    wait([this](int now) { arrived_.wait(now); });
  }
  void spin() {
    wait([](int) { std::this_thread::yield(); });
  }

 private:
  void wait(const auto& pause) {
    const int all = (arrived_.fetch_add(1) / 2 + 1) * 2;
    arrived_.notify_one();
    for (int now = arrived_; now < all; now = arrived_) pause(now);
  }

  std::atomic<int> arrived_ = 0;
};

/// The calling thread and another, one per CPU, that work together and alone.
class TwoThreads {
 public:
  TwoThreads(const std::vector<int>& cpus, const std::function<double()>& work) : cpus_(cpus), work_(work) {}

  std::optional<double> slowdown() {
    cpu_set_t before;
    if (::sched_getaffinity(0, sizeof before, &before) != 0) return std::nullopt;
    std::thread other([this] { run(1); });
    run(0);
    other.join();
    ::sched_setaffinity(0, sizeof before, &before);
    if (failed_) return std::nullopt;
    return together_s_ / alone_s_;
  }

 private:
  void run(std::size_t which) {
    constexpr int kRounds = 8;
    if (!speedtorch::pin_this_thread(std::span(cpus_).subspan(which, 1))) failed_ = true;
    for (int round = 0; round < kRounds; ++round) {
      meeting_.sleep();
      if (which == 0) alone_s_ = std::min(alone_s_, work_());
      meeting_.sleep();
      meeting_.spin();  // both are awake
      seconds_[which] = work_();
      meeting_.sleep();
      if (which == 0) together_s_ = std::min(together_s_, std::max(seconds_[0], seconds_[1]));
    }
  }

  const std::vector<int>& cpus_;
  const std::function<double()>& work_;
  Meeting meeting_;
  std::atomic<bool> failed_ = false;
  std::array<double, 2> seconds_{};
  double alone_s_ = std::numeric_limits<double>::infinity();
  double together_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double busy_multipliers() {
  const auto begin = Clock::now();
  std::uint64_t a = 1, b = 2, c = 3, d = 4;
  for (std::uint64_t i = 0; i < 500'000; ++i) {
    a = a * 3 + i, b = b * 5 + i, c = c * 7 + i, d = d * 9 + i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));  // so that the compiler leaves the loop in
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::optional<double> slowdown_of_two_cpus(const speedtorch::SystemFiles& files,
                                           const std::function<double()>& work) {
  const auto cpus = two_cores(files);
  if (cpus.empty()) return std::nullopt;
  try {
    return TwoThreads(cpus, work).slowdown();
  } catch (const std::system_error&) {  // no thread can be started; a run says so itself
    return std::nullopt;
  }
}

}  // namespace stbench::harness::doctor
