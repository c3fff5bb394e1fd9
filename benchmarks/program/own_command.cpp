#include "benchmarks/program/own_command.h"

#include <algorithm>

#include "benchmarks/program/option_table.h"

namespace stbench {
namespace {

std::vector<std::string_view> options_of_compare() {
  std::vector<std::string_view> names;
  for (const auto& spec : option_table()) {
    if (spec.has(option_rule::of_compare)) names.emplace_back(spec.name);
  }
  return names;
}

}  // namespace

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
      {"compare", "compare BASE NEW", "what is slower or faster; several: BASE1 BASE2 -- NEW1 NEW2",
       parse_compare, false, true, options_of_compare()},
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
