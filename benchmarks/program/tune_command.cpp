/// `stbench tune`: chooses the plan of row movements for this machine, and says what it brings.
#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/program/commands.h"
#include "harness/errors.h"
#include "reports/standard_output.h"
#include "speedtorch/error.h"
#include "speedtorch/rows/host_plan.h"
#include "speedtorch/rows/plan_text.h"
#include "speedtorch/rows/tune.h"

namespace stbench {
namespace {

using speedtorch::TunedChoice;
using speedtorch::kernels::Direction;

std::string entry(const speedtorch::Plan& plan, const char* key) {
  const auto entries = speedtorch::plan_entries(plan);
  return std::ranges::find(entries, key, &std::pair<std::string, std::string>::first)->second;
}

/// A choice as in a plan.
std::string words_of(const speedtorch::kernels::RowChoice& choice) {
  speedtorch::Plan plan;
  plan.gather.small.front() = choice;
  return entry(plan, "gather.small.1");
}

std::string line_of(const TunedChoice& one) {
  auto kind = one.kind;
  std::ranges::replace(kind, '_', ' ');
  return fmt::format("{:<8} {:>5}  {:<11}  {:<24} {:<24} {:>9.2f} {:>9.2f} {:>6.2f}\n",
                     one.direction == Direction::gather ? "gather" : "scatter", one.row_bytes, kind,
                     words_of(one.standard), words_of(one.chosen), one.standard_s * 1e3, one.chosen_s * 1e3,
                     one.standard_s / one.chosen_s);
}

int tune_and_show() {
  // Before a minute of measuring.
  reports::require_standard_output();
  if (speedtorch::stored_plan_path().empty())
    throw UsageError("tune: neither XDG_CACHE_HOME nor HOME names a folder; the plan would be stored there");
  const auto tuning = speedtorch::tune();
  auto text = fmt::format("{:<8} {:>5}  {:<11}  {:<24} {:<24} {:>9} {:>9} {:>6}\n", "move", "bytes", "rows",
                          "default", "chosen", "ms", "ms", "gain");
  for (const auto& one : tuning.choices) text += line_of(one);
  text += fmt::format(
      "\na choice: stores, cache that lines are prefetched to, lines ahead, one line in so many of a long "
      "row (0: all of them, between the stores of an earlier row), times as far ahead for a row's first "
      "line\n"
      "ms: 64 MiB (small: 16 MiB, 192 KiB a time) moved and read once, by the default and by the choice\n"
      "large from {} bytes written (default {}), a second thread from {} (default {})\n"
      "contiguous copies, the ceilings: {} with small pages, {} with huge pages\n",
      tuning.plan.gather.large_from, speedtorch::kernels::default_plan().gather.large_from,
      tuning.plan.thread_bytes, speedtorch::kernels::default_plan().thread_bytes,
      entry(tuning.plan, "copy.small_pages"), entry(tuning.plan, "copy.huge_pages"));
  if (!tuning.complete)
    text += fmt::format("the time was over after {} widths: what was not measured keeps the default\n",
                        tuning.choices.size());
  const bool stored = !tuning.stored.empty();
  text += fmt::format("{:.2f} s; {}\n", tuning.seconds,
                      stored ? "stored for this processor, core count and version" : "not stored");
  reports::write_standard_output(text);
  if (!stored) throw speedtorch::FileError("the plan is not stored: " + tuning.not_stored);
  return 0;
}

}  // namespace

Execute parse_tune(const std::vector<std::string>& words) {
  if (!words.empty())
    throw UsageError(fmt::format("tune: '{}' is unknown; tune takes no words", words.front()));
  return tune_and_show;
}

}  // namespace stbench
