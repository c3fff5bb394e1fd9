/// Asks the verifier of every case of a suite whether it looks: after an honest operation it must pass, after
/// an operation that did nothing it must fail. For verifiers_test.py, which reads what this prints.
///
/// Without words: the names of all suites. With words of `stbench run`: a line per suite, `NAME CASES HONEST
/// PASSED`: its cases, those whose honest operation passed, and those whose idle operation passed, too.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/memory/footprint_worker.h"
#include "benchmarks/program/command_line.h"
#include "benchmarks/sharded/rank_processes.h"
#include "benchmarks/suite/suite.h"
#include "harness/machine.h"
#include "speedtorch/memory/memory.h"

namespace stbench::idle_cases {
namespace {

struct Count {
  int cases = 0;
  int honest = 0;  ///< whose honest operation passed
  int idle = 0;    ///< whose idle operation passed: none of these verifiers looks
};

/// A suite whose verifier does not look: what this program must find.
class BlindGroup final : public TimedGroup {
 public:
  BlindGroup() { cases = {{.suite = "blind", .direction = "step", .method = "none", .device = "cpu"}}; }
  std::vector<harness::BenchmarkCase> prepare() override {
    return {{cases.front(), harness::Role::ours, [](int) {}, [](int) { return harness::Check{1, 0, ""}; }}};
  }
  void close(std::vector<reports::Record>& /*records*/) override {}
};

const RegisterSuite blind{{.name = "blind",
                           .summary = "its verifier does not look",
                           .axes = {},
                           .describe = [] { return std::vector<AxisInfo>{{"device", "cpu", "cpu"}}; },
                           .methods = [] { return std::vector<MethodInfo>{}; },
                           .plan =
                               [](const Options&, const harness::Machine&) {
                                 Plan plan;
                                 plan.groups.push_back(std::make_unique<BlindGroup>());
                                 return plan;
                               }}};

/// The idle method of the memory suite, which times nothing: a table that nobody fills.
const RegisterAllocator idle{
    {.name = "idle",
     .summary = "fills nothing",
     .role = harness::Role::peer,
     .placements = {"pageable"},
     .asked_only = true,
     .allocate = [](speedtorch::Placement placement, std::int64_t bytes,
                    at::Device device) { return speedtorch::allocate(placement, bytes, device); },
     .fill = [](const speedtorch::Memory&, std::int64_t, std::uint64_t) {}}};

/// Runs each step at once and times nothing.
class PlainBench final : public Bench {
 public:
  void limited(const char* /*phase*/, const std::function<void()>& step) override { step(); }
  void limited(const reports::Identity& /*id*/, const char* /*phase*/,
               const std::function<void()>& step) override {
    step();
  }
  std::vector<reports::Record> sample(std::vector<harness::BenchmarkCase>& /*cases*/) override {
    throw std::logic_error("a group that times nothing samples");
  }
  void progress(std::string_view /*what*/, double /*fraction*/) override {}
  [[nodiscard]] bool stop() const override { return false; }
};

bool passes(harness::BenchmarkCase& one, bool works) {
  constexpr int set = 1;
  one.poison(set);
  one.prepare(set);
  if (works) one.run(set);
  one.finish();
  const auto check = one.verify(set);
  return check.rows > 0 && check.mismatches == 0;
}

void ask(TimedGroup& group, Count& count) {
  auto cases = group.prepare();
  for (auto& one : cases) {
    ++count.cases;
    if (passes(one, /*works=*/true)) ++count.honest;
    if (!passes(one, /*works=*/false)) continue;
    ++count.idle;
    std::fprintf(stderr, "its verifier does not look: %s\n", case_id_of(one.id).c_str());
  }
  cases.clear();
  std::vector<reports::Record> none;
  group.close(none);
}

/// The group of a suite that times nothing has idle methods only, as the command line asked.
void ask_untimed(Group& group, Count& count) {
  PlainBench bench;
  for (const auto& record : group.measure(bench)) {
    ++count.cases, ++count.honest;
    if (record.status != reports::Status::wrong) ++count.idle;
  }
}

Count ask(const Suite& suite, const Options& options, const harness::Machine& machine) {
  Count count;
  const auto plan = suite.plan(options, machine);
  for (const auto& group : plan.groups) {
    if (auto* timed = dynamic_cast<TimedGroup*>(group.get())) {
      ask(*timed, count);
    } else {
      ask_untimed(*group, count);
    }
  }
  return count;
}

int run(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{footprint_command}) return serve_footprint();
  if (!words.empty() && words.front() == rank_command) return serve_started_rank(words);
  if (words.empty()) {
    for (const auto& suite : suites()) fmt::print("{}\n", suite.name);
    return 0;
  }
  const auto options = parse_command_line(words).options;
  const auto machine = harness::read_machine();
  for (const auto& name : options.suites) {
    const auto count = ask(suite_named(name), options, machine);
    fmt::print("{} {} {} {}\n", name, count.cases, count.honest, count.idle);
  }
  return 0;
}

}  // namespace
}  // namespace stbench::idle_cases

int main(int argc, char** argv) {
  try {
    return stbench::idle_cases::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "idle_cases: %s\n", error.what());
    return 2;
  }
}
