/// Finds outputs of a command line that are one file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stbench {

/// Options that name an output, each with its path: "-" is stdout, and an empty one was not given.
using OutputPaths = std::vector<std::pair<const char*, std::string>>;

/// Each output needs a place of its own: of two in one file only the last would be left. Compares the files
/// behind symbolic and hard links, those that are still to be made, and the file that stdout goes to.
/// @throws UsageError naming the two options and the path
void require_apart(const OutputPaths& outputs);

}  // namespace stbench
