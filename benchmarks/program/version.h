#pragma once

#include <string_view>

namespace stbench {

/// Name and version, as in a report's `program`.
inline constexpr std::string_view program_name = "stbench " STBENCH_VERSION;

}  // namespace stbench
