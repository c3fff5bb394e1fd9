#include "benchmarks/program/own_command.h"

#include <algorithm>

namespace stbench {

const std::vector<CommonCommand>& common_commands() {
  static const std::vector<CommonCommand> all{
      {"run", "[run] --suite LIST", "measure and report"},
      {"list", "list", "the suites, their axes and methods"},
      {"calibrate", "calibrate [OPTIONS]", "this machine's spread between runs, for compare"},
  };
  return all;
}

const std::vector<OwnCommand>& own_commands() {
  static const std::vector<OwnCommand> all{
      {"show",
       "show REPORT",
       "the tables of a report written before",
       parse_show,
       false,
       true,
       {"--columns", "--sort", "--filter", "--color"}},
      {"compare",
       "compare BASE NEW",
       "what is slower or faster; several: BASE1 BASE2 -- NEW1 NEW2",
       parse_compare,
       false,
       true,
       {"--effect", "--metric", "--across", "--allow-missing", "--all", "--markdown", "--csv", "--json",
        "--baselines", "--color"}},
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

const OwnCommand* own_command(const std::string& name) {
  const auto& all = own_commands();
  const auto found = std::ranges::find(all, name, &OwnCommand::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace stbench
