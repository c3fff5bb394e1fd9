/// The file that a path means.
#pragma once

#include <string>

namespace stbench::reports {

/// What symbolic links lead to at last, also where that does not exist yet: what is written there must not
/// take the place of a link.
std::string destination_of(const std::string& path);

}  // namespace stbench::reports
