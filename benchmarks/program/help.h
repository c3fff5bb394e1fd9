/// The texts of -h, --help and --version, made from the table of options.
#pragma once

#include <string>
#include <string_view>

#include "benchmarks/suite/option_spec.h"

namespace stbench {

/// The file help_texts.txt.
extern const char* const help_texts;

/// The text of an option in --help and the man page after its brief one, on one line; may be empty.
std::string text_of_more(const OptionSpec& spec);

/// The notes on all options, and the examples, which end --help.
std::string_view help_notes();
std::string_view help_examples();

/// One screen: the options in groups, three examples.
std::string short_help_text();
/// Everything.
std::string long_help_text();
std::string version_text();

}  // namespace stbench
