#include "harness/machine.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/harness/temporary_folder.h"

namespace stbench::harness {
namespace {

using testing::ElementsAre;

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(Machine, AgreesWithTheKernel) {
  const Machine machine = read_machine();
  std::vector<int> cpus = machine.allowed_cpus;
  std::ranges::sort(cpus);
  EXPECT_EQ(cpus, affinity());
  EXPECT_GE(machine.allowed_cores, 1);
  EXPECT_LE(machine.allowed_cores, static_cast<int>(cpus.size()));
  EXPECT_LE(machine.physical_cores, static_cast<int>(cpus.size()));
  EXPECT_EQ(machine.smt, machine.physical_cores < static_cast<int>(cpus.size()));
  EXPECT_LE(machine.memory_total, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  EXPECT_GT(machine.memory_available, 0);
  EXPECT_LE(machine.memory_available, machine.memory_total);
  EXPECT_GE(machine.sockets, 1);
  EXPECT_GE(machine.numa_nodes, 1);
}

TEST(Machine, HasAClockThatSteps) {
  const double step = read_machine().clock_step_s;
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 1e-2);
}

TEST(Machine, HasCachesInOrder) {
  const Machine machine = read_machine();
  for (std::size_t i = 1; i < machine.caches.size(); ++i) {
    EXPECT_LT(machine.caches[i - 1].level, machine.caches[i].level);
    EXPECT_LE(machine.caches[i - 1].bytes, machine.caches[i].bytes);
  }
  if (!machine.caches.empty()) {
    EXPECT_EQ(machine.last_level_cache_bytes, machine.caches.back().bytes * machine.caches.back().count);
  }
}

TEST(Machine, SeesTheCallersAffinity) {
  const int one = affinity().back();
  Machine machine;
  std::thread pinned([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(one), &set);
    sched_setaffinity(0, sizeof set, &set);
    machine = read_machine();
  });
  pinned.join();
  EXPECT_THAT(machine.allowed_cpus, ElementsAre(one));
  EXPECT_EQ(machine.allowed_cores, 1);
  EXPECT_EQ(machine.physical_cores, 1);
  EXPECT_FALSE(machine.smt);
}

TEST(Machine, KeepsToTheCgroup) {
  const stbench::test::TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\n");
  root.write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(read_machine(root.path()).memory_total, 1'024'000);
  EXPECT_EQ(read_machine(root.path()).memory_available, 819'200);
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/memory.max", "500000\n");
  root.write("sys/fs/cgroup/memory.current", "100000\n");
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.allowed_cores, 1);
  EXPECT_EQ(machine.memory_total, 500'000);
  EXPECT_EQ(machine.memory_available, 400'000);
}

TEST(Machine, RoundsTheQuotaUp) {
  const stbench::test::TemporaryFolder root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "120000 100000\n");
  EXPECT_EQ(read_machine(root.path()).allowed_cores, std::min<int>(2, static_cast<int>(affinity().size())));
}

}  // namespace
}  // namespace stbench::harness
