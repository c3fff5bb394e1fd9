#include "benchmarks/program/google_benchmark_process.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/suite/started_process.h"
#include "benchmarks/suite/suite.h"
#include "harness/google_benchmark.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "reports/files/json.h"
#include "reports/standard_output.h"
#include "reports/style.h"

namespace stbench {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw reports::ReportError(fmt::format("Google Benchmark's output cannot be written: {}", why));
}

/// A file in memory, so that nothing is left if the process dies.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("stbench", MFD_CLOEXEC)) {
    if (!file_.valid()) refuse(reports::system_reason(errno));
  }
  [[nodiscard]] int get() const { return file_.get(); }
  [[nodiscard]] std::string text() const {
    return reports::read_file(fmt::format("/proc/self/fd/{}", file_.get()));
  }

 private:
  speedtorch::Descriptor file_;
};

/// The environment without what Google Benchmark takes for options.
std::vector<char*> environment() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("BENCHMARK_")) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

/// Starts this program as google_benchmark_command. @returns its exit status, 128 + signal if it was killed
int run_process(const std::string& format, int input, int output, int messages) {
  const pid_t process = start_program(this_program, {"stbench", google_benchmark_command, format},
                                      {input, output, messages}, environment().data());
  if (process < 0) refuse(fmt::format("cannot start a process: {}", reports::system_reason(-process)));
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) refuse(fmt::format("lost a process: {}", reports::system_reason(errno)));
  }
  return exit_status_of_process(status);
}

/// Google Benchmark's JSON names the host; a report does not.
std::string without_host_name(std::string text) {
  constexpr std::string_view kBefore = "\"host_name\": \"";
  const auto found = text.find(kBefore);
  if (found == std::string::npos) return text;
  const auto begin = found + kBefore.size();
  return text.erase(begin, text.find('"', begin) - begin);
}

}  // namespace

std::string google_benchmark_text(const reports::Report& report, const std::string& format) {
  const MemoryFile input, output, messages;
  if (const int error = reports::write_whole(input.get(), reports::to_json(report)); error != 0)
    refuse(reports::system_reason(error));
  const int status = run_process(format, input.get(), output.get(), messages.get());
  if (status != 0) {
    const std::string said = messages.text();
    refuse(fmt::format("its process ended with exit status {} ({}); --csv and --json do without it", status,
                       reports::one_line(said.substr(0, said.find('\n')))));
  }
  const auto text = output.text();
  // Google Benchmark writes nothing if no case has a sample. Readers of JSON take no empty file.
  if (text.empty() && format == "json") return "{\n  \"context\": {},\n  \"benchmarks\": []\n}\n";
  return without_host_name(text);
}

int serve_google_benchmark(const std::string& format) {
  const auto report = reports::read_report("/dev/stdin");
  const auto handed = harness::replay(
      report.records, [](const reports::Record& record) { return case_id_of(record.id); }, "/dev/stdout",
      format);
  std::size_t samples = 0;
  for (const auto& record : report.records) samples += record.samples_s.size();
  if (handed != samples)
    throw reports::ReportError(fmt::format("Google Benchmark was handed {} of {} samples", handed, samples));
  return 0;
}

}  // namespace stbench
