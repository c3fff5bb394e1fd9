#include "benchmarks/own_command.h"

#include <algorithm>

namespace stbench {

const std::vector<OwnCommand>& own_commands() {
  static const std::vector<OwnCommand> all{
      {"show",
       "show REPORT",
       "the tables of a report written before",
       parse_show,
       false,
       {"--columns", "--sort", "--filter", "--color"}},
      {"doctor",
       "doctor",
       "what on this machine would spoil a number",
       parse_doctor,
       false,
       {"--text", "--json", "--strict"}},
      {"completion",
       "completion SHELL",
       "for bash, zsh or fish",
       parse_completion,
       true,
       {"bash", "zsh", "fish"}},
      {"man", "man", "the man page", parse_man, true, {}},
      {"schema", "schema", "the JSON Schema of a report", parse_schema, true, {}},
  };
  return all;
}

const OwnCommand* own_command(const std::string& name) {
  const auto& all = own_commands();
  const auto found = std::ranges::find(all, name, &OwnCommand::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace stbench
