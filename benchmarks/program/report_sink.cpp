#include "benchmarks/program/report_sink.h"

#include <fmt/format.h>

#include "benchmarks/program/google_benchmark_process.h"
#include "benchmarks/program/screen.h"
#include "reports/error.h"
#include "reports/files/csv.h"
#include "reports/files/emulated.h"
#include "reports/files/json.h"
#include "reports/standard_output.h"

namespace stbench {
namespace {

/// The path of the tables as Markdown; empty if there is none, or if it is of the comparison.
std::string markdown_path(const Options& options) {
  return options.baseline.empty() ? options.comparison.markdown : std::string();
}

/// True if the results are in a file at the end, whatever becomes of stdout.
bool names_file(const Options& options) {
  return !(options.csv.empty() && options.json.empty() && options.benchmark_out.empty() &&
           options.events.empty() && options.save_baseline.empty() && options.comparison.markdown.empty());
}

}  // namespace

ReportSink::ReportSink(const Options& options)
    : takes_stdout_(options.csv == "-" || options.json == "-" || options.benchmark_out == "-" ||
                    options.events == "-" || options.trace == "-" || markdown_path(options) == "-"),
      shows_tables_(stbench::shows_tables(takes_stdout_, names_file(options))),
      google_benchmark_format_(options.benchmark_out_format),
      csv_(reports::claimed(options.csv)),
      json_(reports::claimed(options.json)),
      google_benchmark_(reports::claimed(options.benchmark_out)),
      trace_file_(reports::claimed(options.trace)),
      markdown_(reports::claimed(markdown_path(options))) {
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
  if (google_benchmark_)
    attempt([&] { google_benchmark_->write(google_benchmark_text(report, google_benchmark_format_)); });
  if (markdown_) attempt([&] { markdown_->write(markdown_of(report)); });
  if (events_) attempt([&] { events_->end(report); });
  if (trace_) {
    // Its spans are of the process, whatever the GPU is.
    const auto program = reports::is_emulated(report)
                             ? fmt::format("{} ({})", report.program, reports::emulated_reason)
                             : report.program;
    attempt([&] { trace_file_->write(trace_->to_json(program)); });
  }
  if (!tables.empty()) attempt([&] { reports::write_standard_output(tables); });
  return unwritten;
}

}  // namespace stbench
