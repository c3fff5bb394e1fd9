#include "harness/environment.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"

namespace stbench::harness {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST(Environment, IsAnObjectOfObjects) {
  const Json json = environment(read_machine());
  EXPECT_THAT(keys(json), ElementsAre("cpu", "memory", "os", "build", "gpu"));
  for (const auto& [name, value] : json.items()) EXPECT_TRUE(value.is_object()) << name;
}

TEST(Environment, TellsOfThisMachine) {
  const Machine machine = read_machine();
  const Json json = environment(machine);
  EXPECT_EQ(json["cpu"]["cores_allowed"], machine.allowed_cores);
  EXPECT_EQ(json["cpu"]["affinity"], cpu_ranges(machine.allowed_cpus));
  EXPECT_EQ(json["cpu"]["caches"].size(), machine.caches.size());
  EXPECT_EQ(json["memory"]["page_size"], sysconf(_SC_PAGESIZE));
  EXPECT_THAT(json["os"]["kernel"].get<std::string>(), HasSubstr("Linux "));
  EXPECT_FALSE(json["build"]["compiler"].get<std::string>().empty());
  EXPECT_FALSE(json["build"]["stbench"].get<std::string>().empty());
}

TEST(Environment, NamesNoHostUserOrFolder) {
  const std::string text = environment(read_machine()).dump();
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  // A host called "vm" or a user called "root" would be found in other words.
  if (std::string(host.data()).size() > 4) {
    EXPECT_THAT(text, Not(HasSubstr(host.data())));
  }
  for (const std::string& folder :
       std::vector<std::string>{"/home", "/root", "/tmp", "/usr", stbench::test::source_folder()}) {
    EXPECT_THAT(text, Not(HasSubstr(folder)));
  }
  const passwd* user = getpwuid(getuid());
  if (user != nullptr && std::string(user->pw_name) != "root") {
    EXPECT_THAT(text, Not(HasSubstr(user->pw_name)));
  }
}

TEST(Environment, ReadsTheKernelsFiles) {
  const stbench::test::TemporaryFolder root;
  root.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu avx2 sse4_2 avx512f avx5\n");
  root.write(
      "proc/meminfo",
      "Hugepagesize: 2048 kB\nHugePages_Total: 7\nHugePages_Free: 3\nSwapTotal: 4 kB\nSwapFree: 1 kB\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  root.write("sys/kernel/mm/transparent_hugepage/defrag", "always defer [defer+madvise] madvise never\n");
  root.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n");
  root.write("etc/os-release", "NAME=\"Some\"\nPRETTY_NAME=\"Some Linux 12 (nice)\"\n");
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  Machine machine;
  machine.allowed_cpus = {3, 4, 5, 9};
  machine.caches = {{1, 32768, 4}, {3, 1000000, 1}};
  const Json json = environment(machine, {.root = root.path(), .nvml_library = stbench::test::fake_nvml()});
  EXPECT_EQ(json["cpu"]["isa"], Json({"sse4_2", "avx2", "avx512f"}));
  EXPECT_EQ(json["cpu"]["governor"], "powersave");
  EXPECT_EQ(json["cpu"]["affinity"], "3-5,9");
  EXPECT_EQ(json["cpu"]["cpu_quota"], 1.5);
  EXPECT_EQ(json["cpu"]["model"], nullptr);
  EXPECT_EQ(json["cpu"]["caches"][1]["bytes"], 1000000);
  EXPECT_EQ(json["memory"]["transparent_hugepage"], "madvise");
  EXPECT_EQ(json["memory"]["transparent_hugepage_defrag"], "defer+madvise");
  EXPECT_EQ(json["memory"]["hugepage_size"], 2097152);
  EXPECT_EQ(json["memory"]["hugepages_total"], 7);
  EXPECT_EQ(json["memory"]["hugepages_free"], 3);
  EXPECT_EQ(json["memory"]["swap_total_bytes"], 4096);
  EXPECT_EQ(json["os"]["distribution"], "Some Linux 12 (nice)");
}

TEST(Environment, IsNullWhereNothingIsKnown) {
  const stbench::test::TemporaryFolder root;
  const Json json = environment(Machine{}, {.root = root.path(), .nvml_library = "libno-such-nvml.so.1"});
  EXPECT_EQ(json["cpu"]["governor"], nullptr);
  EXPECT_EQ(json["memory"]["transparent_hugepage"], nullptr);
  EXPECT_EQ(json["os"]["distribution"], nullptr);
  EXPECT_EQ(json["gpu"]["devices"], nullptr);
  EXPECT_THAT(json["gpu"]["reason"].get<std::string>(), HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(json["gpu"]["emulated"], false);
}

TEST(Environment, ListsTheGpus) {
  const Json gpu = environment(Machine{}, {.nvml_library = stbench::test::fake_nvml(),
                                           .cuda_bus_ids = {"0001:AF:00.0", "0000:3B:00.0"},
                                           .emulated_gpu = true})["gpu"];
  EXPECT_EQ(gpu["emulated"], true);
  EXPECT_EQ(gpu["driver_version"], "580.65.06");
  EXPECT_EQ(gpu["reason"], nullptr);
  ASSERT_EQ(gpu["devices"].size(), 2U);
  EXPECT_EQ(gpu["devices"][0]["name"], "Fake GPU");
  EXPECT_EQ(gpu["devices"][0]["sm_clock_hz"], 1980e6);
  EXPECT_EQ(gpu["devices"][0]["throttle_reasons"], Json({"idle", "thermal slowdown (software)"}));
  EXPECT_EQ(gpu["devices"][0]["mig"], true);
  EXPECT_EQ(gpu["devices"][0]["ecc"], true);
  EXPECT_EQ(gpu["devices"][0]["persistence"], false);
  EXPECT_EQ(gpu["devices"][0]["power_limit_w"], 700.0);
  EXPECT_EQ(gpu["devices"][0]["cuda"], "cuda:1");  // CUDA_VISIBLE_DEVICES=1,0
  EXPECT_EQ(gpu["devices"][1]["cuda"], "cuda:0");
  EXPECT_EQ(gpu["devices"][1]["link_generation"], nullptr);
}

TEST(CpuRanges, AreShort) {
  EXPECT_EQ(cpu_ranges({}), "");
  EXPECT_EQ(cpu_ranges({5}), "5");
  EXPECT_EQ(cpu_ranges({0, 1}), "0-1");
  EXPECT_EQ(cpu_ranges({8, 0, 2, 1, 9, 4}), "0-2,4,8-9");
}

}  // namespace
}  // namespace stbench::harness
