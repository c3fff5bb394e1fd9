/// The one table of the options. Parsing, help, man page, completions and refusals are made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/suite/option_spec.h"

namespace stbench {

/// The options of a run in the order of the help: those of the program, and those that suites registered.
const std::vector<OptionSpec>& option_table();

/// The option of that name ("--rows"), or null.
const OptionSpec* option_named(std::string_view name);

/// The names of the options that have the rule, in that order; of all for 0.
std::vector<std::string> option_names(unsigned rule = 0);

/// The heading of a section of the help.
std::string_view title_of(OptionGroup group);

}  // namespace stbench
