/// A part of a file into memory: in pieces, on LibTorch's threads, straight into place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace speedtorch {

/// What a read gave: the bytes before the first error or the end of the file.
struct BytesRead {
  std::int64_t count = 0;
  int error = 0;  ///< the system's error number, or 0
};

/// Reads bytes [offset, offset + bytes) of the file on the calling thread. Retries after a signal.
BytesRead read_bytes(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes);

/// Reads bytes [offset, offset + bytes) of the file.
/// @param name of the file, for messages
/// @throws FileError where the system refuses, or the file ends before
void read_in_parallel(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes,
                      const std::string& name);

}  // namespace speedtorch
