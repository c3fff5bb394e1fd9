#include "benchmarks/program/commands.h"

#include <algorithm>

#include "benchmarks/advise/question.h"
#include "benchmarks/program/option_table.h"
#include "reports/standard_output.h"

namespace stbench {
Execute printing(std::string text) {
  return [text = std::move(text)] {
    reports::write_standard_output(text);
    return 0;
  };
}

const std::vector<CommandSpec>& commands() {
  static const std::vector<CommandSpec> all{
      {"run", "[run] --suite LIST", "measure and report"},
      {"list", "list", "the suites, their axes and methods"},
      {"advise", "advise --rows R ...", "where a table should live: --dim --batch --step-ms", parse_advise,
       false, false, advise::question_options()},
      {"calibrate", "calibrate [OPTIONS]", "this machine's spread between runs, for compare"},
      {"show",
       "show REPORT",
       "the tables of a report written before",
       parse_show,
       false,
       true,
       {"--columns", "--sort", "--filter", "--markdown", "--color"}},
      {"compare", "compare BASE NEW", "what is slower, faster; BASE1 BASE2 -- NEW1 NEW2; --run: programs",
       parse_compare, false, true, option_names(option_rule::of_compare)},
      {"history", "history REPORT...", "each case over many reports: what changed, what creeps",
       parse_history, false, true, option_names(option_rule::of_history)},
      {"doctor",
       "doctor",
       "what on this machine would spoil a number",
       parse_doctor,
       false,
       false,
       {"--text", "--json", "--strict"}},
      {"tune", "tune", "choose how rows are moved on this machine", parse_tune, false, false, {}},
      {"completion",
       "completion SHELL",
       "for bash, zsh or fish",
       parse_completion,
       true,
       false,
       {"bash", "zsh", "fish"}},
      {"man", "man", "the man page", parse_man, true, false, {}},
      {"schema", "schema", "the JSON Schema of a report", parse_schema, true, false, {}},
  };
  return all;
}

const CommandSpec* command_named(std::string_view name) {
  const auto found = std::ranges::find(commands(), name, &CommandSpec::name);
  return found == commands().end() ? nullptr : &*found;
}

}  // namespace stbench
