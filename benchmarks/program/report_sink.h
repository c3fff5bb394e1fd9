/// The outputs of a run: claimed before measuring, written at the end.
#pragma once

#include <memory>

#include "benchmarks/program/event_file.h"
#include "benchmarks/suite/options.h"
#include "harness/span.h"
#include "reports/files/file.h"
#include "reports/record.h"

namespace stbench {

class ReportSink {
 public:
  /// @throws reports::ReportError where a path cannot be written.
  /// @throws UsageError if stdout is closed and no file takes the results.
  explicit ReportSink(const Options& options);

  /// True if a report goes to stdout: nothing else may.
  [[nodiscard]] bool takes_stdout() const { return takes_stdout_; }

  /// True if the tables go to stdout.
  [[nodiscard]] bool shows_tables() const { return shows_tables_; }

  /// Notes in the file of --events what the report has more than at the last call. What cannot be written is
  /// said by write().
  void progress(const reports::Report& report);

  /// Writes each whole or not at all, whatever becomes of the others, and then the tables to stdout.
  /// @returns what could not be written and why, empty if all were
  [[nodiscard]] std::string write(const reports::Report& report, const std::string& tables = {});

 private:
  bool takes_stdout_, shows_tables_;
  std::string google_benchmark_format_;
  std::unique_ptr<reports::ReportFile> csv_, json_, google_benchmark_, trace_file_, markdown_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<harness::Trace> trace_;
};

}  // namespace stbench
