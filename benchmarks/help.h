/// What -h, --help and --version print.
#pragma once

#include <string>

namespace stbench {

/// One screen: the options in groups, three examples.
std::string short_help_text();
/// Everything.
std::string long_help_text();
std::string version_text();

}  // namespace stbench
