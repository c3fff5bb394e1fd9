#include "speedtorch/system/cgroup.h"

#include <gmock/gmock.h>

#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using testing::DoubleEq;
using testing::Optional;

class Cgroup : public testing::Test {
 protected:
  [[nodiscard]] CgroupLimits limits() const { return read_cgroup_limits(SystemFiles(folder_.path())); }

  stbench::test::TemporaryFolder folder_;
};

TEST_F(Cgroup, AMissingGroupLimitsNothing) {
  EXPECT_EQ(limits().cpus, std::nullopt);
  EXPECT_EQ(limits().memory, std::nullopt);
  EXPECT_EQ(limits().memory_available, std::nullopt);
}

TEST_F(Cgroup, Version2IsReadFromTheGroupToTheRoot) {
  folder_.write("proc/self/cgroup", "0::/a/b\n");
  folder_.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  folder_.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  folder_.write("sys/fs/cgroup/a/b/memory.max", "1000\n");
  folder_.write("sys/fs/cgroup/a/b/memory.current", "700\n");
  folder_.write("sys/fs/cgroup/a/b/memory.stat", "anon 400\ninactive_file 300\n");
  folder_.write("sys/fs/cgroup/a/memory.max", "5000\n");
  folder_.write("sys/fs/cgroup/a/memory.current", "4800\n");
  EXPECT_THAT(limits().cpus, Optional(DoubleEq(1.5)));
  EXPECT_THAT(limits().memory, Optional(1000));
  EXPECT_THAT(limits().memory_available, Optional(200));  // of the outer group: 5000 - 4800
}

TEST_F(Cgroup, Version2InAContainerIsReadAtTheMount) {
  folder_.write("proc/self/cgroup", "0::/../../host/path\n");
  folder_.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  folder_.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_THAT(limits().cpus, Optional(DoubleEq(4)));
  EXPECT_EQ(limits().memory, std::nullopt);
}

TEST_F(Cgroup, Version1IsReadByController) {
  folder_.write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/group\n1:cpu,cpuacct:/group\n0::/\n");
  folder_.write("sys/fs/cgroup/cpu,cpuacct/group/cpu.cfs_quota_us", "250000\n");
  folder_.write("sys/fs/cgroup/cpu,cpuacct/group/cpu.cfs_period_us", "100000\n");
  folder_.write("sys/fs/cgroup/memory/group/memory.limit_in_bytes", "3000\n");
  folder_.write("sys/fs/cgroup/memory/group/memory.usage_in_bytes", "1500\n");
  folder_.write("sys/fs/cgroup/memory/group/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  folder_.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_THAT(limits().cpus, Optional(DoubleEq(2.5)));
  EXPECT_THAT(limits().memory, Optional(3000));
  EXPECT_THAT(limits().memory_available, Optional(2000));
}

TEST_F(Cgroup, Version1WithoutQuotaLimitsNothing) {
  folder_.write("proc/self/cgroup", "1:cpu:/\n");
  folder_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  folder_.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().cpus, std::nullopt);
}

TEST_F(Cgroup, UsageAboveTheLimitLeavesNothing) {
  folder_.write("proc/self/cgroup", "0::/\n");
  folder_.write("sys/fs/cgroup/memory.max", "1000\n");
  folder_.write("sys/fs/cgroup/memory.current", "1200\n");
  EXPECT_THAT(limits().memory_available, Optional(0));
}

TEST_F(Cgroup, DamagedFilesLimitNothing) {
  folder_.write("proc/self/cgroup", "nonsense\n0::/\n:\n");
  folder_.write("sys/fs/cgroup/cpu.max", "150000\n");
  folder_.write("sys/fs/cgroup/memory.max", "lots\n");
  EXPECT_EQ(limits().cpus, std::nullopt);
  EXPECT_EQ(limits().memory, std::nullopt);
}

}  // namespace
}  // namespace speedtorch
