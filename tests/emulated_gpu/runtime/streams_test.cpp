#include <atomic>
#include <chrono>
#include <thread>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

TEST(EmulatedStreams, CopyIntoPinnedMemoryRunsWhenItIsWaitedFor) {
  const Stream stream;
  const DeviceBytes device(4, 1);
  const PinnedBytes host(4, 9);
  copy(host.get(), device.get(), 4, stream);
  EXPECT_EQ(host[0], 9);
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(host[0], 1);
}

TEST(EmulatedStreams, EagerStreamsRunAtTheCall) {
  in_process({{"STREAMS", "eager"}}, [] {
    const Stream stream;
    const DeviceBytes device(4, 1);
    const PinnedBytes host(4, 9);
    copy(host.get(), device.get(), 4, stream);
    EXPECT_EQ(host[0], 1);
  });
}

TEST(EmulatedStreams, PinnedSourceIsReadLateAndPageableSourceAtTheCall) {
  const Stream stream;
  const DeviceBytes a(1), b(1);
  const PinnedBytes pinned(1, 1);
  unsigned char pageable = 1;
  copy(a.get(), pinned.get(), 1, stream);
  copy(b.get(), &pageable, 1, stream);
  pinned[0] = pageable = 2;
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(a.read()[0], 2);
  EXPECT_EQ(b.read()[0], 1);
}

TEST(EmulatedStreams, CopyIntoPageableMemoryWaits) {
  const Stream stream;
  const DeviceBytes device(1, 5);
  unsigned char host = 0;
  copy(&host, device.get(), 1, stream);
  EXPECT_EQ(host, 5);
}

TEST(EmulatedStreams, FillsAndCopiesWithinTheDeviceDoNotWait) {
  const DeviceBytes a(1, 1), b(1, 2);
  void* const bytes = emulated_gpu_bytes(a.get());
  ok(cudaMemcpy(a.get(), b.get(), 1, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(*static_cast<unsigned char*>(bytes), 1);
  ok(cudaMemset(a.get(), 3, 1));
  EXPECT_EQ(*static_cast<unsigned char*>(bytes), 1);
  ok(cudaDeviceSynchronize());
  EXPECT_EQ(*static_cast<unsigned char*>(bytes), 3);
}

TEST(EmulatedStreams, OnlyAnEventOrdersTwoStreams) {
  for (const bool waits : {false, true}) {
    const Stream first, second;
    const Event event(cudaEventDisableTiming);
    const DeviceBytes device(1, 1);
    const PinnedBytes fresh(1, 2), seen(1, 0);
    copy(device.get(), fresh.get(), 1, first);
    ok(cudaEventRecord(event, first));
    if (waits) ok(cudaStreamWaitEvent(second, event, 0));
    copy(seen.get(), device.get(), 1, second);
    ok(cudaStreamSynchronize(second));
    EXPECT_EQ(seen[0], waits ? 2 : 1);
    ok(cudaStreamSynchronize(first));
  }
}

TEST(EmulatedStreams, EventHoldsWhatWasRecordedBeforeTheWait) {
  const Stream first, second;
  const Event event;
  const DeviceBytes device(1, 1);
  const PinnedBytes seen(1, 0);
  ok(cudaMemsetAsync(device.get(), 2, 1, first));
  ok(cudaEventRecord(event, first));
  ok(cudaStreamWaitEvent(second, event, 0));
  ok(cudaMemsetAsync(device.get(), 3, 1, first));
  ok(cudaEventRecord(event, first));
  copy(seen.get(), device.get(), 1, second);
  ok(cudaStreamSynchronize(second));
  EXPECT_EQ(seen[0], 2);
  ok(cudaDeviceSynchronize());
}

TEST(EmulatedStreams, LegacyStreamAndBlockingStreamsWaitForEachOther) {
  for (const auto flags : {unsigned{cudaStreamDefault}, unsigned{cudaStreamNonBlocking}}) {
    for (const bool legacy_waits : {true, false}) {
      const Stream stream(flags);
      const cudaStream_t of_flags = stream, first = legacy_waits ? of_flags : nullptr,
                         second = legacy_waits ? nullptr : of_flags;
      const DeviceBytes device(1, 1);
      const PinnedBytes seen(1, 0);
      ok(cudaMemsetAsync(device.get(), 2, 1, first));
      copy(seen.get(), device.get(), 1, second);
      ok(cudaStreamSynchronize(second));
      EXPECT_EQ(seen[0], flags == cudaStreamDefault ? 2 : 1) << legacy_waits;
      ok(cudaDeviceSynchronize());
    }
  }
}

TEST(EmulatedStreams, PollingGetsThere) {
  const Stream stream;
  const Event event;
  const DeviceBytes device(1);
  for (int i = 0; i < 3; ++i) ok(cudaMemsetAsync(device.get(), i, 1, stream));
  ok(cudaEventRecord(event, stream));
  int questions = 0;
  while (failed(cudaEventQuery(event)) == cudaErrorNotReady) ++questions;
  EXPECT_EQ(questions, 3);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(EmulatedStreams, LongChainsBetweenStreamsRun) {
  const Stream a, b;
  const Event event;
  const DeviceBytes device(1);
  for (int i = 0; i < 20000; ++i) {
    const cudaStream_t from = i % 2 == 0 ? a : b, to = i % 2 == 0 ? b : a;
    ok(cudaMemsetAsync(device.get(), i % 256, 1, from));
    ok(cudaEventRecord(event, from));
    ok(cudaStreamWaitEvent(to, event, 0));
  }
  ok(cudaDeviceSynchronize());
  EXPECT_EQ(device.read()[0], 19999 % 256);
}

TEST(EmulatedStreams, DestroyedStreamFinishesItsWork) {
  const DeviceBytes device(1, 1);
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ok(cudaMemsetAsync(device.get(), 2, 1, stream));
  ok(cudaStreamDestroy(stream));
  EXPECT_EQ(failed(cudaStreamSynchronize(stream)), cudaErrorInvalidResourceHandle);
  ok(cudaDeviceSynchronize());
  EXPECT_EQ(device.read()[0], 2);
}

TEST(EmulatedStreams, HostFunctionRunsInOrderAndMayNotCallCuda) {
  struct Seen {
    unsigned char* bytes;
    int value = -1;
    cudaError_t error = cudaSuccess;
  };
  const Stream stream;
  const DeviceBytes device(1, 4);
  const PinnedBytes host(1, 0);
  Seen seen{host.get()};
  copy(host.get(), device.get(), 1, stream);
  const auto look = [](void* data) {
    auto& to = *static_cast<Seen*>(data);
    to.value = to.bytes[0];
    to.error = failed(cudaDeviceSynchronize());
  };
  ok(cudaLaunchHostFunc(stream, look, &seen));
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen.value, 4);
  EXPECT_EQ(seen.error, cudaErrorNotPermitted);
}

TEST(EmulatedStreams, HostFunctionRunsThoughNothingWaitsForItsStream) {
  const Stream stream;
  std::atomic<bool> done{false};
  ok(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &done));
  while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(EmulatedStreams, CallbackGetsItsStream) {
  const Stream stream;
  cudaStream_t seen = nullptr;
  const auto look = [](cudaStream_t at, cudaError_t, void* data) { *static_cast<cudaStream_t*>(data) = at; };
  ok(cudaStreamAddCallback(stream, look, &seen, 0));
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen, static_cast<cudaStream_t>(stream));
}

TEST(EmulatedStreams, WorkOfOperatorsIsQueuedAndReleasedOnce) {
  struct Calls {
    int works = 0, releases = 0;
  };
  const Stream stream;
  Calls calls;
  const auto work = [](void* to) { ++static_cast<Calls*>(to)->works; };
  const auto release = [](void* to) { ++static_cast<Calls*>(to)->releases; };
  ok(emulated_gpu_enqueue(stream, "a test", work, release, &calls));
  EXPECT_EQ(calls.works + calls.releases, 0);
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(calls.works, 1);
  EXPECT_EQ(calls.releases, 1);
  EXPECT_EQ(failed(emulated_gpu_enqueue(reinterpret_cast<cudaStream_t>(&calls), "", work, release, &calls)),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(calls.works, 1);
  EXPECT_EQ(calls.releases, 2);
}

TEST(EmulatedStreams, ThreadsMayWaitForTheSameWork) {
  const Stream stream;
  std::atomic<int> runs{0};
  const auto slow = [](void* data) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++*static_cast<std::atomic<int>*>(data);
  };
  for (int i = 0; i < 3; ++i) ok(emulated_gpu_enqueue(stream, "slow", slow, nullptr, &runs));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(runs, 3);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(EmulatedEvents, TimeNeedsTwoTimedEventsThatWereReached) {
  const Stream stream;
  const Event a, b, untimed(cudaEventDisableTiming);
  float milliseconds = 0;
  EXPECT_EQ(failed(cudaEventElapsedTime(&milliseconds, a, b)), cudaErrorInvalidResourceHandle);
  ok(cudaEventRecord(a, stream));
  ok(cudaEventRecord(b, stream));
  ok(cudaEventRecord(untimed, stream));
  EXPECT_EQ(failed(cudaEventElapsedTime(&milliseconds, a, b)), cudaErrorNotReady);
  ok(cudaEventSynchronize(b));
  ok(cudaEventElapsedTime(&milliseconds, a, b));
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(failed(cudaEventElapsedTime(&milliseconds, a, untimed)), cudaErrorInvalidResourceHandle);
}

TEST(EmulatedEvents, DestroyedEventIsRefused) {
  cudaEvent_t event = nullptr;
  ok(cudaEventCreate(&event));
  ok(cudaEventDestroy(event));
  EXPECT_EQ(failed(cudaEventDestroy(event)), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(failed(cudaEventRecord(event, nullptr)), cudaErrorInvalidResourceHandle);
}

TEST(EmulatedEvents, EventOfAnotherDeviceIsRefused) {
  in_process({{"DEVICES", "2"}}, [] {
    const Event event;
    ok(cudaSetDevice(1));
    const Stream stream;
    EXPECT_EQ(failed(cudaEventRecord(event, stream)), cudaErrorInvalidResourceHandle);
    ok(cudaSetDevice(0));
    ok(cudaEventRecord(event, nullptr));
    ok(cudaStreamWaitEvent(stream, event, 0));
  });
}

}  // namespace
}  // namespace emulated_gpu
