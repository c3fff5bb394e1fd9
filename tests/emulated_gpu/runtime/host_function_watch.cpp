#include "tests/emulated_gpu/runtime/host_function_watch.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "tests/emulated_gpu/runtime/runtime.h"

namespace emulated_gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::milliseconds(100);

struct Watched {
  WorkPointer work;
  Clock::time_point due;
};

struct Watch {
  std::mutex mutex;
  std::condition_variable added;
  std::deque<Watched> waiting;
};

void run_when_due(Watch& watch) {
  std::unique_lock own(watch.mutex);
  while (true) {
    watch.added.wait(own, [&] { return !watch.waiting.empty(); });
    const Watched first = watch.waiting.front();
    watch.waiting.pop_front();
    own.unlock();
    std::this_thread::sleep_until(first.due);
    {
      auto& all = runtime();
      Lock lock(all.mutex);
      all.streams.finish(lock, first.work);
    }
    own.lock();
  }
}

}  // namespace

void watch_host_function(const WorkPointer& work) {
  if (work == nullptr || work->done()) return;
  static Watch* const watch = [] {
    auto* const made = new Watch;  // its thread ends with the process
    std::thread([made] { run_when_due(*made); }).detach();
    return made;
  }();
  const std::lock_guard own(watch->mutex);
  watch->waiting.push_back({work, Clock::now() + patience});
  watch->added.notify_one();
}

}  // namespace emulated_gpu
