/// `stbench advise`: measures the choices on this machine and says where a table should live.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/advise/answer.h"
#include "benchmarks/advise/answer_text.h"
#include "benchmarks/advise/choices.h"
#include "benchmarks/program/commands.h"
#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/own_processes.h"
#include "benchmarks/program/screen.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "reports/standard_output.h"

namespace stbench {
namespace advise {
namespace {

/// What the runs left.
struct Measurements {
  std::vector<reports::Report> reports;
  int signal_status = 0;  ///< 128 + signal if one asked us to finish: the reports are incomplete then
};

Measurements measure(const std::vector<RunWords>& runs) {
  Measurements all;
  for (const auto& words : runs) {
    Options options;
    options.measuring_words = words;
    auto done = run_processes(options, 1, false);
    for (auto& report : done.reports) all.reports.push_back(std::move(report));
    if (!is_of_signal(done.exit_status)) continue;
    all.signal_status = done.exit_status;
    break;
  }
  return all;
}

/// @throws UsageError if nothing has room for the table, with what each choice needs
void require_any(const std::vector<Choice>& choices, const Question& question) {
  if (std::ranges::any_of(choices,
                          [](const Choice& one) { return one.misfit.empty() && one.unmeasured.empty(); }))
    return;
  std::vector<std::string> reasons;
  for (const auto& one : choices) {
    if (!one.misfit.empty()) reasons.push_back(fmt::format("{} {}", one.name, one.misfit));
  }
  throw UsageError(
      fmt::format("no placement has room for {} × {} {}: {}\nuse fewer --rows or a larger --memory",
                  harness::human(question.rows), question.dim, question.dtype, fmt::join(reasons, "; ")));
}

int answer(const Question& question) {
  const auto room = room_for(question);
  const auto choices = choices_for(question, room);
  require_any(choices, question);
  const auto runs = runs_for(question, choices, room);
  if (question.dry_run) return printing(plan_text(choices, runs))();
  reports::require_standard_output();  // before measuring
  const auto measured = measure(runs);
  if (measured.signal_status != 0) return measured.signal_status;
  const auto answer = answer_of(question, choices, measured.reports);
  auto text = question.json ? json_of(answer, question, room).dump(2) + "\n"
                            : text_of(answer, question, room, style_for("auto"));
  if (question.explain) text += explanation_of(answer, question);
  reports::write_standard_output(text);
  if (!answer.wrong.empty()) return 1;
  return answer.recommended ? 0 : 2;
}

}  // namespace
}  // namespace advise

Execute parse_advise(const std::vector<std::string>& words) {
  const auto question = advise::parse_question(words);
  return [question] { return advise::answer(question); };
}

}  // namespace stbench
