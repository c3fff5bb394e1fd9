#include <thread>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  ok(cudaStreamBeginCapture(stream, mode));
}

cudaError_t end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const auto error = failed(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph != nullptr, error == cudaSuccess);
  if (graph != nullptr) ok(cudaGraphDestroy(graph));
  return error;
}

TEST(EmulatedCaptures, GraphRunsWhatWasCapturedAtEachLaunch) {
  const Stream stream;
  const PinnedBytes from(1, 1), to(1, 0);
  const DeviceBytes device(1);
  begin(stream);
  ok(cudaMemcpyAsync(device.get(), from.get(), 1, cudaMemcpyDefault, stream));
  ok(cudaMemcpyAsync(to.get(), device.get(), 1, cudaMemcpyDefault, stream));
  EXPECT_EQ(emulated_gpu_is_capturing(stream), 1);
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(emulated_gpu_is_capturing(stream), 0);
  std::size_t nodes = 0;
  ok(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 2U);
  cudaGraphExec_t executable = nullptr;
  ok(cudaGraphInstantiate(&executable, graph, 0));
  ok(cudaGraphDestroy(graph));
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(to[0], 0);
  for (const auto value : {static_cast<unsigned char>(1), static_cast<unsigned char>(2)}) {
    from[0] = value;
    ok(cudaGraphLaunch(executable, stream));
    EXPECT_NE(to[0], value);
    ok(cudaStreamSynchronize(stream));
    EXPECT_EQ(to[0], value);
  }
  ok(cudaGraphExecDestroy(executable));
}

TEST(EmulatedCaptures, WorkOfOperatorsIsReleasedWithTheGraph) {
  const Stream stream;
  int releases = 0;
  begin(stream);
  ok(emulated_gpu_enqueue(
      stream, "a test", nullptr, [](void* count) { ++*static_cast<int*>(count); }, &releases));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  ok(cudaGraphInstantiate(&executable, graph, 0));
  ok(cudaGraphDestroy(graph));
  ok(cudaGraphLaunch(executable, stream));
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(releases, 0);
  ok(cudaGraphExecDestroy(executable));
  EXPECT_EQ(releases, 1);
}

TEST(EmulatedCaptures, UnsafeCallMakesTheCaptureInvalid) {
  const Stream stream, other;
  begin(stream);
  void* address = nullptr;
  EXPECT_EQ(failed(cudaMalloc(&address, 1)), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(failed(cudaMemsetAsync(&address, 0, 1, stream)), cudaErrorInvalidValue);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  begin(stream);
  EXPECT_EQ(failed(cudaStreamSynchronize(other)), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  begin(stream);
  EXPECT_EQ(failed(cudaStreamSynchronize(stream)), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
}

TEST(EmulatedCaptures, RelaxedThreadMayCallWhatIsUnsafe) {
  const Stream stream;
  begin(stream);
  auto mode = cudaStreamCaptureModeRelaxed;
  ok(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* address = nullptr;
  ok(cudaMalloc(&address, 1));
  ok(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(end(stream), cudaSuccess);
  ok(cudaFree(address));
}

TEST(EmulatedCaptures, OtherThreadsAreForbiddenByGlobalCapturesOnly) {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const Stream stream;
    begin(stream, mode);
    cudaError_t error = cudaSuccess;
    void* address = nullptr;
    std::thread([&] { error = cudaMalloc(&address, 1); }).join();
    const bool global = mode == cudaStreamCaptureModeGlobal;
    EXPECT_EQ(error, global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    EXPECT_EQ(end(stream), global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    ok(cudaFree(address));
  }
}

TEST(EmulatedCaptures, StreamThatJoinsMustBeWaitedFor) {
  for (const bool joined : {false, true}) {
    const Stream origin, other;
    const Event fork, join;
    const DeviceBytes device(2);
    begin(origin);
    ok(cudaEventRecord(fork, origin));
    ok(cudaStreamWaitEvent(other, fork, 0));
    EXPECT_EQ(emulated_gpu_is_capturing(other), 1);
    ok(cudaMemsetAsync(device.get(), 1, 1, other));
    ok(cudaEventRecord(join, other));
    if (joined) ok(cudaStreamWaitEvent(origin, join, 0));
    EXPECT_EQ(end(origin), joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(emulated_gpu_is_capturing(other), 0);
  }
}

TEST(EmulatedCaptures, WorkFromOutsideCannotBeWaitedForInACapture) {
  const Stream stream, other;
  const Event event;
  const DeviceBytes device(1);
  ok(cudaMemsetAsync(device.get(), 1, 1, other));
  ok(cudaEventRecord(event, other));
  begin(stream);
  EXPECT_EQ(failed(cudaStreamWaitEvent(stream, event, 0)), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  ok(cudaDeviceSynchronize());
}

TEST(EmulatedCaptures, LegacyStreamMayNotMeetACapture) {
  const DeviceBytes device(1);
  EXPECT_EQ(failed(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal)),
            cudaErrorStreamCaptureUnsupported);
  const Stream blocking(cudaStreamDefault), free;
  begin(blocking);
  EXPECT_EQ(failed(cudaMemsetAsync(device.get(), 1, 1, nullptr)), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(end(blocking), cudaErrorStreamCaptureInvalidated);
  begin(free);
  EXPECT_EQ(cudaMemsetAsync(device.get(), 1, 1, nullptr), cudaSuccess);
  EXPECT_EQ(end(free), cudaSuccess);
  ok(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace emulated_gpu
