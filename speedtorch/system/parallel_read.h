/// A part of a file into memory: in pieces, on LibTorch's threads, straight into place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace speedtorch {

/// Reads bytes [offset, offset + bytes) of the file.
/// @param name of the file, for messages
/// @throws FileError where the system refuses, or the file ends before
void read_in_parallel(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes,
                      const std::string& name);

}  // namespace speedtorch
