/// What -h, --help and --version print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stbench {

/// An entry of the help, and the group that it stands in; "--samples, --warmup N" are two options of the same
/// kind.
struct OptionHelp {
  std::string_view option, brief, more;  ///< `more` is for --help only
  bool rare = false;                     ///< the whole entry is
};
struct OptionGroup {
  std::string_view title;
  std::vector<OptionHelp> options;
  bool long_only = false;  ///< not on the one screen of -h
};

/// The options of a run, in order; Google Benchmark's and those of the program itself last.
std::vector<OptionGroup> option_groups();

/// What holds for all options, and the examples: as --help ends.
std::string_view help_notes();
std::string_view help_examples();

/// One screen: the options in groups, three examples.
std::string short_help_text();
/// Everything.
std::string long_help_text();
std::string version_text();

}  // namespace stbench
