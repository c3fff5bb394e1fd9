#include "harness/clock_watch.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"

namespace stbench::harness {
namespace {

using Json = nlohmann::ordered_json;
using testing::Optional;

class ClockWatchTest : public testing::Test {
 protected:
  ~ClockWatchTest() override { unsetenv("FAKE_NVML_THROTTLE"); }

  [[nodiscard]] EnvironmentSources sources() const {
    return {.root = folder_.path(), .nvml_library = "libno-such-nvml.so.1", .cuda_bus_ids = {}};
  }
  /// CUDA_VISIBLE_DEVICES=1,0: CUDA's second device is the driver's first, which tells much.
  [[nodiscard]] EnvironmentSources with_driver() const {
    return {.root = folder_.path(),
            .nvml_library = stbench::test::fake_nvml(),
            .cuda_bus_ids = {"0001:AF:00.0", "0000:3B:00.0"}};
  }

  stbench::test::TemporaryFolder folder_;
};

TEST_F(ClockWatchTest, ReadsTheCpusFiles) {
  folder_.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2100000\n");
  folder_.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "3400000\n");
  folder_.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "9900000\n");  // not measured on
  folder_.write("sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count", "5\n");
  folder_.write("sys/devices/system/cpu/cpu2/thermal_throttle/package_throttle_count", "2\n");
  folder_.write("sys/class/thermal/thermal_zone0/type", "acpitz\n");
  folder_.write("sys/class/thermal/thermal_zone0/temp", "99000\n");
  folder_.write("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  folder_.write("sys/class/thermal/thermal_zone1/temp", "61500\n");
  const Json cpu = ClockWatch(sources(), {0, 2}).read({"cpu"})["cpu"];
  EXPECT_EQ(cpu["clock_hz"], Json({2.1e9, 3.4e9}));
  EXPECT_EQ(cpu["temperature_c"], 61.5);
  EXPECT_EQ(cpu["throttle_count"], 7);
}

TEST_F(ClockWatchTest, KnowsNothingWhereNothingIsTold) {
  ClockWatch watch(sources(), {0, 1});
  const Json all = watch.read({"cpu", "cuda:0"});
  for (const char* device : {"cpu", "cuda:0"}) {
    ASSERT_TRUE(all[device].is_object());
    for (const auto& [name, value] : all[device].items())
      EXPECT_TRUE(value.is_null()) << device << " " << name;
  }
  EXPECT_EQ(watch.throttle_count("cpu"), std::nullopt);
  EXPECT_EQ(watch.throttle_count("cuda:0"), std::nullopt);
}

TEST_F(ClockWatchTest, FindsCudasDeviceAmongTheDrivers) {
  ClockWatch watch(with_driver(), {0});
  const Json all = watch.read({"cuda:0", "cuda:1", "cuda:2"});
  EXPECT_EQ(all["cuda:0"]["power_w"], nullptr);  // the quiet one
  EXPECT_EQ(all["cuda:1"]["power_w"], 312.5);
  EXPECT_EQ(all["cuda:1"]["power_limit_w"], 700.0);
  EXPECT_EQ(all["cuda:1"]["temperature_c"], 61);
  EXPECT_EQ(all["cuda:1"]["sm_clock_hz"], 1980e6);
  EXPECT_EQ(all["cuda:1"]["throttle_reasons"], Json({"idle", "thermal slowdown (software)"}));
  EXPECT_EQ(all["cuda:2"]["power_w"], nullptr);  // CUDA has no such device
}

TEST_F(ClockWatchTest, CountsUpWhileTheGpuIsThrottled) {
  ClockWatch watch(with_driver(), {0});
  setenv("FAKE_NVML_THROTTLE", "1", 1);  // idle is no throttling
  const auto quiet = watch.throttle_count("cuda:1");
  EXPECT_THAT(watch.throttle_count("cuda:1"), quiet);
  setenv("FAKE_NVML_THROTTLE", "0x40", 1);
  const auto hot = watch.throttle_count("cuda:1");
  EXPECT_GT(hot, quiet);
  EXPECT_GT(watch.throttle_count("cuda:1"), hot);
  EXPECT_EQ(watch.throttle_count("cuda:0"), std::nullopt);  // does not tell
}

TEST_F(ClockWatchTest, CountsWhatTheCpusCount) {
  const std::string file = "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count";
  folder_.write(file, "3\n");
  ClockWatch watch(sources(), {0, 1});
  EXPECT_THAT(watch.throttle_count("cpu"), Optional(3));
  folder_.write(file, "4\n");
  EXPECT_THAT(watch.throttle_count("cpu"), Optional(4));
}

}  // namespace
}  // namespace stbench::harness
