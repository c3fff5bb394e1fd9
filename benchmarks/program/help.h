/// What -h, --help and --version print, made from the table of options.
#pragma once

#include <string>
#include <string_view>

#include "benchmarks/suite/option_spec.h"

namespace stbench {

/// The file help_texts.txt.
extern const char* const help_texts;

/// What --help and the man page say of an option beyond its brief text, on one line; may be empty.
std::string text_of_more(const OptionSpec& spec);

/// What holds for all options, and the examples: as --help ends.
std::string_view help_notes();
std::string_view help_examples();

/// One screen: the options in groups, three examples.
std::string short_help_text();
/// Everything.
std::string long_help_text();
std::string version_text();

}  // namespace stbench
