#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

using Bytes = std::vector<unsigned char>;

TEST(EmulatedCopies, KindMustFitThePointers) {
  const DeviceBytes device(4);
  Bytes host(4);
  EXPECT_EQ(failed(cudaMemcpy(device.get(), host.data(), 4, cudaMemcpyDeviceToHost)), cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemcpy(host.data(), device.get(), 4, cudaMemcpyHostToDevice)), cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemcpy(device.get(), host.data(), 4, cudaMemcpyDeviceToDevice)),
            cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemcpy(device.get(), host.data(), 4, cudaMemcpyHostToHost)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.get(), host.data(), 4, cudaMemcpyDefault), cudaSuccess);
}

TEST(EmulatedCopies, RectanglesKeepToTheirPitches) {
  const DeviceBytes device(12, 9);
  const Bytes host{1, 2, 3, 4, 5, 6};
  ok(cudaMemcpy2D(device.get(), 4, host.data(), 2, 2, 3, cudaMemcpyHostToDevice));
  EXPECT_EQ(device.read(), (Bytes{1, 2, 9, 9, 3, 4, 9, 9, 5, 6, 9, 9}));
  Bytes back(6);
  const Stream stream;
  ok(cudaMemcpy2DAsync(back.data(), 2, device.get(), 4, 2, 3, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(back, host);
  EXPECT_EQ(failed(cudaMemcpy2D(device.get(), 1, host.data(), 2, 2, 3, cudaMemcpyHostToDevice)),
            cudaErrorInvalidPitchValue);
  ok(cudaMemset2D(device.get() + 2, 4, 0, 2, 3));
  EXPECT_EQ(device.read(), (Bytes{1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}));
}

TEST(EmulatedCopies, UnregisteredMemoryUnderACopyIsAFault) {
  in_process(
      {},
      [] {
        const Stream stream;
        const DeviceBytes device(4096);
        Bytes host(4096);
        ok(cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault));
        ok(cudaMemcpyAsync(device.get(), host.data(), host.size(), cudaMemcpyHostToDevice, stream));
        ok(cudaHostUnregister(host.data()));
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
      },
      "has gone since the call");
}

struct Batched {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> sizes, first{0};
  std::vector<cudaMemcpyAttributes> attributes = std::vector<cudaMemcpyAttributes>(1);

  Batched(const DeviceBytes& target, const PinnedBytes& source, std::size_t count) {
    attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    for (std::size_t i = 0; i < count; ++i) {
      to.push_back(target.get() + i);
      from.push_back(source.get() + i);
      sizes.push_back(1);
    }
  }
  cudaError_t run(cudaStream_t stream) {
    return failed(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), attributes.data(),
                                       first.data(), attributes.size(), stream));
  }
};

/// Four ones, to be copied in four pieces.
class EmulatedBatches : public testing::Test {
 protected:
  const Stream stream_;
  const DeviceBytes device_{4};
  const PinnedBytes host_{4, 1};
  Batched batch_{device_, host_, 4};
};

TEST_F(EmulatedBatches, RunOnTheirStream) {
  ok(batch_.run(stream_));
  host_[3] = 2;
  ok(cudaStreamSynchronize(stream_));
  EXPECT_EQ(device_.read(), (Bytes{1, 1, 1, 2}));
}

TEST_F(EmulatedBatches, ReadTheirSourceDuringTheCallIfTheySaySo) {
  batch_.attributes.push_back(batch_.attributes[0]);
  batch_.attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  batch_.first = {0, 2};
  ok(batch_.run(stream_));
  std::fill_n(host_.get(), 4, static_cast<unsigned char>(2));
  ok(cudaStreamSynchronize(stream_));
  EXPECT_EQ(device_.read(), (Bytes{2, 2, 1, 1}));
}

TEST_F(EmulatedBatches, RefusesBatchesThatCudaForbids) {
  const auto refuses = [this](cudaStream_t on, auto change) {
    Batched batch = batch_;
    change(batch);
    return batch.run(on) == cudaErrorInvalidValue;
  };
  const auto as_it_is = [](Batched&) {};
  EXPECT_TRUE(refuses(nullptr, as_it_is));
  EXPECT_TRUE(refuses(cudaStreamLegacy, as_it_is));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.to.clear(); }));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.first[0] = 1; }));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.attributes.clear(); }));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.attributes[0] = {}; }));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.sizes[3] = 2; }));
  EXPECT_TRUE(refuses(stream_, [](Batched& batch) { batch.from[1] = nullptr; }));
  EXPECT_FALSE(refuses(stream_, as_it_is));
  ok(cudaStreamSynchronize(stream_));
}

TEST(EmulatedCopies, PeerCopiesNameTheirDevices) {
  in_process({{"DEVICES", "2"}}, [] {
    const DeviceBytes first(1, 1);
    ok(cudaSetDevice(1));
    const DeviceBytes second(1, 2);
    const Stream stream;
    EXPECT_EQ(failed(cudaMemcpyPeerAsync(first.get(), 1, second.get(), 0, 1, stream)), cudaErrorInvalidValue);
    ok(cudaMemcpyPeerAsync(first.get(), 0, second.get(), 1, 1, stream));
    ok(cudaStreamSynchronize(stream));
    EXPECT_EQ(first.read()[0], 2);
    ok(cudaDeviceEnablePeerAccess(0, 0));
    EXPECT_EQ(failed(cudaDeviceEnablePeerAccess(0, 0)), cudaErrorPeerAccessAlreadyEnabled);
    EXPECT_EQ(failed(cudaDeviceEnablePeerAccess(1, 0)), cudaErrorInvalidDevice);
  });
}

}  // namespace
}  // namespace emulated_gpu
