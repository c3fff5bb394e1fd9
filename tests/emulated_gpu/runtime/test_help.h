// Helpers for the tests of the substitute runtime.
#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace emulated_gpu {

using Environment = std::map<std::string, std::string>;

/// Runs the body in its own process, with EMULATED_GPU_<name> set for each entry, because the runtime
/// reads them once and a fault of a device stays.
template <class Body>
void in_process(const Environment& environment, Body body, const char* says = "") {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        for (const auto& [name, value] : environment)
          ::setenv(("EMULATED_GPU_" + name).c_str(), value.c_str(), 1);
        body();
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), says);
}

/// The error of a call that is expected to fail; it leaves no last error behind.
inline cudaError_t failed(cudaError_t error) {
  cudaGetLastError();
  return error;
}

inline void ok(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

/// Device memory with a value in each byte.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes, int value = 0) : bytes_(bytes) {
    ok(cudaMalloc(&address_, bytes));
    ok(cudaMemset(address_, value, bytes));
    ok(cudaDeviceSynchronize());
  }
  ~DeviceBytes() { cudaFree(address_); }
  DeviceBytes(const DeviceBytes&) = delete;

  [[nodiscard]] unsigned char* get() const { return static_cast<unsigned char*>(address_); }
  [[nodiscard]] std::vector<unsigned char> read() const {
    std::vector<unsigned char> host(bytes_);
    ok(cudaMemcpy(host.data(), address_, bytes_, cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_;
};

/// Pinned memory with a value in each byte.
class PinnedBytes {
 public:
  explicit PinnedBytes(std::size_t bytes, unsigned char value = 0) {
    void* address = nullptr;
    ok(cudaHostAlloc(&address, bytes, cudaHostAllocDefault));
    bytes_ = static_cast<unsigned char*>(address);
    std::fill_n(bytes_, bytes, value);
  }
  ~PinnedBytes() { cudaFreeHost(bytes_); }
  PinnedBytes(const PinnedBytes&) = delete;

  [[nodiscard]] unsigned char* get() const { return bytes_; }
  unsigned char& operator[](std::size_t i) const { return bytes_[i]; }

 private:
  unsigned char* bytes_ = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { ok(cudaStreamCreateWithFlags(&stream_, flags)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { ok(cudaEventCreateWithFlags(&event_, flags)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace emulated_gpu
