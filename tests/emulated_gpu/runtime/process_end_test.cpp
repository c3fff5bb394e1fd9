// Calls of the runtime while the process ends.

#include <chrono>
#include <thread>

#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

/// Constructed before the runtime's first use, so destroyed after it is unloaded.
struct Last {
  bool calls = false, waits = false;
  ~Last() {
    if (calls && cudaFree(nullptr) != cudaErrorCudartUnloading) std::_Exit(1);
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
} last;

void ends_well(void (*body)()) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        cudaFree(nullptr);
        body();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(EmulatedProcessEnd, StaticObjectsAreToldThatCudaIsUnloaded) {
  ends_well([] { last.calls = true; });
}

TEST(EmulatedProcessEnd, OtherThreadsAreNotToldBeforeItEnds) {
  ends_well([] {
    last.waits = true;
    std::thread([] {
      while (cudaFree(nullptr) == cudaSuccess) std::this_thread::yield();
      std::_Exit(1);
    }).detach();
  });
}

}  // namespace
}  // namespace emulated_gpu
