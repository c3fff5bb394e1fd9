#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

/// Sets a variable and makes the first call of the runtime, which must end the process and say why.
void refuses(const char* name, const char* value, const char* says) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv(name, value, 1);
        cudaFree(nullptr);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(2), says);
}

TEST(EmulatedSettings, WrongValueNamesTheVariableTheValueAndWhatIsRight) {
  refuses("EMULATED_GPU_STREAMS", "late", "EMULATED_GPU_STREAMS=late: it must be lazy or eager");
  refuses("EMULATED_GPU_DEVICES", "9", "EMULATED_GPU_DEVICES=9: it must be a number from 0 to 8");
  refuses("EMULATED_GPU_BYTES", "-1", "EMULATED_GPU_BYTES=-1: it must be a number of bytes");
  refuses("EMULATED_GPU_BYTES", "2097152,9", "EMULATED_GPU_BYTES=2097152,9: it must be a number of bytes");
  refuses("EMULATED_GPU_SEED", "x", "EMULATED_GPU_SEED=x: it must be a number");
  refuses("EMULATED_GPU_CHECKS", "races,others",
          "EMULATED_GPU_CHECKS=races,others: it must be a list of races and unwritten");
  refuses("EMULATED_GPU_PTX", "90", "EMULATED_GPU_PTX=90: it must be newest or oldest");
  refuses("EMULATED_GPU_TRACE", "yes", "EMULATED_GPU_TRACE=yes: it must be 0 or 1");
}

TEST(EmulatedSettings, FailureOfAFunctionThatIsNotThereIsRefused) {
  for (const char* const value : {"cudaMaloc:1", "cudaMalloc", "cudaMalloc:0", "cudaMalloc:x", "printf:1"})
    refuses("EMULATED_GPU_FAIL", value, "it must be a list of NAME:N");
}

TEST(EmulatedSettings, UnknownVariableIsRefused) {
  refuses("EMULATED_GPU_DEVICE", "1",
          "EMULATED_GPU_DEVICE=1: there is no such variable; .*EMULATED_GPU_DEVICES");
}

TEST(EmulatedSettings, CallThatIsToFailFailsOnce) {
  in_process({{"FAIL", "cudaMalloc:2,cudaMemcpyAsync:1,cudaHostRegister:1"}}, [] {
    void* address = nullptr;
    ok(cudaMalloc(&address, 8));
    void* second = nullptr;
    EXPECT_EQ(cudaMalloc(&second, 8), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    ok(cudaMalloc(&second, 8));
    EXPECT_EQ(failed(cudaMemcpyAsync(address, second, 8, cudaMemcpyDefault, nullptr)), cudaErrorInvalidValue);
    ok(cudaMemcpyAsync(address, second, 8, cudaMemcpyDefault, nullptr));
    std::vector<unsigned char> host(8);
    EXPECT_EQ(failed(cudaHostRegister(host.data(), 8, 0)), cudaErrorMemoryAllocation);
  });
}

TEST(EmulatedSettings, FailureThatSynchronisationReportsStays) {
  in_process({{"FAIL", "cudaStreamSynchronize:1"}}, [] {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorLaunchFailure);
  });
}

TEST(EmulatedSettings, NoDeviceIsNoDevice) {
  in_process({{"DEVICES", "0"}}, [] {
    int count = -1;
    EXPECT_EQ(failed(cudaGetDeviceCount(&count)), cudaErrorNoDevice);
    EXPECT_EQ(count, 0);
    void* address = nullptr;
    EXPECT_EQ(failed(cudaMalloc(&address, 8)), cudaErrorNoDevice);
  });
}

TEST(EmulatedErrors, NamesAndTextsAreCudas) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST(EmulatedErrors, LastErrorIsOfEachThreadAndPeekingKeepsIt) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(EmulatedDevices, AreLikeAnH100) {
  cudaDeviceProp properties{};
  ok(cudaGetDeviceProperties(&properties, 0));
  EXPECT_STREQ(properties.name, "Emulated GPU 0");
  EXPECT_EQ(properties.major, 9);
  for (const auto& [attribute, value] :
       std::map<cudaDeviceAttr, int>{{cudaDevAttrMultiProcessorCount, 132},
                                     {cudaDevAttrComputeCapabilityMajor, 9},
                                     {cudaDevAttrL2CacheSize, 50 << 20},
                                     {cudaDevAttrHostRegisterReadOnlySupported, 1},
                                     {cudaDevAttrPageableMemoryAccess, 0}}) {
    int told = -1;
    ok(cudaDeviceGetAttribute(&told, attribute, 0));
    EXPECT_EQ(told, value) << attribute;
  }
  char id[32] = {};
  ok(cudaDeviceGetPCIBusId(id, sizeof id, 0));
  EXPECT_STREQ(id, "0000:3B:00.0");
  int device = -1;
  ok(cudaDeviceGetByPCIBusId(&device, id));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(failed(cudaDeviceGetPCIBusId(id, 5, 0)), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulated_gpu
