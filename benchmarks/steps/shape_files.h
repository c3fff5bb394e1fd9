/// The files of benchmarks/steps/shapes/, which are part of the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stbench {

/// Name and content of each.
const std::vector<std::pair<std::string, std::string>>& shape_files();

}  // namespace stbench
