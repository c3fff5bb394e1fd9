#include <cstring>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/runtime/fat_binary.h"
#include "tests/emulated_gpu/runtime/test_help.h"

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*);
}

namespace emulated_gpu {
namespace {

/// Stores the thread's number times 1 + (architecture's last digit) at 4 bytes each, `shift` bytes off.
std::string store_ptx(int architecture, int factor) {
  return ".version 7.8\n.target sm_" + std::to_string(architecture) + R"(
.address_size 64
.visible .entry store(.param .u64 to, .param .u32 shift)
.maxntid 128, 1, 1
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [shift];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  cvt.u64.u32 %rd5, %r1;
  add.s64 %rd4, %rd4, %rd5;
  mul.lo.s32 %r3, %r2, )" +
         std::to_string(factor) + R"(;
  st.global.u32 [%rd4], %r3;
  ret;
}
)";
}

/// Copies 4 bytes.
const std::string load_ptx = R"(.version 7.8
.target sm_90
.address_size 64
.visible .entry load(.param .u64 to, .param .u64 from)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  ld.global.u32 %r1, [%rd4];
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

/// A fat binary as nvcc lays it out, with PTX that is not packed.
class FatBinary {
 public:
  void add(int architecture, const std::string& ptx) {
    const std::size_t padded = (ptx.size() + 8) / 8 * 8;
    append(std::uint16_t{1}, std::uint16_t{0x101}, std::uint32_t{64}, std::uint64_t{padded}, std::uint32_t{0},
           std::uint32_t{0}, std::uint16_t{8}, std::uint16_t{7}, static_cast<std::uint32_t>(architecture),
           std::uint32_t{0}, std::uint32_t{0}, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0});
    entries_ += ptx + std::string(padded - ptx.size(), '\0');
  }
  /// Returns what a program passes to __cudaRegisterFatBinary; it lives as long as this object.
  void* wrapper() {
    std::string entries;
    entries.swap(entries_);
    append(std::uint32_t{0xBA55ED50}, std::uint16_t{1}, std::uint16_t{16}, std::uint64_t{entries.size()});
    file_ = entries_ + entries;
    wrapper_ = {0x466243B1, 1, file_.data(), nullptr};
    return &wrapper_;
  }

 private:
  struct Wrapper {
    std::uint32_t magic, version;
    const void* data;
    void* file_name;
  };

  template <class... Values>
  void append(Values... values) {
    (entries_.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  }

  std::string entries_, file_;
  Wrapper wrapper_{};
};

/// Programs launch a kernel by the address of such a function.
void store() {}
void load() {}
void not_registered() {}

const void* registered(FatBinary& binary, void (*function)(), const char* name) {
  __cudaRegisterFunction(__cudaRegisterFatBinary(binary.wrapper()), reinterpret_cast<const char*>(function),
                         nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  return reinterpret_cast<const void*>(function);
}

const void* store_kernel() {
  static const void* const kernel = [] {
    auto* const binary = new FatBinary;
    binary->add(75, store_ptx(75, 1));
    binary->add(90, store_ptx(90, 2));
    binary->add(100, store_ptx(100, 3));
    return registered(*binary, &store, "store");
  }();
  return kernel;
}

cudaError_t launch_store(void* to, unsigned shift, unsigned threads, cudaStream_t stream = nullptr,
                         std::size_t shared = 0) {
  void* arguments[] = {&to, &shift};
  return cudaLaunchKernel(store_kernel(), dim3(1), dim3(threads), arguments, shared, stream);
}

cudaError_t launch_load(void* to, const void* from) {
  static const void* const kernel = [] {
    auto* const binary = new FatBinary;
    binary->add(90, load_ptx);
    return registered(*binary, &load, "load");
  }();
  void* arguments[] = {&to, &from};
  return cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr);
}

std::uint32_t value_at(const DeviceBytes& memory, std::size_t index) {
  std::uint32_t value = 0;
  const auto bytes = memory.read();
  std::memcpy(&value, bytes.data() + 4 * index, sizeof value);
  return value;
}

TEST(EmulatedKernels, RunWhenTheyAreWaitedFor) {
  const DeviceBytes memory(400);
  const auto before = emulated_gpu_launches();
  ok(launch_store(memory.get(), 0, 100));
  EXPECT_EQ(emulated_gpu_launches(), before);
  ok(cudaDeviceSynchronize());
  EXPECT_EQ(emulated_gpu_launches(), before + 1);
  EXPECT_EQ(value_at(memory, 99), 198U);
}

TEST(EmulatedKernels, OldestPtxRunsIfItIsAskedFor) {
  in_process({{"PTX", "oldest"}}, [] {
    const DeviceBytes memory(400);
    ok(launch_store(memory.get(), 0, 100));
    EXPECT_EQ(value_at(memory, 99), 99U);
    cudaFuncAttributes attributes{};
    ok(cudaFuncGetAttributes(&attributes, store_kernel()));
    EXPECT_EQ(attributes.ptxVersion, 75);
  });
}

TEST(EmulatedKernels, AttributesAreThoseOfThePtx) {
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, store_kernel()));
  EXPECT_EQ(attributes.ptxVersion, 90);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 128);
  int blocks = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store_kernel(), 128, 0));
  EXPECT_EQ(blocks, 16);
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store_kernel(), 128, 100 << 10));
  EXPECT_EQ(blocks, 2);
}

TEST(EmulatedKernels, LaunchThatCudaForbidsIsRefused) {
  const DeviceBytes memory(400);
  EXPECT_EQ(failed(launch_store(memory.get(), 0, 0)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(failed(launch_store(memory.get(), 0, 1025)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(failed(launch_store(memory.get(), 0, 129)), cudaErrorInvalidValue);
  EXPECT_EQ(failed(launch_store(memory.get(), 0, 1, nullptr, (48 << 10) + 1)), cudaErrorInvalidValue);
  ok(cudaFuncSetAttribute(store_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  ok(launch_store(memory.get(), 0, 1, nullptr, 64 << 10));
  EXPECT_EQ(
      failed(cudaFuncSetAttribute(store_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10)),
      cudaErrorInvalidValue);
  EXPECT_EQ(failed(cudaLaunchKernel(reinterpret_cast<const void*>(&not_registered), dim3(1), dim3(1), nullptr,
                                    0, nullptr)),
            cudaErrorInvalidDeviceFunction);
  ok(cudaDeviceSynchronize());
}

TEST(EmulatedKernels, FaultStaysAndSaysWhere) {
  in_process(
      {},
      [] {
        const DeviceBytes memory(396);
        const Stream stream;
        ok(launch_store(memory.get(), 0, 100, stream));
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
        void* other = nullptr;
        EXPECT_EQ(cudaMalloc(&other, 1), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
      },
      "FAULT in store: .*0 bytes past the end of 396 bytes of device memory");
}

TEST(EmulatedKernels, MisalignedAccessIsAFault) {
  in_process(
      {},
      [] {
        const DeviceBytes memory(400);
        ok(launch_store(memory.get(), 2, 1));
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorMisalignedAddress);
      },
      "FAULT in store");
}

TEST(EmulatedKernels, HostMemoryMustBeRegisteredAndWritable) {
  for (const unsigned flags : {0U, unsigned{cudaHostRegisterReadOnly}, 99U}) {
    in_process({}, [&] {
      alignas(64) static std::uint32_t host[16];
      const bool registers = flags != 99;
      if (registers) ok(cudaHostRegister(host, sizeof host, flags));
      ok(launch_store(host, 0, 16));
      EXPECT_EQ(cudaDeviceSynchronize(), flags == 0 ? cudaSuccess : cudaErrorIllegalAddress);
      EXPECT_EQ(host[15], flags == 0 ? 30U : 0U);
    });
  }
}

TEST(EmulatedKernels, PeerMemoryNeedsAccess) {
  for (const bool access : {false, true}) {
    in_process(
        {{"DEVICES", "2"}},
        [&] {
          const DeviceBytes memory(400);
          ok(cudaSetDevice(1));
          if (access) ok(cudaDeviceEnablePeerAccess(0, 0));
          ok(launch_store(memory.get(), 0, 100));
          EXPECT_EQ(cudaDeviceSynchronize(), access ? cudaSuccess : cudaErrorIllegalAddress);
        },
        access ? "" : "to which device 1 has no peer access");
  }
}

/// Memory that a copy filled is as written as what was copied.
TEST(EmulatedKernels, UnwrittenBytesAreFoundIfAskedFor) {
  enum class Before { nothing, fill, copy_of_written, copy_of_unwritten, told };
  for (const auto before :
       {Before::nothing, Before::fill, Before::copy_of_written, Before::copy_of_unwritten, Before::told}) {
    const bool right = before != Before::nothing && before != Before::copy_of_unwritten;
    in_process({{"CHECKS", "unwritten"}}, [&] {
      const DeviceBytes written(4);
      void *fresh = nullptr, *other = nullptr;
      ok(cudaMalloc(&fresh, 4));
      ok(cudaMalloc(&other, 4));
      if (before == Before::fill) ok(cudaMemset(fresh, 0, 4));
      if (before == Before::copy_of_written) ok(cudaMemcpy(fresh, written.get(), 4, cudaMemcpyDefault));
      if (before == Before::copy_of_unwritten) ok(cudaMemcpy(fresh, other, 4, cudaMemcpyDefault));
      if (before == Before::told) emulated_gpu_wrote(fresh, 4);
      ok(launch_load(written.get(), fresh));
      EXPECT_EQ(cudaDeviceSynchronize() == cudaSuccess, right) << static_cast<int>(before);
    });
  }
}

TEST(EmulatedKernels, LaunchThatIsToFailFails) {
  in_process({{"FAIL", "cudaLaunchKernel:2"}}, [] {
    const DeviceBytes memory(400);
    ok(launch_store(memory.get(), 0, 1));
    EXPECT_EQ(launch_store(memory.get(), 0, 1), cudaErrorLaunchOutOfResources);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchOutOfResources);
    ok(launch_store(memory.get(), 0, 1));
    ok(cudaDeviceSynchronize());
  });
}

TEST(EmulatedKernels, ArgumentsAreReadAtTheLaunchAndAGraphRepeatsThem) {
  const DeviceBytes memory(400);
  const Stream stream;
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ok(launch_store(memory.get(), 0, 100, stream));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  ok(cudaGraphInstantiate(&executable, graph, 0));
  ok(cudaGraphLaunch(executable, stream));
  ok(cudaStreamSynchronize(stream));
  EXPECT_EQ(value_at(memory, 99), 198U);
  ok(cudaGraphExecDestroy(executable));
  ok(cudaGraphDestroy(graph));
}

TEST(EmulatedFatBinary, TakesTheNewestOrOldestPtxThatTheDeviceRuns) {
  FatBinary binary;
  binary.add(75, "of 75");
  binary.add(90, "of 90");
  binary.add(100, "of 100");
  const void* const wrapper = binary.wrapper();
  EXPECT_EQ(ptx_of_fat_binary(wrapper, 90, true).text, "of 90");
  EXPECT_EQ(ptx_of_fat_binary(wrapper, 90, false).text, "of 75");
  EXPECT_EQ(ptx_of_fat_binary(wrapper, 120, true).architecture, 100);
  EXPECT_THROW(ptx_of_fat_binary(wrapper, 70, true), std::runtime_error);
}

TEST(EmulatedFatBinary, UnpacksLz4AndRefusesDamage) {
  const auto unpack = [](const std::string& packed, std::size_t bytes) {
    return unpack_lz4(reinterpret_cast<const std::uint8_t*>(packed.data()), packed.size(), bytes);
  };
  // 3 literals, then 9 bytes from 3 before; then 2 literals.
  EXPECT_EQ(unpack(std::string("\x35"
                               "abc\x03\x00\x20xy",
                               9),
                   14),
            "abcabcabcabcxy");
  // 15 + 2 literals.
  EXPECT_EQ(unpack(std::string("\xF0\x02") + "0123456789abcdefg", 17), "0123456789abcdefg");
  EXPECT_THROW(unpack("\x50"
                      "abc",
                      5),
               std::runtime_error);
  EXPECT_THROW(unpack(std::string("\x10"
                                  "a\x02\x00",
                                  4),
                      5),
               std::runtime_error);
  EXPECT_THROW(unpack("\x10"
                      "a",
                      2),
               std::runtime_error);
}

}  // namespace
}  // namespace emulated_gpu
