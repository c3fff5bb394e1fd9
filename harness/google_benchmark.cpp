#include "harness/google_benchmark.h"

#include <benchmark/benchmark.h>

#include <memory>

namespace stbench::harness {
namespace {

/// Counts what it is handed; the screen is drawn from the records themselves.
class CountingReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) samples_ += run.run_type == Run::RT_Iteration && !run.error_occurred ? 1 : 0;
  }
  [[nodiscard]] std::size_t samples() const { return samples_; }

 private:
  std::size_t samples_ = 0;
};

void enroll(const reports::Record& record, const std::string& name) {
  const auto next = std::make_shared<std::size_t>(0);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&record, next](benchmark::State& state) {
        for ([[maybe_unused]] auto step : state)
          state.SetIterationTime(record.samples_s[(*next)++ % record.samples_s.size()]);
        state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * record.payload_bytes);
      })
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(static_cast<int>(record.samples_s.size()))
      ->ReportAggregatesOnly(false);
}

}  // namespace

std::size_t replay(const std::vector<reports::Record>& records,
                   const std::function<std::string(const reports::Record&)>& name_of, const std::string& out,
                   const std::string& format) {
  bool any = false;
  for (const auto& record : records) {
    if (record.samples_s.empty()) continue;
    enroll(record, name_of(record));
    any = true;
  }
  if (!any) return 0;
  std::vector<std::string> words{"stbench", "--benchmark_out=" + out, "--benchmark_out_format=" + format};
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  CountingReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.samples();
}

}  // namespace stbench::harness
