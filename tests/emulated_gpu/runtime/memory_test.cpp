#include <sys/mman.h>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

constexpr std::size_t page = 4096;

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  ok(cudaMemGetInfo(&free, &total));
  return free;
}

TEST(EmulatedMemory, FreshMemoryHoldsNeitherZerosNorOldBytes) {
  void* address = nullptr;
  ok(cudaMalloc(&address, 3));
  unsigned char bytes[3] = {};
  ok(cudaMemcpy(bytes, address, 3, cudaMemcpyDeviceToHost));
  for (const int byte : bytes) EXPECT_EQ(byte, 0xCD);
  ok(cudaFree(address));
}

TEST(EmulatedMemory, CopiesMustLieWithinOneAllocation) {
  const DeviceBytes memory(100);
  const std::vector<unsigned char> host(101);
  EXPECT_EQ(cudaMemcpy(memory.get(), host.data(), 100, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(failed(cudaMemcpy(memory.get(), host.data(), 101, cudaMemcpyHostToDevice)),
            cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemcpy(memory.get() + 1, host.data(), 100, cudaMemcpyHostToDevice)),
            cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemset(memory.get() + 100, 0, 1)), cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaMemset(const_cast<unsigned char*>(host.data()), 0, 1)), cudaErrorInvalidValue);
}

TEST(EmulatedMemory, HostThatFollowsADevicePointerDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const DeviceBytes memory(100);
        static_cast<void>(*static_cast<volatile unsigned char*>(memory.get()));
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(EmulatedMemory, FreedMemoryIsKnownAsFreed) {
  void* address = nullptr;
  ok(cudaMalloc(&address, 256));
  ok(cudaFree(address));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(failed(cudaMemset(address, 0, 1)), cudaErrorInvalidValue);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("in 256 bytes of device memory at"),
            std::string::npos);
  EXPECT_EQ(failed(cudaFree(address)), cudaErrorInvalidValue);
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, address));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST(EmulatedMemory, DeviceRunsOutOfMemoryAndGetsItBack) {
  in_process({{"BYTES", "1048576"}}, [] {
    void *first = nullptr, *second = nullptr;
    ok(cudaMalloc(&first, 1000 * 1024));
    EXPECT_EQ(free_bytes(), 24U * 1024U);
    EXPECT_EQ(cudaMalloc(&second, 25 * 1024), cudaErrorMemoryAllocation);
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    ok(cudaFree(first));
    EXPECT_EQ(free_bytes(), 1048576U);
    EXPECT_EQ(failed(cudaMalloc(&second, std::size_t{1} << 62)), cudaErrorMemoryAllocation);
    ok(cudaMalloc(&second, 1048576));
  });
}

TEST(EmulatedMemory, EachDeviceHasItsOwnBytes) {
  in_process({{"DEVICES", "3"}, {"BYTES", "1048576,2097152"}}, [] {
    for (const auto& [device, bytes] : std::map<int, std::size_t>{{0, 1048576}, {1, 2097152}, {2, 2097152}}) {
      ok(cudaSetDevice(device));
      cudaDeviceProp properties{};
      ok(cudaGetDeviceProperties(&properties, device));
      EXPECT_EQ(properties.totalGlobalMem, bytes);
      EXPECT_EQ(free_bytes(), bytes);
      void* address = nullptr;
      EXPECT_EQ(failed(cudaMalloc(&address, bytes + 1)), cudaErrorMemoryAllocation);
      ok(cudaMalloc(&address, bytes));
    }
  });
}

TEST(EmulatedMemory, PinnedMemoryIsTheSameForHostAndDevice) {
  const PinnedBytes memory(10);
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, memory.get() + 9));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, memory.get() + 9);
  EXPECT_EQ(attributes.hostPointer, memory.get() + 9);
  void* device = nullptr;
  ok(cudaHostGetDevicePointer(&device, memory.get(), 0));
  EXPECT_EQ(device, memory.get());
}

TEST(EmulatedMemory, RegistrationsMustNotOverlap) {
  std::vector<unsigned char> host(3 * page);
  ok(cudaHostRegister(host.data() + page, page, cudaHostRegisterDefault));
  for (const std::size_t offset : {std::size_t{0}, page - 1, page, page + 1, 2 * page - 1}) {
    EXPECT_EQ(failed(cudaHostRegister(host.data() + offset, page + 1, cudaHostRegisterDefault)),
              cudaErrorHostMemoryAlreadyRegistered)
        << offset;
  }
  EXPECT_EQ(failed(cudaHostUnregister(host.data())), cudaErrorHostMemoryNotRegistered);
  ok(cudaHostUnregister(host.data() + page));
  EXPECT_EQ(failed(cudaHostUnregister(host.data() + page)), cudaErrorHostMemoryNotRegistered);
  ok(cudaHostRegister(host.data(), 3 * page, cudaHostRegisterDefault));
  ok(cudaHostUnregister(host.data()));
}

TEST(EmulatedMemory, RegistersWhatIsMappedWithTheRightsItNeeds) {
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(failed(cudaHostRegister(pages, page, cudaHostRegisterDefault)), cudaErrorInvalidValue);
  ok(cudaHostRegister(pages, page, cudaHostRegisterReadOnly));
  ok(cudaHostUnregister(pages));
  ::munmap(static_cast<char*>(pages) + page, page);
  EXPECT_EQ(failed(cudaHostRegister(pages, 2 * page, cudaHostRegisterReadOnly)), cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaHostRegister(pages, 0, cudaHostRegisterReadOnly)), cudaErrorInvalidValue);
  ::munmap(pages, page);
}

TEST(EmulatedMemory, ManagedMemoryIsRefused) {
  void* address = nullptr;
  EXPECT_EQ(failed(cudaMallocManaged(&address, 10, cudaMemAttachGlobal)), cudaErrorNotSupported);
}

TEST(EmulatedMemory, BytesOfAnAddressAreToldToOperators) {
  const DeviceBytes memory(8, 7);
  const auto* const bytes = static_cast<const unsigned char*>(emulated_gpu_bytes(memory.get() + 3));
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(*bytes, 7);
  EXPECT_EQ(emulated_gpu_bytes(memory.get() + 8), nullptr);
  const int local = 1;
  EXPECT_EQ(emulated_gpu_bytes(&local), &local);
  EXPECT_EQ(emulated_gpu_marker, 1);
}

TEST(EmulatedMemory, ContextsAreCreatedByTheDevicesThatAreUsed) {
  in_process({{"DEVICES", "2"}}, [] {
    int count = 0;
    ok(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 2);
    cudaDeviceProp properties{};
    ok(cudaGetDeviceProperties(&properties, 1));
    EXPECT_EQ(emulated_gpu_has_context(0) + emulated_gpu_has_context(1), 0);
    ok(cudaSetDevice(1));
    const DeviceBytes memory(10);
    EXPECT_EQ(emulated_gpu_has_context(0), 0);
    EXPECT_EQ(emulated_gpu_has_context(1), 1);
    EXPECT_EQ(failed(cudaSetDevice(2)), cudaErrorInvalidDevice);
  });
}

}  // namespace
}  // namespace emulated_gpu
