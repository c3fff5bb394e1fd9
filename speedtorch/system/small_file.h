/// Reads files whose content has a known bound, such as settings.
#pragma once

#include <cstdint>
#include <string>

namespace speedtorch {

/// Returns the whole file. Never waits: a pipe is refused, and so is a device, which may have no end.
/// @param largest in bytes
/// @throws FileError naming the file, if it cannot be read, is not a regular file, or is larger
std::string read_small_file(const std::string& path, std::int64_t largest);

}  // namespace speedtorch
