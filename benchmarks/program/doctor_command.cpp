/// `stbench doctor`: what on this machine would spoil a number.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "benchmarks/program/commands.h"
#include "benchmarks/program/libtorch_environment.h"
#include "benchmarks/program/screen.h"
#include "benchmarks/program/version.h"
#include "harness/doctor/doctor.h"
#include "harness/errors.h"
#include "harness/machine.h"
#include "reports/standard_output.h"

namespace stbench {
namespace {

using harness::doctor::Finding;
using harness::doctor::Verdict;

struct DoctorOptions {
  bool text = false;    ///< with the versions, to paste into a bug report
  bool json = false;    ///< as a report has it
  bool strict = false;  ///< exit status 1 where anything spoils numbers
};

std::string text_of(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "unknown";
}

/// Program, machine and software in a few lines, as a report has them: no names of hosts, users or folders.
std::string versions(reports::Style style) {
  reports::Report report;
  report.program = program_name;
  report.environment = harness::environment(harness::read_machine(), environment_sources());
  report.environment["libtorch"] = libtorch_environment();
  report.environment["cuda"] = cuda_environment();
  const auto& environment = report.environment;
  const auto& build = environment["build"];
  const auto revision = build["git_revision"].is_string()
                            ? build["git_revision"].get<std::string>().substr(0, 12) +
                                  (build["git_dirty"] == true ? ", changed" : "")
                            : "unknown";
  return fmt::format("{}  built by {} {}, {}, revision {}\n  {}, {}, {}\n  driver {}; {}{}{}\n\n",
                     machine_line(report, style), text_of(build, "compiler"),
                     text_of(build, "compiler_version"), text_of(build, "build_type"), revision,
                     text_of(environment["os"], "distribution"), text_of(environment["os"], "kernel"),
                     text_of(environment["os"], "architecture"),
                     text_of(environment["gpu"], "driver_version"), text_of(environment["cuda"], "found"),
                     environment["cuda"]["available"] == true ? "" : "; missing ",
                     environment["cuda"]["available"] == true ? "" : text_of(environment["cuda"], "missing"));
}

int examine(const DoctorOptions& options) {
  const auto findings = harness::doctor::examine(harness::doctor::read_sources());
  const auto style = style_for("never");
  const auto text = options.json
                        ? harness::doctor::to_json(findings).dump(2) + "\n"
                        : (options.text ? versions(style) : "") + harness::doctor::to_text(findings, style);
  reports::write_standard_output(text);
  const bool spoilt =
      std::ranges::any_of(findings, [](const Finding& one) { return one.verdict == Verdict::spoils; });
  return options.strict && spoilt ? 1 : 0;
}

}  // namespace

Execute parse_doctor(const std::vector<std::string>& words) {
  DoctorOptions options;
  CLI::App app("stbench doctor");
  app.set_help_flag();
  app.add_flag("--text", options.text)->disable_flag_override();
  app.add_flag("--json", options.json)->disable_flag_override();
  app.add_flag("--strict", options.strict)->disable_flag_override();
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format(
        "doctor: {}\ndoctor takes --text, --json and --strict, and looks at this machine", error.what()));
  }
  if (options.text && options.json)
    throw UsageError("doctor: --text and --json exclude each other: one is for people, one for programs");
  return [options] { return examine(options); };
}

}  // namespace stbench
