/// The file that a path means.
#pragma once

#include <string>

namespace stbench::reports {

/// The file at the end of symbolic links, which need not exist yet. A report is written there, so that it
/// does not take the place of a link.
std::string destination_of(const std::string& path);

}  // namespace stbench::reports
