#include "harness/doctor/doctor.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "harness/doctor/two_cpus.h"
#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"

namespace stbench::harness::doctor {
namespace {

using stbench::test::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

/// What a good machine with a GPU says, as files.
const std::map<std::string, std::string>& good_files() {
  static const std::map<std::string, std::string> files{
      {"proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n"},
      {"proc/self/limits",
       "Limit Soft Hard Units\nMax locked memory         unlimited            unlimited  bytes\n"},
      {"proc/self/cgroup", "0::/a\n"},
      {"proc/cpuinfo", "flags\t\t: fpu avx2\n"},
      {"proc/loadavg", "0.10 0.40 0.30 1/128 30559\n"},
      {"proc/stat", "cpu  1000 0 1000 5000 10 0 0 1 0 0\n"},
      {"proc/meminfo",
       "MemTotal: 1000 kB\nMemFree: 700 kB\nMemAvailable: 800 kB\nDirty: 4 kB\nWriteback: 0 kB\nSwapTotal: 0 "
       "kB\n"
       "SwapFree: 0 kB\n"},
      {"proc/sys/kernel/numa_balancing", "0\n"},
      {"sys/devices/system/cpu/online", "0-1\n"},
      {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"},
      {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"},
      {"sys/devices/system/cpu/cpufreq/boost", "0\n"},
      {"sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"},
      {"sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"},
      {"sys/devices/system/node/online", "0\n"},
      {"sys/fs/cgroup/a/cpu.max", "max 100000\n"},
      {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
      {"sys/kernel/mm/transparent_hugepage/defrag", "always defer [madvise] never\n"},
      {"sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never\n"},
      {"sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n"},
      {"sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n"},
      {"sys/bus/pci/devices/0000:3b:00.0/iommu_group/type", "identity\n"},
  };
  return files;
}

GpuState good_gpu() {
  GpuState gpu;
  gpu.name = "Fake GPU";
  gpu.link_generation = gpu.link_generation_max = 5;
  gpu.link_width = gpu.link_width_max = 16;
  gpu.throttle_reasons = std::vector<std::string>{"application clocks"};
  gpu.mig = gpu.ecc = false;
  gpu.persistence = true;
  gpu.busy_percent = 0;
  return gpu;
}

class Doctor : public testing::Test {
 protected:
  Doctor() {
    for (const auto& [name, text] : good_files()) folder_.write(name, text);
  }

  [[nodiscard]] Sources sources() const {
    BuildInfo build;
    build.build_type = "Release";
    return {speedtorch::SystemFiles(folder_.path()), gpus_, "no NVIDIA driver", build, two_cpus_};
  }

  [[nodiscard]] Finding found(const std::string& check) const {
    for (const auto& one : examine(sources())) {
      if (one.check == check) return one;
    }
    ADD_FAILURE() << "no check is called " << check;
    return {};
  }

  /// That the check says so, with rows (and a cure where it spoils).
  void expect(const std::string& check, Verdict verdict, const std::string& words) const {
    const auto one = found(check);
    EXPECT_EQ(to_string(one.verdict), to_string(verdict)) << check << ": " << one.found;
    EXPECT_THAT(one.found, HasSubstr(words)) << check;
    EXPECT_EQ(one.rows.empty(), verdict == Verdict::fine || verdict == Verdict::unknown) << check;
    EXPECT_TRUE(verdict != Verdict::spoils || !one.cure.empty()) << check;
  }

  void with(const std::string& file, const std::string& text, const std::string& check, Verdict verdict,
            const std::string& words) const {
    ASSERT_TRUE(good_files().contains(file) || verdict != Verdict::fine) << file;
    folder_.write(file, text);
    expect(check, verdict, words);
    const auto good = good_files().find(file);
    if (good != good_files().end()) {
      folder_.write(file, good->second);
    } else {
      std::filesystem::remove(folder_.path() / file);
    }
  }

  TemporaryFolder folder_;
  std::optional<Gpus> gpus_ = Gpus{{good_gpu()}, false};
  std::optional<double> two_cpus_ = 1.02;
};

TEST_F(Doctor, FindsNothingOnAGoodMachine) {
  for (const auto& one : examine(sources()))
    EXPECT_EQ(to_string(one.verdict), "fine") << one.check << ": " << one.found;
}

TEST_F(Doctor, SaysUnknownWhereItCannotRead) {
  const TemporaryFolder nothing;
  const Sources blind{speedtorch::SystemFiles(nothing.path()), std::nullopt, "no NVIDIA driver", {}};
  const std::set<std::string> told{"build", "driver", "iommu"};  // of the build, of the driver, of the bus
  for (const auto& one : examine(blind)) {
    EXPECT_TRUE(told.contains(one.check) || one.verdict == Verdict::unknown)
        << one.check << ": " << one.found;
    EXPECT_FALSE(one.found.empty()) << one.check;
  }
}

TEST_F(Doctor, SaysUnknownWhereTheDriverDoesNotTell) {
  gpus_ = Gpus{{GpuState{}}, std::nullopt};
  for (const char* check :
       {"link", "gpu-clocks", "gpu-load", "mig", "ecc", "persistence", "confidential-computing"})
    expect(check, Verdict::unknown, "the driver does not tell");
  gpus_ = Gpus{{good_gpu(), GpuState{}}, false};  // one of two is enough to be silent about
  expect("mig", Verdict::unknown, "the driver does not tell");
}

TEST_F(Doctor, LooksAtTheProcessors) {
  const std::string cpu = "sys/devices/system/cpu/";
  with(cpu + "cpu1/cpufreq/scaling_governor", "powersave\n", "governor", Verdict::spoils,
       "performance on 1 CPU, powersave on 1 CPU");
  with(cpu + "cpufreq/boost", "1\n", "turbo", Verdict::spoils, "on");
  with(cpu + "intel_pstate/no_turbo", "0\n", "turbo", Verdict::spoils, "on");
  with(cpu + "online", "0-7\n", "cpuset", Verdict::note, "2 of 8 CPUs");
  with(cpu + "vulnerabilities/meltdown", "Mitigation: PTI\n", "mitigations", Verdict::note, "meltdown");
  with(cpu + "vulnerabilities/gather_data_sampling", "Mitigation: Microcode\n", "mitigations", Verdict::note,
       "gather_data_sampling");
  with("proc/cpuinfo", "flags : fpu hypervisor avx\n", "virtual-machine", Verdict::note, "a virtual machine");
  with("proc/stat", "cpu  1000 0 1000 5000 10 0 0 500 0 0\n", "steal", Verdict::spoils, "20.0 %");
  with("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n", "clock-source",
       Verdict::spoils, "hpet");
}

TEST_F(Doctor, LooksAtTheLoad) {
  with("proc/loadavg", "0.49 9.00 9.00 1/128 30559\n", "load", Verdict::fine, "0.49 threads");
  with("proc/loadavg", "1.73 0.40 0.30 3/128 30559\n", "load", Verdict::spoils,
       "1.73 threads busy on average in the last minute, 2 beside this one now");
  with("proc/loadavg", "nonsense\n", "load", Verdict::unknown, "no load");
}

TEST_F(Doctor, LooksAtTwoCpusAtOnce) {
  expect("two-cpus", Verdict::fine, "1.0 times as long on two CPUs");
  two_cpus_ = 2.2;
  expect("two-cpus", Verdict::spoils, "2.2 times as long on two CPUs at once");
  two_cpus_ = std::nullopt;
  expect("two-cpus", Verdict::unknown, "one core only");
}

TEST_F(Doctor, LooksAtTheControlGroup) {
  with("sys/fs/cgroup/a/cpu.max", "150000 100000\n", "cpu-quota", Verdict::spoils,
       "1.5 CPUs of time on 2 CPUs");
  with("sys/fs/cgroup/a/cpu.max", "200000 100000\n", "cpu-quota", Verdict::fine, "2 CPUs of time on 2 CPUs");
  with("sys/fs/cgroup/a/memory.max", "512000\n", "memory-limit", Verdict::note, "512 kB");
  folder_.write("sys/fs/cgroup/a/memory.current", "500000\n");
  with("sys/fs/cgroup/a/memory.max", "512000\n", "memory-limit", Verdict::spoils, "12.0 kB of it left");
  with("proc/self/cgroup", "", "cpu-quota", Verdict::unknown, "no control groups");
  with("proc/self/cgroup", "", "memory-limit", Verdict::unknown, "no control groups");
}

TEST_F(Doctor, LooksAtHugePages) {
  const std::string pages = "sys/kernel/mm/transparent_hugepage/";
  with(pages + "enabled", "always madvise [never]\n", "huge-pages", Verdict::spoils, "never");
  with("proc/self/status", "Cpus_allowed_list:\t0-1\nTHP_enabled:\t0\n", "huge-pages", Verdict::spoils,
       "turned off for this process");
  with(pages + "enabled", "[always] madvise never\n", "huge-pages", Verdict::note, "always");
  with(pages + "defrag", "always defer defer+madvise madvise [never]\n", "huge-page-defrag", Verdict::spoils,
       "never");
  with(pages + "defrag", "always [defer] defer+madvise madvise never\n", "huge-page-defrag", Verdict::spoils,
       "defer");
  with(pages + "defrag", "always defer [defer+madvise] madvise never\n", "huge-page-defrag", Verdict::fine,
       "defer");
  with(pages + "shmem_enabled", "always advise [never] deny\n", "shared-huge-pages", Verdict::spoils,
       "never");
}

TEST_F(Doctor, LooksAtTheMemory) {
  with("proc/self/limits", "Max locked memory         8388608              unlimited  bytes\n", "memlock",
       Verdict::spoils, "8.39 MB may be locked");
  with("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 700 kB\nMemAvailable: 200 kB\n", "free-memory",
       Verdict::spoils, "of 1.02 MB");
  with("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 900 kB\n", "free-memory",
       Verdict::spoils, "102 kB free and 819 kB in the page cache");
  with("proc/meminfo", "Dirty: 250000 kB\nWriteback: 250000 kB\n", "dirty-pages", Verdict::spoils, "512 MB");
  with("proc/meminfo", "SwapTotal: 1000 kB\nSwapFree: 500 kB\n", "swap", Verdict::spoils,
       "512 kB of 1.02 MB in use");
  with("proc/meminfo", "SwapTotal: 1000 kB\nSwapFree: 1000 kB\n", "swap", Verdict::note, "0 B of 1.02 MB");
}

TEST_F(Doctor, LooksAtMemoryNodes) {
  folder_.write("sys/devices/system/node/online", "0-1\n");
  expect("numa-nodes", Verdict::fine, "one memory node");  // the process may use but one
  with("proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1\n", "numa-nodes",
       Verdict::spoils, "2 memory nodes");
  with("proc/sys/kernel/numa_balancing", "1\n", "numa-balancing", Verdict::spoils, "on");
}

TEST_F(Doctor, LooksAtTheBuild) {
  for (const auto& [type, flags] :
       std::map<std::string, std::string>{{"Debug", ""}, {"", ""}, {"Release", "-fsanitize=address"}}) {
    auto looked_at = sources();
    looked_at.build.build_type = type;
    looked_at.build.flags = flags;
    const auto build = examine(looked_at).front();
    EXPECT_EQ(build.check, "build");
    EXPECT_EQ(build.verdict, Verdict::spoils) << type << flags;
  }
}

TEST_F(Doctor, LooksAtTheLink) {
  auto& gpu = gpus_->devices.front();
  gpu.link_width = 8;
  expect("link", Verdict::spoils, "8 of 16 lanes");
  gpu.link_generation = 3;
  expect("link", Verdict::spoils, "8 of 16 lanes, generation 3 of 5");
  gpu.link_width = 16;
  expect("link", Verdict::spoils, "generation 3 of 5");
  gpu.throttle_reasons = std::vector<std::string>{"idle"};  // an idle GPU lowers the generation
  expect("link", Verdict::unknown, "generation 3 of 5 while idle");
  gpus_->devices.push_back(good_gpu());
  gpus_->devices.back().link_generation = 4;  // and this one works
  expect("link", Verdict::spoils, "GPU 0 of 2: generation 3 of 5; GPU 1 of 2: generation 4 of 5");
}

TEST_F(Doctor, LooksAtTheGpu) {
  const auto with_gpu = [&](auto change, const std::string& check, Verdict verdict,
                            const std::string& words) {
    gpus_ = Gpus{{good_gpu()}, false};
    change(gpus_->devices.front());
    expect(check, verdict, words);
  };
  with_gpu([](GpuState& gpu) { gpu.throttle_reasons->emplace_back("thermal slowdown (hardware)"); },
           "gpu-clocks", Verdict::spoils, "thermal slowdown (hardware)");
  with_gpu([](GpuState& gpu) { gpu.busy_percent = 42; }, "gpu-load", Verdict::spoils, "42 % busy");
  with_gpu([](GpuState& gpu) { gpu.mig = true; }, "mig", Verdict::spoils, "on");
  with_gpu([](GpuState& gpu) { gpu.ecc = true; }, "ecc", Verdict::note, "on");
  with_gpu([](GpuState& gpu) { gpu.persistence = false; }, "persistence", Verdict::spoils, "off");
  gpus_->confidential_computing = true;
  expect("confidential-computing", Verdict::note, "on");
}

TEST_F(Doctor, LooksForADriver) {
  gpus_.reset();
  expect("driver", Verdict::spoils, "no NVIDIA driver, but an NVIDIA GPU is on the bus");
  for (const char* check : {"link", "gpu-clocks", "mig", "ecc", "persistence", "confidential-computing"})
    expect(check, Verdict::unknown, "no NVIDIA driver");
  with("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x8086\n", "driver", Verdict::note,
       "no NVIDIA GPU on the bus");
  gpus_ = Gpus{};
  expect("driver", Verdict::spoils, "the driver lists no GPU");
}

TEST_F(Doctor, LooksAtTheIommu) {
  const std::string group = "sys/bus/pci/devices/0000:3b:00.0/iommu_group/";
  with(group + "type", "DMA-FQ\n", "iommu", Verdict::note, "translates the GPU's accesses (DMA-FQ)");
  with("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x8086\n", "iommu", Verdict::unknown,
       "does not show the GPU");
  std::filesystem::remove(folder_.path() / (group + "type"));
  expect("iommu", Verdict::fine, "off");
  folder_.write(group + "reserved_regions", "");
  expect("iommu", Verdict::unknown, "does not tell");
}

TEST(DoctorSources, AreTheMachineAndItsDriver) {
  const auto with_driver = read_sources({.nvml_library = stbench::test::fake_nvml()});
  ASSERT_TRUE(with_driver.gpus.has_value());
  EXPECT_EQ(with_driver.gpus->devices.size(), 2U);
  EXPECT_EQ(with_driver.gpus->confidential_computing, true);
  const auto without = read_sources({.nvml_library = "libno-such-nvml.so.1"});
  EXPECT_FALSE(without.gpus.has_value());
  EXPECT_THAT(without.no_gpus, HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(examine(without).size(), checks().size());
}

/// Measures where the kernel, in files of the test, says this of the CPUs.
std::optional<double> slowdown_where(const std::string& allowed, const std::string& siblings_of_0) {
  const TemporaryFolder folder;
  folder.write("proc/self/status", "Cpus_allowed_list:\t" + allowed + "\n");
  folder.write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", siblings_of_0 + "\n");
  return slowdown_of_two_cpus(speedtorch::SystemFiles(folder.path()));
}

TEST(TwoCpus, AreTwoThatTheKernelTakesForCores) {
  EXPECT_EQ(slowdown_where("0", "0"), std::nullopt);
  EXPECT_EQ(slowdown_where("0-1", "0-1"), std::nullopt);
  EXPECT_EQ(slowdown_where("", "0"), std::nullopt);
  EXPECT_EQ(slowdown_where("0,1023", "0"), std::nullopt) << "no thread can be pinned to CPU 1023";
}

/// Work that takes 2.5 times as long beside another, by its own account.
TEST(TwoCpus, AreMeasuredAtOnceAndAlone) {
  std::atomic<int> inside = 0;
  const auto work = [&] {
    const bool is_first = ++inside == 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool was_alone = is_first && inside == 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --inside;
    return was_alone ? 2.0 : 5.0;
  };
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const auto slowdown = slowdown_of_two_cpus(speedtorch::SystemFiles("/"), work);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one CPU";
  if (!slowdown) GTEST_SKIP() << "the CPUs are hardware threads of one core";
  EXPECT_EQ(*slowdown, 2.5);
  EXPECT_GT(busy_multipliers(), 0);
}

TEST(DoctorTexts, NameEachCheckOnceAndFitTheScreen) {
  std::set<std::string_view> names;
  for (const auto& check : checks()) EXPECT_TRUE(names.insert(check.name).second) << check.name;
  const std::vector<Finding> findings{
      {"a", Verdict::spoils, "one", "all rows", "do it"},
      {"b", Verdict::note, std::string(150, 'x'), "some", ""},
      {"c", Verdict::unknown, "not told", "", ""},
      {"d", Verdict::fine, "good", "", ""},
      {"e", Verdict::unknown, "not told", "", ""},
  };
  const auto text = to_text(findings);
  EXPECT_THAT(text, HasSubstr("Spoils numbers:\n  a: one\n    rows: all rows\n    cure: do it\n"));
  EXPECT_THAT(text, HasSubstr("Not known:\n  c, e: not told\n"));
  EXPECT_THAT(text, HasSubstr("Fine:\n  d\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  const auto json = to_json(findings);
  ASSERT_EQ(json["findings"].size(), 5U);
  EXPECT_EQ(json["findings"][0].dump(),
            R"({"check":"a","verdict":"spoils","found":"one","rows":"all rows","cure":"do it"})");
  EXPECT_EQ(json["findings"][3]["cure"], nullptr);
}

TEST(DoctorTexts, NameNoHost) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto text = to_json(examine(read_sources())).dump();
  if (std::string(host.data()).size() > 4) {
    EXPECT_THAT(text, Not(HasSubstr(host.data())));
  }
  for (const std::string& folder :
       std::vector<std::string>{"/home", "/root", "/tmp", stbench::test::source_folder()})
    EXPECT_THAT(text, Not(HasSubstr(folder)));
}

}  // namespace
}  // namespace stbench::harness::doctor
