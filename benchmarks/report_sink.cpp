#include "benchmarks/report_sink.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <regex>

#include "benchmarks/screen.h"
#include "benchmarks/suite.h"
#include "harness/google_benchmark.h"
#include "reports/csv.h"
#include "reports/error.h"
#include "reports/json.h"
#include "reports/standard_output.h"

namespace stbench {
namespace {

std::unique_ptr<reports::ReportFile> claim(const std::string& path) {
  return path.empty() ? nullptr : std::make_unique<reports::ReportFile>(path);
}

/// True if the results are in a file at the end, whatever becomes of stdout.
bool names_file(const Options& options) {
  return !(options.csv.empty() && options.json.empty() && options.benchmark_out.empty() &&
           options.events.empty() && options.save_baseline.empty());
}

/// Google Benchmark's JSON names the host; a report does not.
std::string without_host_name(const std::string& text) {
  static const std::regex host(R"re("host_name": "[^"]*")re");
  return std::regex_replace(text, host, R"("host_name": "")", std::regex_constants::format_first_only);
}

/// A file in memory for Google Benchmark, which opens its output by name: nothing is left if the process
/// dies.
class ScratchFile {
 public:
  ScratchFile() : fd_(::memfd_create("stbench", MFD_CLOEXEC)) {
    if (!fd_.valid()) throw reports::ReportError("no memory for the output of Google Benchmark");
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", fd_.get()); }

 private:
  reports::FileDescriptor fd_;
};

}  // namespace

ReportSink::ReportSink(const Options& options)
    : takes_stdout_(options.csv == "-" || options.json == "-" || options.benchmark_out == "-" ||
                    options.events == "-" || options.trace == "-"),
      shows_tables_(stbench::shows_tables(takes_stdout_, names_file(options))),
      google_benchmark_format_(options.benchmark_out_format),
      csv_(claim(options.csv)),
      json_(claim(options.json)),
      google_benchmark_(claim(options.benchmark_out)),
      trace_file_(claim(options.trace)) {
  if (!options.events.empty()) events_ = std::make_unique<EventFile>(options.events);
  if (trace_file_) trace_ = std::make_unique<harness::Trace>();
}

void ReportSink::progress(const reports::Report& report) {
  if (events_) events_->update(report);
}

std::string ReportSink::write(const reports::Report& report, const std::string& tables) {
  std::string unwritten;
  const auto attempt = [&](auto action) {
    try {
      action();
    } catch (const std::exception& error) {
      unwritten += (unwritten.empty() ? "" : "\n") + std::string(error.what());
    }
  };
  if (csv_) attempt([&] { csv_->write(reports::to_csv(report)); });
  if (json_) attempt([&] { json_->write(reports::to_json(report)); });
  attempt([&] { write_google_benchmark(report); });
  if (events_) attempt([&] { events_->end(report); });
  if (trace_) attempt([&] { trace_file_->write(trace_->to_json(report.program)); });
  if (!tables.empty()) attempt([&] { reports::write_standard_output(tables); });
  return unwritten;
}

void ReportSink::write_google_benchmark(const reports::Report& report) {
  const ScratchFile scratch;
  const auto handed =
      harness::replay(report.records, [](const reports::Record& record) { return sentence_of(record.id); },
                      {google_benchmark_ ? scratch.path() : "", google_benchmark_format_});
  std::size_t samples = 0;
  for (const auto& record : report.records) samples += record.samples_s.size();
  if (handed != samples)
    throw reports::ReportError(fmt::format("Google Benchmark was handed {} of {} samples", handed, samples));
  if (google_benchmark_) google_benchmark_->write(without_host_name(reports::read_file(scratch.path())));
}

}  // namespace stbench
