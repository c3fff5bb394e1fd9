/// Reads a part of a file into memory, on one thread or on LibTorch's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace speedtorch {

/// The result of a read: the bytes before the first error or the end of the file.
struct BytesRead {
  std::int64_t count = 0;
  int error = 0;  ///< errno, or 0
};

/// Reads bytes [offset, offset + bytes) of the file on the calling thread. Retries after a signal.
BytesRead read_bytes(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes);

/// Reads bytes [offset, offset + bytes) of the file in pieces on LibTorch's threads.
/// @param name the file's name, for messages
/// @throws FileError if the system refuses, or if the file ends before
void read_in_parallel(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes,
                      const std::string& name);

}  // namespace speedtorch
