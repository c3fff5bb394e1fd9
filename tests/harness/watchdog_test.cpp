#include "harness/watchdog.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>

namespace stbench::harness {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// Collects what timed out; waits for it with a limit that only a broken watchdog reaches.
class Collected {
 public:
  void operator()(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

TEST(Watchdog, EndsALimitAtTheLatestTime) {
  Collected collected;
  Watchdog dog(1h, std::ref(collected));
  dog.arm("late", Watchdog::Clock::now() + 5ms);
  EXPECT_THAT(collected.wait_for(1), ElementsAre("late"));
  dog.arm("past", Watchdog::Clock::now() - 1s);
  EXPECT_THAT(collected.wait_for(2), ElementsAre("late", "past"));
}

TEST(Watchdog, CallsOnceForEachThatTookTooLong) {
  Collected collected;
  Watchdog dog(5ms, std::ref(collected));
  dog.arm("first");
  EXPECT_THAT(collected.wait_for(1), ElementsAre("first"));
  std::this_thread::sleep_for(30ms);
  dog.arm("second");
  EXPECT_THAT(collected.wait_for(2), ElementsAre("first", "second"));
}

TEST(Watchdog, CallsFromItsOwnThread) {
  std::promise<std::thread::id> caller;
  Watchdog dog(1ms, [&](const std::string&) { caller.set_value(std::this_thread::get_id()); });
  dog.arm("x");
  EXPECT_NE(caller.get_future().get(), std::this_thread::get_id());
}

TEST(Watchdog, KeepsQuietWhereDisarmed) {
  Collected collected;
  {
    Watchdog dog(1h, std::ref(collected));
    for (int i = 0; i < 100; ++i) {
      dog.arm("quick");
      dog.disarm();
    }
    dog.arm("armed when it ends");
  }
  EXPECT_THAT(collected.wait_for(0), ElementsAre());
}

TEST(Watchdog, WaitsForACallbackThatHasBegun) {
  std::promise<void> began;
  std::atomic<bool> finished{false};
  Watchdog dog(1ms, [&](const std::string&) {
    began.set_value();
    std::this_thread::sleep_for(30ms);
    finished = true;
  });
  dog.arm("x");
  began.get_future().wait();
  dog.disarm();
  EXPECT_TRUE(finished);
}

TEST(Watchdog, CanBeArmedAndDisarmedFromTheCallback) {
  std::promise<void> done;
  Watchdog* dog_in_callback = nullptr;
  int calls = 0;
  Watchdog dog(1ms, [&](const std::string&) {
    dog_in_callback->disarm();
    if (++calls < 3) return dog_in_callback->arm("again");
    done.set_value();
  });
  dog_in_callback = &dog;
  dog.arm("first");
  EXPECT_EQ(done.get_future().wait_for(60s), std::future_status::ready);
}

TEST(Watchdog, RestartsTheLimitWhenArmedAgain) {
  Collected collected;
  Watchdog dog(50ms, std::ref(collected));
  dog.arm("old");
  dog.arm("new");
  EXPECT_THAT(collected.wait_for(1), ElementsAre("new"));
}

TEST(Watchdog, WithoutALimitIsOff) {
  for (const std::chrono::duration<double> limit : {0s, -1s}) {
    Collected collected;
    Watchdog dog(limit, std::ref(collected));
    dog.arm("x");
    std::this_thread::sleep_for(5ms);
    dog.disarm();
    EXPECT_THAT(collected.wait_for(0), ElementsAre());
  }
}

TEST(Watchdog, AcceptsALimitBeyondTheClocksRange) {
  Collected collected;
  Watchdog dog(std::chrono::duration<double>(1e300), std::ref(collected));
  dog.arm("x");
  std::this_thread::sleep_for(5ms);
  EXPECT_THAT(collected.wait_for(0), ElementsAre());
}

}  // namespace
}  // namespace stbench::harness
