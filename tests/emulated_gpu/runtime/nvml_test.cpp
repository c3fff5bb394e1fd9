#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/emulated_gpu/runtime/test_help.h"

namespace emulated_gpu {
namespace {

/// A file of sensors that a test writes. It has no name: a process that ends early leaves nothing behind.
class SensorFile {
 public:
  explicit SensorFile(const std::string& content) : file_(::memfd_create("sensors", 0)) { write(content); }
  ~SensorFile() { ::close(file_); }
  SensorFile(const SensorFile&) = delete;
  void write(const std::string& content) const { std::ofstream(path()) << content; }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// The stand-in for NVIDIA's library, in a folder beside that of the test programs. No path of the build is
/// compiled in, so that checkouts share compilations.
std::string stand_in() {
  const auto programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return programs.parent_path() / "emulated_gpu/libnvidia-ml.so.1";
}

/// Calls a function of the stand-in.
template <class... Arguments>
int nvml(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen(stand_in().c_str(), RTLD_NOW);
  using Function = int (*)(Arguments...);
  const auto function = library == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library, name));
  return function == nullptr ? -1 : function(arguments...);
}

void* handle_of(unsigned device) {
  void* handle = nullptr;
  EXPECT_EQ(nvml("nvmlDeviceGetHandleByIndex_v2", device, &handle), 0);
  return handle;
}

unsigned tell(const char* name, unsigned device = 0) {
  unsigned value = 0;
  EXPECT_EQ(nvml(name, handle_of(device), &value), 0) << name;
  return value;
}

TEST(EmulatedNvml, TellsOfAHealthyGpuWithoutAFile) {
  in_process({}, [] {
    EXPECT_EQ(tell("nvmlDeviceGetCurrPcieLinkWidth"), 16U);
    unsigned long long bits = 1;
    EXPECT_EQ(nvml("nvmlDeviceGetCurrentClocksThrottleReasons", handle_of(0), &bits), 0);
    EXPECT_EQ(bits, 0U);
    void* by_bus = nullptr;
    EXPECT_EQ(nvml("nvmlDeviceGetHandleByPciBusId_v2", "00000000:3B:00.0", &by_bus), 0);
    EXPECT_EQ(by_bus, handle_of(0));
    EXPECT_EQ(nvml("nvmlDeviceGetHandleByPciBusId_v2", "00000000:3C:00.0", &by_bus), 6);
  });
}

TEST(EmulatedNvml, LeavesFailuresOfTheRuntimeToTheRuntime) {
  in_process({{"FAIL", "cudaMalloc:3"}}, [] { EXPECT_EQ(tell("nvmlDeviceGetCurrPcieLinkWidth"), 16U); });
}

TEST(EmulatedNvml, TellsWhatTheFileSaysAtEachQuestion) {
  const SensorFile file("link_width = 8  # of all\n[1]\nthrottle_bits = 0x20\nsm_clock_mhz = unsupported\n");
  in_process({{"SENSORS", file.path()}, {"DEVICES", "2"}}, [&] {
    EXPECT_EQ(tell("nvmlDeviceGetCurrPcieLinkWidth", 0), 8U);
    EXPECT_EQ(tell("nvmlDeviceGetCurrPcieLinkWidth", 1), 8U);
    unsigned long long bits = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetCurrentClocksThrottleReasons", handle_of(1), &bits), 0);
    EXPECT_EQ(bits, 0x20U);
    unsigned clock = 0;
    EXPECT_EQ(nvml("nvmlDeviceGetClockInfo", handle_of(1), 1, &clock), 3);
    EXPECT_EQ(nvml("nvmlDeviceGetClockInfo", handle_of(0), 1, &clock), 0);
    file.write("link_width = 4\n");
    EXPECT_EQ(tell("nvmlDeviceGetCurrPcieLinkWidth", 1), 4U);
  });
}

TEST(EmulatedNvml, WrongLineIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* const line : {"clock = 5", "link_width = wide", "link_width", "[one]"}) {
    const SensorFile file(std::string("# first\n") + line + "\n");
    EXPECT_EXIT(
        {
          ::setenv("EMULATED_GPU_SENSORS", file.path().c_str(), 1);
          tell("nvmlDeviceGetCurrPcieLinkWidth");
        },
        ::testing::ExitedWithCode(2), ":2: .* is neither");
  }
}

}  // namespace
}  // namespace emulated_gpu
