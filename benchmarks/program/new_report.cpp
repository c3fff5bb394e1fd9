#include "benchmarks/program/new_report.h"

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "benchmarks/program/libtorch_environment.h"
#include "benchmarks/program/version.h"
#include "benchmarks/suite/suite.h"
#include "harness/doctor/doctor.h"
#include "harness/environment.h"
#include "reports/group.h"
#include "speedtorch/kernels/isa.h"

namespace stbench {
namespace {

std::string now_utc() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

reports::Report new_report(const Options& options, const harness::Machine& machine) {
  reports::Report report;
  report.program = program_name;
  report.argv = options.argv;
  report.seed = options.seed;
  report.started_at = now_utc();
  report.environment = harness::environment(machine, environment_sources());
  const auto isas = speedtorch::kernels::supported_isas();
  report.environment["cpu"]["kernel_isas"] = std::vector<std::string>(isas.begin(), isas.end());
  report.environment["cpu"]["kernel_isa"] = std::string(speedtorch::kernels::isa_in_use());
  report.environment["libtorch"] = libtorch_environment();
  report.environment["cuda"] = cuda_environment();
  report.environment["doctor"] =
      harness::doctor::to_json(harness::doctor::examine(harness::doctor::read_sources()));
  for (const auto& name : options.suites) {
    for (const auto& [axis, standard] : suite_named(name).axes) reports::add_once(report.axes, axis);
  }
  if (report.environment["build"].value("build_type", "") != "Release") {
    report.warnings.emplace_back("this is no Release build: its own figures are too low");
  }
  return report;
}

}  // namespace stbench
