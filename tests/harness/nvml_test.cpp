#include "harness/nvml.h"

#include <gmock/gmock.h>

#include "tests/harness/message_of.h"
#include "tests/paths.h"

namespace stbench::harness {
namespace {

using stbench::test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

TEST(Nvml, ReadsWhatTheDriverTells) {
  const Nvml nvml(stbench::test::fake_nvml());
  EXPECT_EQ(nvml.driver_version(), "580.65.06");
  EXPECT_EQ(nvml.device_count(), 2);
  const GpuState state = nvml.state(0);
  EXPECT_EQ(state.name, "Fake GPU");
  EXPECT_THAT(state.memory_bytes, Optional(1000));
  EXPECT_THAT(state.memory_free_bytes, Optional(600));
  EXPECT_THAT(state.link_generation, Optional(3));
  EXPECT_THAT(state.link_generation_max, Optional(5));
  EXPECT_THAT(state.link_width, Optional(8));
  EXPECT_THAT(state.link_width_max, Optional(16));
  EXPECT_THAT(state.sm_clock_mhz, Optional(1980));
  EXPECT_THAT(state.sm_clock_max_mhz, Optional(2000));
  EXPECT_THAT(state.memory_clock_mhz, Optional(3201));
  EXPECT_THAT(state.memory_clock_max_mhz, Optional(3300));
  EXPECT_THAT(state.throttle_reasons, Optional(ElementsAre("idle", "thermal slowdown (software)")));
  EXPECT_THAT(state.mig, Optional(true));
  EXPECT_EQ(state.pci_bus_id, "00000000:3B:00.0");
  EXPECT_THAT(state.ecc, Optional(true));
  EXPECT_THAT(state.persistence, Optional(false));
  EXPECT_THAT(state.temperature_c, Optional(61));
  EXPECT_THAT(state.power_w, Optional(312.5));
  EXPECT_THAT(state.power_limit_w, Optional(700.0));
  EXPECT_THAT(state.busy_percent, Optional(42));
  EXPECT_THAT(nvml.throttle_reasons(0), Optional(ElementsAre("idle", "thermal slowdown (software)")));
  EXPECT_THAT(nvml.confidential_computing(), Optional(true));
}

TEST(Nvml, FindsADeviceByItsPlaceOnTheBus) {
  const Nvml nvml(stbench::test::fake_nvml());
  EXPECT_THAT(nvml.device_at("0001:AF:00.0"), Optional(1));      // as CUDA writes it
  EXPECT_THAT(nvml.device_at("00000000:3b:00.0"), Optional(0));  // as NVML does
  EXPECT_EQ(nvml.device_at("0000:AF:00.0"), std::nullopt);       // another domain
  EXPECT_EQ(nvml.device_at(""), std::nullopt);
  EXPECT_EQ(plain_bus_id("0000:3B:00.0"), "0:3b:0");
  EXPECT_EQ(plain_bus_id("nowhere"), "nowhere");
}

TEST(Nvml, TellsWhatSlowsDownFromWhatWasAskedFor) {
  for (const char* asked : {"idle", "application clocks", "sync boost", "display clocks", "no such reason"})
    EXPECT_FALSE(slows_down(asked)) << asked;
  for (const char* slows : {"power cap (software)", "slowdown (hardware)", "thermal slowdown (software)",
                            "thermal slowdown (hardware)", "power brake (hardware)"})
    EXPECT_TRUE(slows_down(slows)) << slows;
}

TEST(Nvml, LeavesOutWhatTheDriverDoesNotTell) {
  const GpuState state = Nvml(stbench::test::fake_nvml()).state(1);
  EXPECT_EQ(state.name, "Quiet GPU");
  EXPECT_EQ(state.memory_bytes, std::nullopt);
  EXPECT_EQ(state.link_width, std::nullopt);
  EXPECT_EQ(state.sm_clock_mhz, std::nullopt);
  EXPECT_EQ(state.throttle_reasons, std::nullopt);
  EXPECT_EQ(state.mig, std::nullopt);
  EXPECT_EQ(state.pci_bus_id, "00000001:AF:00.0");
  EXPECT_EQ(state.ecc, std::nullopt);
  EXPECT_EQ(state.persistence, std::nullopt);
  EXPECT_EQ(state.temperature_c, std::nullopt);
  EXPECT_EQ(state.power_w, std::nullopt);
  EXPECT_EQ(state.busy_percent, std::nullopt);
}

TEST(Nvml, NamesWhatFails) {
  EXPECT_EQ(message_of<NvmlError>([] { (void)Nvml(stbench::test::fake_nvml()).state(2); }),
            "NVML cannot open device 2: some reason (2)");
  EXPECT_THAT(message_of<NvmlError>([] { Nvml("libno-such-nvml.so.1"); }),
              HasSubstr("no NVIDIA driver: libno-such-nvml.so.1"));
  EXPECT_THAT(message_of<NvmlError>([] { Nvml("libc.so.6"); }), HasSubstr("no NVML"));
}

}  // namespace
}  // namespace stbench::harness
