#include "harness/nvml.h"

#include <gmock/gmock.h>

#include "tests/harness/message_of.h"

namespace stbench::harness {
namespace {

using stbench::test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

TEST(Nvml, ReadsWhatTheDriverTells) {
  const Nvml nvml(STBENCH_FAKE_NVML);
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
}

TEST(Nvml, LeavesOutWhatTheDriverDoesNotTell) {
  const GpuState state = Nvml(STBENCH_FAKE_NVML).state(1);
  EXPECT_EQ(state.name, "Quiet GPU");
  EXPECT_EQ(state.memory_bytes, std::nullopt);
  EXPECT_EQ(state.link_width, std::nullopt);
  EXPECT_EQ(state.sm_clock_mhz, std::nullopt);
  EXPECT_EQ(state.throttle_reasons, std::nullopt);
  EXPECT_EQ(state.mig, std::nullopt);
}

TEST(Nvml, NamesWhatFails) {
  EXPECT_EQ(message_of<NvmlError>([] { (void)Nvml(STBENCH_FAKE_NVML).state(2); }),
            "NVML cannot open device 2: some reason (2)");
  EXPECT_THAT(message_of<NvmlError>([] { Nvml("libno-such-nvml.so.1"); }),
              HasSubstr("no NVIDIA driver: libno-such-nvml.so.1"));
  EXPECT_THAT(message_of<NvmlError>([] { Nvml("libc.so.6"); }), HasSubstr("no NVML"));
}

}  // namespace
}  // namespace stbench::harness
